"""A server behind a gateway: started once for all who want it, tried again later and later, ended with its children."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import pytest

from antiphon import Server
from antiphon.gateway.asks import by_host
from antiphon.gateway.upstream import Unavailable, Upstream
from antiphon.host import Host, Policy, Scripted
from antiphon.server import ServerRequest


def upstream(target: Any, changed: Any = lambda kind: None, **options: Any) -> Upstream:
    """Make one whose asks are refused."""
    host = Host(Scripted([]), policy=Policy(default="allow"))
    return Upstream(
        "one", target, host, by_host(host), **{"timeout": 30.0, "start_timeout": 30.0, "changed": changed, **options}
    )


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
    with pytest.raises(Unavailable, match="closing"):
        async with one.used(cast("ServerRequest", None)):
            pass


async def test_one_that_fails_is_not_started_again_at_once(monkeypatch: pytest.MonkeyPatch):
    """Its calls cost no process each: they say why, and when it is tried again."""
    monkeypatch.setattr("antiphon.gateway.upstream._PAUSES", (600.0,))
    one = upstream([sys.executable, "-c", "raise SystemExit('no licence')"])
    with pytest.raises(Unavailable, match="no licence"):
        await one.start()
    assert one.state == "failed"
    with pytest.raises(Unavailable, match=r"no licence[^;]*; it is tried again in (600|5\d\d) s"):
        await one.start()
    await one.close()


async def test_one_that_says_nothing_is_given_up():
    """Within its time; its process is ended."""
    one = upstream([sys.executable, "-c", "import time; time.sleep(600)"], start_timeout=0.5)
    with pytest.raises(Unavailable, match=r"did not open a session within 0\.5 s"):
        await one.start()
    await one.close()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_it_offers_anew_is_told(revision: str):
    """A tool that it adds as soon as it runs."""
    server, news = Server("one", revisions=[revision]), asyncio.Event()
    server.tool(name="x")(lambda: "x")
    one = upstream(server, lambda kind: news.set())
    await one.start()
    server.tool(name="y")(lambda: "y")
    async with asyncio.timeout(30):
        await news.wait()
    assert [tool.name for tool in one.offer.tools] == ["x", "y"]
    await one.close()
