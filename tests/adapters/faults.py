"""What an adapter must stand: servers that end in a call, huge results, and runs that overlap or are cancelled.

A test module gives ``make``, which makes the adapter of its framework, and ``run``, which has a new agent call one tool
through it and returns what its model got.
"""

from __future__ import annotations

import asyncio
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from antiphon import Client, ImageContent, Server
from antiphon.host import Host, MemoryStore, Policy, Rule
from antiphon.host.agent_run.offered_tools import MAX_RESULT
from tests.adapters.servers import PNG
from tests.host.asks import Person, approve
from tests.support.child_server import served
from tests.support.cutting import cutting
from tests.support.network import listening

__all__ = ["FAULTS", "Make", "Run", "Shop", "allow"]

Make = Callable[[Client, Host], Any]
"""Makes an adapter."""
Run = Callable[[Any, str, Mapping[str, Any]], Awaitable[str]]
"""Has a new agent call a tool of an adapter once; returns all that its model got, as text."""
Fault = Callable[[Make, Run, Path], Awaitable[None]]

MORTAL = """
import os
import signal

from antiphon import Server

server = Server("mortal")


@server.tool
def price(product: str) -> str:
    return f"{product} costs 3"


@server.tool
def end() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


if __name__ == "__main__":
    server.run()
"""


class Shop:
    """A server whose calls wait for each other or for the test, and are counted."""

    def __init__(self) -> None:
        self.server = Server("shop")
        self.bought: list[str] = []
        self.waiting, self.cancelled, self.go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        both = asyncio.Barrier(2)

        @self.server.tool
        async def meet(name: str) -> str:
            """Wait until another call is there as well."""
            await both.wait()
            return f"met: {name}"

        @self.server.tool
        async def wait() -> str:
            """Wait until told to go on."""
            self.waiting.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "waited"

        @self.server.tool
        def buy(product: str) -> str:
            """Buy something."""
            self.bought.append(product)
            return f"bought: {product}"


class Interrupted(Person):
    """A person whose first question is never answered."""

    def __init__(self) -> None:
        super().__init__(approve)
        self.asked = asyncio.Event()

    async def confirm(self, item: Any) -> Any:
        if not self.asked.is_set():
            self.asked.set()
            await asyncio.Event().wait()
        return await super().confirm(item)


def allow() -> Host:
    """Make a host that allows all calls."""
    return Host(policy=Policy(rules=(Rule(effect="allow", kind="tool"),)), reviewer=None)


@asynccontextmanager
async def using(adapter: Any) -> AsyncIterator[Any]:
    """Enter an adapter as its framework does: the Agent Development Kit enters none, and closes it at the end."""
    if adapter.framework != "google-adk":
        async with adapter:
            yield adapter
        return
    try:
        yield adapter
    finally:
        await adapter.close()


async def cancel(running: asyncio.Future[str]) -> None:
    """Cancel a run, and wait for its end."""
    running.cancel()
    await asyncio.wait([running])


async def check_killed_program(make: Make, run: Run, folder: Path) -> None:
    """The model reads how the server ended; the next call starts it again, or the model reads why not."""
    program = folder / "mortal.py"
    program.write_text(MORTAL, encoding="utf-8")
    client = Client([sys.executable, str(program)], inherit_env=True)
    async with using(make(client, allow())) as adapter:
        assert "has ended (exit code -9)" in await run(adapter, "end", {})
        assert "hat costs 3" in await run(adapter, "price", {"product": "hat"})
        program.unlink()
        assert "has ended (exit code -9)" in await run(adapter, "end", {})
        assert "has ended (exit code 2)" in await run(adapter, "price", {"product": "hat"})
        program.write_text(MORTAL, encoding="utf-8")
        assert "hat costs 3" in await run(adapter, "price", {"product": "hat"})
    assert not client.is_open


async def check_killed_server(make: Make, run: Run, folder: Path) -> None:
    """The model reads that nobody knows what the call did, and then that the server cannot be reached."""
    async with served(MORTAL, folder) as (_, place):
        client = Client(f"http://{place}/mcp")
        async with using(make(client, allow())) as adapter:
            assert "find out what it did" in await run(adapter, "end", {})
            assert "cannot reach" in await run(adapter, "price", {"product": "hat"})
    assert not client.is_open


async def check_cut_connection(revision: str, make: Make, run: Run, folder: Path) -> None:
    """The model reads that nobody knows what the call did; it is not repeated, and the next call arrives."""
    shop = Shop()
    async with (
        listening(shop.server) as network,
        cutting(network.place, 0, every=True) as (cut, place),
        using(make(Client(f"http://{place}/mcp", revision=revision), allow())) as adapter,
    ):
        assert "find out what it did" in await run(adapter, "buy", {"product": "hat"})
        assert "bought: cap" in await run(adapter, "buy", {"product": "cap"})
    assert (cut.cuts, shop.bought) == (1, ["hat", "cap"])


async def fetch(make: Make, run: Run, result: object) -> str:
    """Return what a model gets of a tool's result."""
    server = Server("huge")

    @server.tool
    def fetch() -> Any:
        """Fetch it."""
        return result

    async with using(make(Client(server), allow())) as adapter:
        return await run(adapter, "fetch", {})


def draw(size: int) -> ImageContent:
    """Make an image whose block has about so many characters, at most three less."""
    empty = len('{"type":"image","data":"","mimeType":"image/png"}')
    data = PNG.ljust((size - empty) // 4 * 3, b"\0")
    return ImageContent(data=b64encode(data).decode(), mime_type="image/png")


async def check_largest_text(make: Make, run: Run, folder: Path) -> None:
    """A text of the largest size arrives whole; of one that is longer, the model reads how much is left out."""
    got = await fetch(make, run, "x" * MAX_RESULT)
    assert (got.count("x" * 1000), "[cut" in got) == (MAX_RESULT // 1000, False)
    got = await fetch(make, run, "x" * (MAX_RESULT + 1))
    assert (got.count("x" * 1000), "[cut: 100,000 of 100,001 characters]" in got) == (MAX_RESULT // 1000, True)


async def check_largest_image(make: Make, run: Run, folder: Path) -> None:
    """An image of the largest size arrives as one; of a larger one, the model reads that it is left out."""
    image = draw(MAX_RESULT)
    got = await fetch(make, run, image)
    assert "image/png" in got
    assert len(got) > len(image.data) - 100 and "left out" not in got
    got = await fetch(make, run, draw(MAX_RESULT + 4))
    assert "[left out: ImageContent of 100,001 characters]" in got
    assert "image/png" not in got


async def check_large_data(make: Make, run: Run, folder: Path) -> None:
    """Structured content below the bound arrives; above it, its text is cut, and the data is left out."""
    got = await fetch(make, run, {"words": ["wool"] * 10_000})
    assert (got.count("wool") >= 10_000, "left out" in got, "[cut" in got) == (True, False, False)
    got = await fetch(make, run, {"words": ["wool"] * 20_000})
    assert "[cut: 100,000 of 140,011 characters]" in got
    assert "[left out: structured content of 140,011 characters]" in got
    assert len(got) < MAX_RESULT + 1000


async def check_large_frame(make: Make, run: Run, folder: Path) -> None:
    """Of a result that is larger than a message may be, the model reads that it was too large."""
    assert "too large" in await fetch(make, run, "x" * (17 * 1024 * 1024))


async def check_runs_at_once(make: Make, run: Run, folder: Path) -> None:
    """Two runs that start at once share the connection that the first of them opens."""
    shop = Shop()
    client = Client(shop.server)
    async with using(make(client, allow())) as adapter:
        got = await asyncio.gather(run(adapter, "meet", {"name": "ann"}), run(adapter, "meet", {"name": "bob"}))
    assert ["met: ann" in got[0], "met: bob" in got[1], client.is_open] == [True, True, False]


async def check_overlapping_entries(make: Make, run: Run, folder: Path) -> None:
    """A task that leaves first, though it has connected, takes nothing from another that has entered meanwhile."""
    shop = Shop()
    client = Client(shop.server)
    adapter = make(client, allow())
    connected, entered = asyncio.Event(), asyncio.Event()

    async def enter_first() -> None:
        async with using(adapter):
            await run(adapter, "buy", {"product": "hat"})
            connected.set()
            await entered.wait()

    first = asyncio.ensure_future(enter_first())
    await connected.wait()
    async with using(adapter):
        entered.set()
        await first
        assert "bought: cap" in await run(adapter, "buy", {"product": "cap"})
        assert client.is_open
    assert (client.is_open, shop.bought) == (False, ["hat", "cap"])


async def check_cancelled_run(make: Make, run: Run, folder: Path) -> None:
    """A run that is cancelled in a call takes its own call with it, and no other run's."""
    shop = Shop()
    client = Client(shop.server)
    async with using(make(client, allow())) as adapter:
        first = asyncio.ensure_future(run(adapter, "wait", {}))
        await shop.waiting.wait()
        shop.waiting.clear()
        second = asyncio.ensure_future(run(adapter, "wait", {}))
        await shop.waiting.wait()
        await cancel(first)
        await shop.cancelled.wait()
        shop.go_on.set()
        assert "waited" in await second
        assert "bought: cap" in await run(adapter, "buy", {"product": "cap"})
    assert not client.is_open


async def check_cancelled_question(make: Make, run: Run, folder: Path) -> None:
    """A run that is cancelled while a person is asked sends nothing; the next run is asked by itself."""
    shop, person, store = Shop(), Interrupted(), MemoryStore()
    async with using(make(Client(shop.server), Host(reviewer=person, store=store))) as adapter:
        first = asyncio.ensure_future(run(adapter, "buy", {"product": "hat"}))
        await person.asked.wait()
        await cancel(first)
        assert shop.bought == []
        assert "bought: cap" in await run(adapter, "buy", {"product": "cap"})
    assert (shop.bought, len(person.shown)) == (["cap"], 1)


FAULTS: dict[str, Fault] = {
    "a program is killed": check_killed_program,
    "a server is killed": check_killed_server,
    "a connection is cut, 2025-11-25": partial(check_cut_connection, "2025-11-25"),
    "a connection is cut, 2026-07-28": partial(check_cut_connection, "2026-07-28"),
    "largest text": check_largest_text,
    "largest image": check_largest_image,
    "large data": check_large_data,
    "large frame": check_large_frame,
    "two runs at once": check_runs_at_once,
    "overlapping entries": check_overlapping_entries,
    "a run is cancelled": check_cancelled_run,
    "a question is cancelled": check_cancelled_question,
}
