"""Replicas of two releases that serve side by side over HTTP, while one is rolled out after the other."""

from __future__ import annotations

import asyncio
import itertools
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn

from antiphon import BY_HAND, Client, Context, PeerError, PendingRound, Server
from antiphon.errors import ConfigError
from antiphon.server import MemoryCluster
from antiphon.server.calls import request_state
from antiphon.server.calls.request_state import FORMATS, Formats
from antiphon.server.network import ServerApp
from antiphon.transports.cluster import agreed_format
from tests.support.network import until

OLD = Formats(FORMATS.last, FORMATS.last)
"""The release before this one, which does not read the present format."""

Make = Callable[..., Server]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make replicas that share keys and an engine, of one release or the other."""
    first = MemoryCluster()
    # Those of the release before are asked after often, and what they say of themselves counts for a minute.
    monkeypatch.setattr(agreed_format, "PERIOD", 0.01)
    monkeypatch.setattr(agreed_format, "_LASTING", 6_000)

    def made(formats: Formats = FORMATS, *, alone: bool = False, state_format: int | None = None) -> Server:
        monkeypatch.setattr(request_state, "FORMATS", formats)
        cluster = None if alone else MemoryCluster(first)
        server = Server("shop", keys=[b"k" * 32], cluster=cluster, state_format=state_format)

        @server.tool
        async def describe(product: str, ctx: Context) -> str:
            """Describe a product."""
            return (await ctx.sample(f"Describe {product}")).text

        return server

    return made


class Balancer:
    """One address, behind which each request goes to the replica whose turn it is."""

    def __init__(self) -> None:
        self.url = ""
        self.served = Counter[str]()
        self._apps: dict[str, ServerApp] = {}
        self._turns = itertools.cycle([""])

    def add(self, name: str, server: Server) -> None:
        """Stand before one more replica."""
        self._apps[name] = server.asgi()

    def turn_to(self, *names: str) -> None:
        """Take these replicas in turn from now on."""
        self._turns = itertools.cycle(names)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            name = next(self._turns)
            self.served[name] += 1
            await self._apps[name](scope, receive, send)

    async def leave(self, name: str) -> None:
        """Stop one of them."""
        await self._apps[name].close()

    async def park(self, at: str, product: str) -> PendingRound:
        """Call the tool at one replica, and leave what it asks unanswered."""
        self.turn_to(at)
        async with Client(self.url, sampling=BY_HAND, revision="2026-07-28", timeout=60) as client:
            step = await client.rounds.call_tool("describe", {"product": product})
            assert isinstance(step, PendingRound)
            return step

    async def go_on(self, at: str, step: PendingRound) -> str:
        """Answer it at one replica; return the result."""
        self.turn_to(at)
        async with Client(self.url, sampling=BY_HAND, revision="2026-07-28", timeout=60) as client:
            [key] = step.asks
            return (await client.rounds.resume(step, {key: "Warm."})).text


@pytest.fixture
async def replicas() -> AsyncIterator[Balancer]:
    """Run the balancer on a port of its own."""
    balancer = Balancer()
    web = uvicorn.Server(uvicorn.Config(balancer, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    running = asyncio.create_task(web.serve())
    await until(lambda: web.started)
    balancer.url = f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}/mcp"
    try:
        yield balancer
    finally:
        for name in balancer._apps:
            await balancer.leave(name)
        web.should_exit = True
        await running


def format_of(step: PendingRound) -> int:
    """Return the format of its state."""
    return int(urlsafe_b64decode((step.request_state or "")[:4])[1:2])


async def forget_old(server: Server) -> None:
    """Let the time be over for which replicas of the release before count as there."""
    replicas = server._service.replicas
    assert replicas is not None
    await replicas._cluster.delete(f"format/shop/readers/{OLD.present}")


def writes(server: Server) -> int:
    """Return the format that a server writes."""
    return server._service._seal._writes[0]


async def test_a_call_goes_on_at_a_replica_of_another_release(make: Make, replicas: Balancer) -> None:
    """In both directions while both are there, and after the roll, also if the replica that parked it has gone."""
    new = make()
    replicas.add("old", make(OLD))
    replicas.add("new", new)
    from_old, from_new = await replicas.park("old", "hat"), await replicas.park("new", "coat")
    assert format_of(from_old) == format_of(from_new) == OLD.present
    assert await replicas.go_on("new", from_old) == await replicas.go_on("old", from_new) == "Warm."
    left = await replicas.park("old", "scarf")
    await replicas.leave("old")
    await forget_old(new)
    replicas.add("newer", make())
    assert await replicas.go_on("newer", left) == "Warm."
    await until(lambda: writes(new) == FORMATS.present)
    later = await replicas.park("new", "shoe")
    assert format_of(later) == FORMATS.present
    assert await replicas.go_on("newer", later) == "Warm."


async def test_a_replica_of_the_release_before_does_not_start_after_the_roll(make: Make) -> None:
    """It could not read the sessions of the others; it says so."""
    new = make()
    async with new._service.serving():
        await until(lambda: writes(new) == FORMATS.present)
        with pytest.raises(ConfigError, match=f"write format {FORMATS.present} by now"):
            async with make(OLD)._service.serving():
                pass


async def test_without_a_cluster_the_last_format_is_written_until_one_says_otherwise(
    make: Make, replicas: Balancer
) -> None:
    """The processes do not know of each other. Once the present one is chosen, the release before refuses it."""
    replicas.add("old", make(OLD, alone=True))
    replicas.add("new", make(alone=True))
    replicas.add("chosen", make(alone=True, state_format=FORMATS.present))
    assert await replicas.go_on("old", await replicas.park("new", "hat")) == "Warm."
    assert await replicas.go_on("new", await replicas.park("chosen", "hat")) == "Warm."
    with pytest.raises(PeerError, match="Invalid or expired requestState"):
        await replicas.go_on("old", await replicas.park("chosen", "hat"))


async def test_a_session_is_served_by_replicas_of_both_releases(make: Make, replicas: Balancer) -> None:
    """Its calls, its asks and their answers pass between them; and it goes on when those of the old one have left."""
    new = make()
    replicas.add("old", make(OLD))
    replicas.add("new", new)
    replicas.turn_to("old", "new")

    async def answer(params: Any, origin: Any) -> str:
        return params.messages[-1].content.text

    async with Client(replicas.url, sampling=answer, revision="2025-11-25", timeout=60) as client:
        for number in range(6):
            assert (await client.call_tool("describe", {"product": f"{number}"})).text == f"Describe {number}"
        assert min(replicas.served["old"], replicas.served["new"]) > 5
        await replicas.leave("old")
        replicas.turn_to("new")
        await forget_old(new)
        await until(lambda: writes(new) == FORMATS.present)
        assert (await client.call_tool("describe", {"product": "last"})).text == "Describe last"
