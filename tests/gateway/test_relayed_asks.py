"""Whose ask it is: answered by the host, or passed on to the request that it belongs to, and to no other."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import Raw, structs

from antiphon import Client, CreateMessageRequestParams, Origin, Server
from antiphon.errors import Rejected
from antiphon.gateway import Gateway
from antiphon.gateway.relayed_asks import Answerers, by_client, by_host
from antiphon.gateway.terms import ElicitsIn
from antiphon.host import Host, Policy, Rule, Scripted
from antiphon.server import ServerRequest
from antiphon.types import (
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequestParams,
    ElicitResult,
    Implementation,
    SamplingCapability,
)
from antiphon.wire.lossless import Received
from antiphon.wire.origin import OriginCall, Round
from tests.support.behind_gateway import CELLS, Offering, Person, host, shop

PARAMS = CreateMessageRequestParams(messages=[], max_tokens=1)
ASK = Received(Raw(b'{"messages":[],"maxTokens":1,"new":true}'), PARAMS)


class Asked:
    """Stands where a client's request is, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, str | None]] = []

    async def forward(self, method: str, ask: Received, *, key: str | None) -> Received:
        """Answer."""
        self.asked.append((method, bytes(ask.raw), key))
        return ask


def test_the_host_answers_all_but_roots():
    """It has none to give."""
    denying = Host(Scripted([]), policy=Policy(default="deny"))
    answerers = by_host(denying)
    assert answerers.sampling.capabilities == denying.capabilities
    assert answerers.elicitation.__self__.capabilities == denying.capabilities
    assert answerers.roots is None


def test_no_more_is_declared_than_the_client_offers():
    """What it lacks has no answerer; what it has is declared as it declares it."""
    offered = ClientCapabilities(sampling=SamplingCapability(tools={}))
    answerers = by_client(offered)
    assert (answerers.elicitation, answerers.roots) == (None, None)
    assert answerers.sampling.capabilities is offered


@asynccontextmanager
async def _hold_open(answerers: Answerers, asked: object, client: Client) -> AsyncGenerator[None]:
    """Hold a client's request open at the server, as a request that is passed on is."""
    during = answerers.open.during(cast("ServerRequest", asked), client)
    if during.turn is not None:
        await during.turn.acquire()
    during.begin()
    try:
        yield
    finally:
        during.end()


@pytest.mark.parametrize(("revision", "this"), [("2025-11-25", None), ("2026-07-28", Round(n=1, max=2))])
async def test_an_ask_outside_of_every_request_is_refused(revision: str, this: Round | None):
    """Before a request, and after it; within, it is that request's, with its key and all its members."""
    answerers, asked = by_client(ClientCapabilities(sampling=SamplingCapability())), Asked()
    origin = Origin(id="1", identity="x", target="x", round=this, call=OriginCall(id="1", method="tools/call"))
    async with Client(Server("s", revisions=[revision])) as client:
        with pytest.raises(Rejected, match="belongs to no open call of this client"):
            await answerers.sampling.forward(ASK, origin, "k")
        async with _hold_open(answerers, asked, client):
            assert await answerers.sampling.forward(ASK, origin, "k") is ASK
            if this is None:
                with pytest.raises(Rejected, match="belongs to no open call of this client"):
                    await answerers.sampling.forward(ASK, structs.replace(origin, call=None, unclear=True), "k")
        with pytest.raises(Rejected, match="belongs to no open call of this client"):
            await answerers.sampling.forward(ASK, origin, "k")
    assert asked.asked == [("sampling/createMessage", bytes(ASK.raw), "k")]


CLAUDE = Implementation(name="claude-code", version="2.1.80")
OLDER = Implementation(name="claude-code", version="2.1.75")
ANYBODY = Implementation(name="anybody", version="9")


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
@pytest.mark.parametrize(
    ("info", "elicits_in", "by_client"),
    [
        (CLAUDE, "auto", True),
        (OLDER, "auto", False),
        (ANYBODY, "auto", False),
        (ANYBODY, "client", True),
        (CLAUDE, "host", False),
    ],
)
async def test_an_elicitation_is_shown_where_it_is_known_to_be_shown(
    client_era: str, server_era: str, info: Implementation, elicits_in: ElicitsIn, by_client: bool
):
    """By the client that made the call, or by the host's reviewer; sampling is the host's in any case."""
    user = Offering()
    gateway = Gateway({"shop": shop(server_era)}, host("by the host"), elicits_in=elicits_in)
    offered: dict[str, Any] = {"sampling": user.sample, "elicitation": user.elicit}
    async with Client(gateway.server, revision=client_era, info=info, **offered) as client:
        assert (await client.call_tool("shop__order")).text == f"accept: {5 if by_client else 3}"
        assert (await client.call_tool("shop__describe", {"product": "a hat"})).text == "by the host"
    assert user.asked == (["How many?"] if by_client else [])


async def test_what_a_client_shows_is_decided_by_the_policy_first():
    """A rule that denies elicitations holds wherever they would be shown."""
    user = Offering()
    denying = Host(Scripted([]), policy=Policy(default="allow", rules=(Rule(effect="deny", kind="elicitation"),)))
    gateway = Gateway({"shop": shop("2025-11-25")}, denying, elicits_in="client")
    async with Client(gateway.server, elicitation=user.elicit) as client:
        assert (await client.call_tool("shop__order")).text == "decline: None"
    assert user.asked == []


class Cancelling:
    """Stands where a client's request is, and cancels a form after some seconds of its own clock."""

    def __init__(self, seconds: float) -> None:
        self.now = 100.0
        self.client = object()
        offered = ClientCapabilities(elicitation=ElicitationCapability(form={}))
        self.ctx = SimpleNamespace(request=SimpleNamespace(capabilities=offered, client=None))
        self._seconds = seconds

    async def forward(self, _method: str, _ask: Received, *, key: str | None) -> Received:
        """Cancel."""
        self.now += self._seconds
        return Received(Raw(b'{"action":"cancel"}'), ElicitResult(action="cancel"))


@pytest.mark.parametrize(
    ("seconds", "quick_cancel", "action"),
    [(0.01, 0.5, "accept"), (0.49, 0.5, "accept"), (0.51, 0.5, "cancel"), (0.0, 0.0, "cancel"), (3.0, 4.0, "accept")],
)
async def test_a_cancel_counts_as_the_persons_only_after_some_time(seconds: float, quick_cancel: float, action: str):
    """A client that cancels earlier has shown the form to nobody, so the host's reviewer is asked."""
    asked = Cancelling(seconds)
    answerers = by_host(host(), "client", quick_cancel, clock=lambda: asked.now)
    form = ElicitRequestParams(message="How many?", requested_schema={"type": "object", "properties": {}})
    origin = Origin(id="1", identity="x", target="x", call=OriginCall(id="1", method="tools/call"))
    async with Client(Server("s", revisions=["2025-11-25"])) as client, _hold_open(answerers, asked, client):
        answer = await answerers.elicitation.forward(Received(Raw(b"{}"), form), origin, None)
    assert (answer.read if isinstance(answer, Received) else answer).action == action


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
@pytest.mark.parametrize(("quick_cancel", "answer"), [(3600.0, "accept: 3"), (0.0, "cancel: None")])
async def test_a_form_that_a_client_cancels_at_once_is_reviewed_once(
    client_era: str, server_era: str, quick_cancel: float, answer: str
):
    """In every era the client is asked once, and then the host's reviewer."""
    asked: list[str] = []

    async def cancel(params: Any, origin: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="cancel")

    gateway = Gateway({"shop": shop(server_era)}, host(), quick_cancel=quick_cancel)
    async with Client(gateway.server, revision=client_era, info=CLAUDE, elicitation=cancel) as client:
        assert (await client.call_tool("shop__order")).text == answer
    assert asked == ["How many?"]


async def test_a_cancel_stands_where_the_hosts_reviewer_cannot_be_reached():
    """Nobody else could be asked."""

    class Away(Person):
        available = False

    async def cancel(params: Any, origin: Any) -> ElicitResult:
        return ElicitResult(action="cancel")

    alone = Host(Scripted([]), policy=Policy(default="allow"), reviewer=Away())
    gateway = Gateway({"shop": shop("2025-11-25")}, alone, elicits_in="client", quick_cancel=3600.0)
    async with Client(gateway.server, elicitation=cancel) as client:
        assert (await client.call_tool("shop__order")).text == "cancel: None"
