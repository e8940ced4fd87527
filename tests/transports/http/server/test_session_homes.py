"""The seam at which replicas come in: what stands behind it, and what does not know of it."""

from __future__ import annotations

from pathlib import Path

from antiphon.transports.http.server.sessions import SessionHomes
from tests.transports.http.server.driver import ask, closing, post
from tests.transports.http.server.fakes import Bench, call, initialize

SRC = Path(__file__).parents[4] / "src" / "antiphon"
MOST_FILES = 8


class Elsewhere(SessionHomes):
    """Has every session in another process, which answers 204."""

    def may_be_elsewhere(self, http):
        return b"mcp-session-id" in http.headers

    async def serve(self, http, body):
        await http.send({"type": "http.response.start", "status": 204, "headers": []})
        await http.send({"type": "http.response.body", "body": b""})

    async def opened(self, session):
        return "no place" if session.principal is None else None


def test_few_files_speak_of_replicas():
    """What is theirs stands in their own folder; the rest knows the seam, and where the parts are put together."""
    files = [path for path in SRC.rglob("*.py") if "replicas" not in path.relative_to(SRC).parts]
    found = [path.relative_to(SRC).as_posix() for path in files if "replica" in path.read_text("utf-8").lower()]
    assert len(found) <= MOST_FILES, found


async def test_a_session_that_may_be_elsewhere_is_served_there():
    """Requests with and without a body alike; the endpoint has no session of its own then."""
    bench = Bench(homes=lambda endpoint: Elsewhere(endpoint.sessions))
    async with closing(bench.app) as app:
        assert (await post(app, call("echo"), **{"mcp-session-id": "x"})).status == 204
        assert (await ask(app, "GET", **{"mcp-session-id": "x", "accept": "text/event-stream"})).status == 204
        assert (await ask(app, "DELETE", **{"mcp-session-id": "x"})).status == 204
        assert bench.peers == []


async def test_a_session_that_the_others_cannot_be_told_of_is_not_opened():
    """The client may try again later."""
    bench = Bench(homes=lambda endpoint: Elsewhere(endpoint.sessions))
    async with closing(bench.app) as app:
        response = await post(app, initialize())
        assert (response.status, len(app.sessions)) == (503, 0)
        assert b"no place" in response.body
