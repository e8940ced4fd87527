"""What browsers are told: pages that may call can call and read, by their own name, and no others."""

from __future__ import annotations

import pytest

from antiphon.transports.sse.server import SseApp
from tests.transports.http.server.driver import Open as Asked
from tests.transports.http.server.driver import ask, closing, post, scope_of
from tests.transports.http.server.fakes import Bench, initialize, modern, modern_headers

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
