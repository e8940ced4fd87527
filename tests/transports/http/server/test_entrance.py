"""What a gate says to a request, as HTTP; the whole of it is in ``tests/auth/server``."""

from __future__ import annotations

import asyncio
import time

import pytest

from antiphon.protocol.caller import Caller
from antiphon.transports.http.server.entrance import schedule_expiry
from antiphon.transports.sse.server import SseApp
from tests.auth.server.protected import protected
from tests.support.network import until
from tests.transports.http.server.driver import Open as Asked
from tests.transports.http.server.driver import ask, closing, post, scope_of
from tests.transports.http.server.fakes import Bench, initialize, modern, modern_headers


async def test_what_ends_with_a_token_is_called_then():
    """At once for one that has ended already, and never for one of which nobody knows when."""
    called = []
    assert schedule_expiry(None, called.append) is None
    assert schedule_expiry(Caller("ann"), called.append) is None
    schedule_expiry(Caller("ann", expires=time.time() - 1), lambda: called.append("over"))
    late = schedule_expiry(Caller("ann", expires=1e18), lambda: called.append("late"))
    await until(lambda: called)
    assert late is not None
    assert called == ["over"]
    assert late.when() - asyncio.get_running_loop().time() < 32 * 86_400
    late.cancel()


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
async def test_a_document_is_only_read(method):
    """With the method that is allowed."""
    async with protected() as server:
        url = f"{server.origin}/.well-known/oauth-protected-resource"
        answer = await server.send(method, url, {"host": "localhost"})
    assert (answer.status, answer.headers["allow"]) == (405, "GET")


PAGE = "https://app.example"
ASKED = "content-type, authorization, mcp-session-id, mcp-protocol-version, last-event-id, mcp-method, mcp-param-region"


async def preflight(app, path="/mcp", **headers):
    """Ask as a browser does before it sends what a page wants to send."""
    sent = {"access-control-request-method": "POST", "access-control-request-headers": ASKED, **headers}
    return await Asked(app, scope_of("OPTIONS", sent, path), [b""]).done()


def cors(response):
    """Return what a response tells a browser."""
    return {name: value for name, value in response.headers.items() if name.startswith("access-control")}


async def test_a_page_that_may_call_is_told_what_it_may_send():
    """By its own name; the headers are those of the protocol, whatever their parameters are called."""
    bench = Bench(allowed_origins=[PAGE], check_token=lambda _token: None)
    async with closing(bench.app) as app:
        response = await preflight(app, origin=PAGE)
    assert response.status == 204
    told = cors(response)
    assert told["access-control-allow-origin"] == PAGE
    assert told["access-control-allow-methods"] == "GET, POST, DELETE"
    assert told["access-control-allow-headers"] == ASKED
    assert response.headers["vary"] == "Origin"
    assert bench.peers == []


async def test_headers_that_are_none_of_ours_are_not_allowed():
    """Nor is what would break the line."""
    async with closing(Bench().app) as app:
        asked = {"access-control-request-headers": "x-other, Mcp-Session-Id, mcp-\u00e9, mcp-a b, cookie"}
        response = await preflight(app, origin="http://localhost:5173", **asked)
    assert cors(response)["access-control-allow-headers"] == "mcp-session-id"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://app.example.evil.example", PAGE + ":444"])
async def test_a_foreign_page_is_told_nothing(origin):
    """403, and no header that a browser would go by."""
    async with closing(Bench(allowed_origins=[PAGE]).app) as app:
        for response in (await preflight(app, origin=origin), await post(app, initialize(), origin=origin)):
            assert response.status == 403
            assert cors(response) == {}


async def test_a_page_may_read_the_id_of_its_session():
    """And every answer, errors too."""
    async with closing(Bench(allowed_origins=[PAGE]).app) as app:
        opened = await post(app, initialize(), origin=PAGE)
        called = await post(app, modern("tell"), **modern_headers(name="tell"), origin=PAGE)
        unknown = await post(app, modern("echo"), mcp_session_id="guess", origin=PAGE)
        refused = await ask(app, "PUT", origin=PAGE)
    assert [each.status for each in (opened, called, unknown, refused)] == [200, 200, 400, 405]
    assert called.is_stream
    for each in (opened, called, unknown, refused):
        assert cors(each)["access-control-allow-origin"] == PAGE
        assert "Mcp-Session-Id" in cors(each)["access-control-expose-headers"]


async def test_a_page_may_read_that_there_is_nothing():
    """Where to sign in is looked for at several paths; to a page without these headers it looks like a lost network."""
    async with closing(Bench(allowed_origins=[PAGE]).app) as app:
        path = "/.well-known/oauth-protected-resource"
        assert (await preflight(app, path, origin=PAGE)).status == 204
        missing = await Asked(app, scope_of("GET", {"origin": PAGE}, path), [b""]).done()
        assert (missing.status, cors(missing)["access-control-allow-origin"]) == (404, PAGE)
        foreign = await Asked(app, scope_of("GET", {"origin": "https://evil.example"}, path), [b""]).done()
        assert (foreign.status, cors(foreign)) == (403, {})


async def test_everybody_is_never_said():
    """Also where every page may call, each is answered by its own name."""
    async with closing(Bench(allowed_origins=["*"]).app) as app:
        response = await preflight(app, origin="https://any.example")
    assert cors(response)["access-control-allow-origin"] == "https://any.example"


async def test_a_program_hears_nothing_of_it():
    """It sends no origin; and OPTIONS means nothing from it."""
    async with closing(Bench().app) as app:
        assert cors(await post(app, modern("echo"), **modern_headers(name="echo"))) == {}
        assert (await ask(app, "OPTIONS")).status == 405


async def test_event_streams_are_open_to_the_same_pages():
    """HTTP+SSE, both addresses."""

    async def serve(*_):
        raise AssertionError("nobody came")

    async with closing(SseApp(serve, allowed_origins=[PAGE])) as app:
        for path in ("/sse", "/messages"):
            response = await preflight(app, path, origin=PAGE)
            assert response.status == 204
            assert cors(response)["access-control-allow-origin"] == PAGE
            assert (await preflight(app, path, origin="https://evil.example")).status == 403
