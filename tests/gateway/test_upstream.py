"""A server behind a gateway: started once for all who want it, stopped when nobody does, tried again later."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from antiphon import Server
from antiphon.gateway.offer import KeptLists, UpstreamOffer
from antiphon.gateway.relayed_asks import by_host
from antiphon.gateway.terms import GatewayTerms, Processes
from antiphon.gateway.upstream import Upstream, UpstreamUnavailable
from antiphon.host import Host, Policy, Scripted
from antiphon.server import CallNext, ServerRequest
from antiphon.types import Tool
from tests.support.network import moment, until
from tests.support.processes import lives


def upstream(target: Any, changed: Any = lambda kind: None, **options: Any) -> Upstream:
    """Make one whose asks are refused."""
    host = Host(Scripted([]), policy=Policy(default="allow"))
    kept = options.pop("kept", None)
    terms = GatewayTerms(host=host, processes=Processes(8, 30.0), timeout=30.0, start_timeout=30.0, idle_timeout=None)
    return Upstream("one", target, by_host(host), structs.replace(terms, **options), changed, kept)


def script(folder: Path, text: str) -> list[str]:
    """Write a program; returns its command line."""
    place = folder / "server.py"
    place.write_text(text)
    return [sys.executable, str(place), str(folder / "asked")]


class Counting(Server):
    """Counts how often it was connected to."""

    connections = 0

    async def serve(self, channel: Any, **more: Any) -> None:
        """Serve, and count."""
        self.connections += 1
        await super().serve(channel, **more)


async def test_many_who_want_it_start_it_once():
    """All at the same moment; whoever gives up waiting takes it from nobody."""
    server = Counting("one")
    server.tool(name="x")(lambda: "x")
    one = upstream(server)
    impatient = asyncio.create_task(one.start())
    others = [asyncio.create_task(one.start()) for _ in range(20)]
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(*others)
    assert (server.connections, one.state, [tool.name for tool in one.offer.tools]) == (1, "running", ["x"])
    await one.close()
    assert one.state == "stopped"
    with pytest.raises(UpstreamUnavailable, match="closing"):
        async with one.use_for(cast("ServerRequest", None)):
            pass


async def test_one_that_fails_is_not_started_again_at_once(monkeypatch: pytest.MonkeyPatch):
    """Its calls cost no process each: they say why, and when it is tried again."""
    monkeypatch.setattr("antiphon.gateway.upstream._PAUSES", (600.0,))
    one = upstream([sys.executable, "-c", "raise SystemExit('no licence')"])
    with pytest.raises(UpstreamUnavailable, match="no licence"):
        await one.start()
    assert one.state == "failed"
    with pytest.raises(UpstreamUnavailable, match=r"no licence[^;]*; it is tried again in (600|5\d\d) s"):
        await one.start()
    await one.close()


async def test_one_that_says_nothing_is_given_up():
    """Within its time; its process is ended."""
    one = upstream([sys.executable, "-c", "import time; time.sleep(600)"], start_timeout=0.5)
    with pytest.raises(UpstreamUnavailable, match=r"did not open a session within 0\.5 s"):
        await one.start()
    await one.close()


async def test_one_that_misses_the_deadline_of_calls_is_told_that_one():
    """Not the time that it had to start, which is not over."""
    one = upstream([sys.executable, "-c", "import time; time.sleep(600)"], timeout=0.5, start_timeout=600.0)
    with pytest.raises(UpstreamUnavailable, match=r"did not open a session within 0\.5 s"):
        await one.start()
    await one.close()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_it_offers_anew_is_told(revision: str):
    """A tool that it adds as soon as it runs."""
    server, news = Server("one", revisions=[revision]), asyncio.Event()
    server.tool(name="x")(lambda: "x")
    one = upstream(server, lambda kind: news.set())
    await one.start()
    news.clear()
    server.tool(name="y")(lambda: "y")
    async with asyncio.timeout(30):
        await news.wait()
    assert [tool.name for tool in one.offer.tools] == ["x", "y"]
    await one.close()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_it_adds_while_it_is_first_listed_is_kept(revision: str):
    """A server that adds a tool after its tools were listed, and before its prompts are, has both tools."""
    server = Server("one", revisions=[revision])
    server.tool(name="x")(lambda: "x")
    server.prompt(name="slow")(lambda: "slow")

    @server.middleware
    async def add(request: ServerRequest, call_next: CallNext) -> Any:
        if request.method == "prompts/list":
            server.tool(name="y")(lambda: "y")
            # Long enough for the changed list to be fetched meanwhile.
            for _ in range(100):
                await moment()
        return await call_next(request)

    one = upstream(server)
    await one.start()
    await until(lambda: [tool.name for tool in one.offer.tools] == ["x", "y"])
    await one.close()


SERVER = """
import asyncio, os, sys
from pathlib import Path
from antiphon import Context, Server

server = Server("one")

@server.tool
async def pid() -> int:
    return os.getpid()

@server.tool
async def ask(ctx: Context) -> str:
    Path(sys.argv[1]).touch()
    return (await ctx.sample("hm")).text

server.run()
"""


async def test_one_that_nobody_uses_is_stopped(tmp_path: Path):
    """But never while somebody waits for something of it; the next who wants it starts it."""
    one = upstream(script(tmp_path, SERVER), idle_timeout=0.05)
    # It rests from here on, and not for long: the time is over while somebody holds it.
    await one.start()
    async with one.running():
        first = one.process
        assert first is not None
        stop = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.2, stop.set_result, None)
        await stop
        assert (one.state, one.process) == ("running", first)
    await until(lambda: one.state == "stopped" and one.process is None)
    assert not lives(first)
    await one.start()
    assert one.process not in (None, first)
    await one.close()


async def test_one_that_waits_for_an_answer_is_not_stopped(tmp_path: Path):
    """It has asked outside of any call, and a person may answer any moment."""
    one = upstream(script(tmp_path, SERVER))
    await one.start()
    run = one._run
    assert run is not None
    session = run.client._link.session
    session.incoming[1] = cast("Any", object())
    assert not one.stop_resting()
    session.incoming.clear()
    assert one.stop_resting()
    await one.close()


async def test_one_that_dies_unused_is_started_by_the_next_who_wants_it(tmp_path: Path):
    """Its process is missed at once."""
    one = upstream(script(tmp_path, SERVER))
    await one.start()
    first = one.process
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: one.state == "stopped")
    await one.start()
    assert one.process not in (None, first)
    await one.close()


async def test_one_that_dies_while_something_holds_it_is_started_by_the_next_call(tmp_path: Path):
    """What holds it may find out late, as one that looks at a task now and then; no call is lost by that."""
    one = upstream(script(tmp_path, SERVER))
    async with one.running() as held:
        first = one.process
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: not held.is_open)
        async with one.running() as client:
            assert (await client.call_tool("pid")).structured_content not in (None, {"result": first})
    await one.close()


async def test_a_storm_of_changes_costs_one_listing_at_a_time(monkeypatch: pytest.MonkeyPatch):
    """However often it says so; and who lists is told only of what is different."""
    monkeypatch.setattr("antiphon.gateway.upstream._PACE", 600.0)
    server, told, lists = Server("one"), list[str](), list[str]()
    server.tool(name="x")(lambda: "x")

    @server.middleware
    async def count(request: ServerRequest, call_next: CallNext) -> Any:
        lists.append(request.method)
        return await call_next(request)

    one = upstream(server, told.append)
    await one.start()
    told.clear()
    before = lists.count("tools/list")
    for _ in range(500):
        server.list_changed("tools")
        await asyncio.sleep(0)
    await until(lambda: lists.count("tools/list") > before)
    server.list_changed("tools")
    async with asyncio.timeout(30), one.use_for(cast("ServerRequest", None)) as client:
        await client.ping()
    assert (lists.count("tools/list") - before, told) == (1, [])
    await one.close()


async def test_it_offers_what_was_kept_before_it_runs(tmp_path: Path):
    """And tells what is different when it does run."""
    told, target = list[str](), script(tmp_path, SERVER)
    kept = KeptLists(tmp_path / "lists").of(target, b"")
    assert kept is not None
    old = Tool(name="old", input_schema={"type": "object"})
    kept.save(UpstreamOffer(tools=(old,)))
    one = upstream(target, told.append, kept=kept)
    one.recall()
    assert (one.state, one.is_listed, one.offer.tools) == ("stopped", True, (old,))
    await one.start()
    assert told == ["tools"]
    found = kept.load()
    assert found is not None
    assert [tool.name for tool in found.tools] == [tool.name for tool in one.offer.tools] == ["pid", "ask"]
    await one.close()
