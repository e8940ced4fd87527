"""A page that somebody visits sends requests to a server on the visitor's machine: none of them reaches a handler.

It may do so under its own name (``Origin``), or under a name of its own for our address (``Host``, DNS rebinding); each
alone is enough to be refused, at every address of every transport.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from antiphon import Server
from tests.support.network import INITIALIZE, META, Bare, call, listening, request_bytes

GOOD_HOSTS = ["localhost", "LocalHost:8000", "127.0.0.1:99", "[::1]", "[::1]:8000"]
GOOD_ORIGINS = [None, "http://localhost:3000", "HTTP://LOCALHOST", "https://127.0.0.1", "http://[::1]:5173"]

EVIL_HOSTS = [
    "evil.example",
    "EVIL.example:8000",
    "localhost.evil.example",
    "localhost@evil.example",
    "127.0.0.1:80@evil.example",
    "evil.example@localhost",
    "localhost:80:80",
    "localhost.",
    "[::2]:80",
    "[::1]evil.example",
    "[::ffff:127.0.0.1]",
    "0.0.0.0",
    "127.1",
    "2130706433",
    "",
    None,
]
EVIL_ORIGINS = [
    "http://evil.example",
    "HTTPS://EVIL.EXAMPLE:443",
    "null",
    "",
    "localhost",
    "//localhost",
    "http://localhost.evil.example",
    "http://localhost@evil.example",
    "http://localhost:80@evil.example",
    "http://user@localhost",
    "http://localhost/",
    "http://[::1].evil.example",
    "http://[::2]:80",
    "file://localhost",
    "chrome-extension://localhost",
]

HOSTILE = [
    *({"host": host} for host in EVIL_HOSTS),
    *({"origin": origin} for origin in EVIL_ORIGINS),
    {"host": "evil.example", "origin": "http://evil.example"},
    {"host": "evil.example", "origin": "http://localhost"},
]

MODERN = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "spend"}
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
    "content_length": None,
}


@asynccontextmanager
async def serving(transport):
    """Serve a tool that nobody from outside should reach; yields the address, and what has reached the server."""
    server, reached = Server("purse", version="1"), []
    connect = server._service.connect

    @server.tool
    def spend() -> str:
        """Spend the visitor's money."""
        reached.append("spend")
        return "spent"

    def connected(*given, **more):
        reached.append("connected")
        return connect(*given, **more)

    server._service.connect = connected
    async with listening(server, transport) as network:
        yield network.place, reached


async def status_of(place, *given, **headers):
    """Send one request on a connection of its own; return the status of the answer."""
    bare = await Bare.open(place)
    bare.send(request_bytes(*given, **headers))
    status, _ = await bare.head()
    bare.vanish()
    return status


async def statuses(place, *given, **headers):
    """Send a request in each of the hostile ways."""
    return [await status_of(place, *given, **{**headers, **hostile}) for hostile in HOSTILE]


ALL_REFUSED = [403] * len(HOSTILE)


@pytest.mark.parametrize("message", [INITIALIZE, call("spend", meta=META)], ids=["legacy", "modern"])
async def test_a_post_is_refused(message):
    """Streamable HTTP, both eras."""
    headers = MODERN if message["method"] == "tools/call" else {}
    async with serving("http") as (place, reached):
        assert await statuses(place, message, **headers) == ALL_REFUSED
        assert reached == []


async def test_a_session_that_exists_is_out_of_reach():
    """Streamable HTTP: neither called, nor listened to, nor ended by who knows its id."""
    async with serving("http") as (place, reached):
        session = await (bare := await Bare.open(place)).initialize()
        assert await statuses(place, call("spend"), **session) == ALL_REFUSED
        assert await statuses(place, b"", "GET", **session) == ALL_REFUSED
        assert await statuses(place, b"", "DELETE", **session) == ALL_REFUSED
        assert "spend" not in reached
        bare.send(request_bytes(call("spend"), **session))
        assert (await bare.response())[0] == 200
        bare.vanish()


async def test_an_event_stream_is_refused_and_its_post_address_is_too():
    """HTTP+SSE: also where the address of a session is known."""
    async with serving("sse") as (place, reached):
        assert await statuses(place, b"", "GET", "/sse") == ALL_REFUSED
        assert reached == []
        bare = await Bare.open(place)
        bare.send(request_bytes(b"", "GET", "/sse"))
        await bare.head()
        address = (await bare.reader.readuntil(b"\n\n")).partition(b"data: ")[2].split(b"\n")[0].decode()
        assert await statuses(place, call("spend"), "POST", address) == ALL_REFUSED
        assert "spend" not in reached
        assert await status_of(place, INITIALIZE, "POST", address) == 202
        bare.vanish()


async def test_a_websocket_is_not_opened():
    """Browsers let any page try: no preflight protects it."""
    async with serving("websocket") as (place, reached):
        assert await statuses(place, b"", "GET", "/ws", **UPGRADE) == ALL_REFUSED
        assert reached == []


async def test_a_preflight_gives_a_foreign_page_nothing():
    """Nor is anything else answered with a name that a browser would let through."""
    asks = {"origin": "http://evil.example", "access_control_request_method": "POST"}
    for transport, path in (("http", "/mcp"), ("sse", "/sse"), ("sse", "/messages")):
        async with serving(transport) as (place, _):
            bare = await Bare.open(place)
            bare.send(request_bytes(b"", "OPTIONS", path, **asks))
            status, headers = await bare.head()
            assert status == 403
            assert not [name for name in headers if name.startswith("access-control")]
            bare.vanish()


@pytest.mark.parametrize(
    ("transport", "given", "headers", "status"),
    [
        ("http", (call("spend", meta=META),), MODERN, 200),
        ("sse", (b"", "GET", "/sse"), {}, 200),
        ("websocket", (b"", "GET", "/ws"), UPGRADE, 101),
    ],
    ids=["http", "sse", "websocket"],
)
async def test_who_is_at_home_is_let_in(transport, given, headers, status):
    """By every name of this machine, and from every page of its own."""
    async with serving(transport) as (place, reached):
        for host in GOOD_HOSTS:
            for origin in GOOD_ORIGINS:
                assert await status_of(place, *given, **headers, host=host, origin=origin) == status
        assert reached


@pytest.mark.parametrize("twice", ["Host: evil.example", "Origin: http://evil.example", "Origin: http://localhost"])
async def test_a_header_that_comes_twice_decides_nothing(twice):
    """Whoever stands before us may have gone by the other one."""
    entries = [("http", (call("spend", meta=META),), MODERN), ("websocket", (b"", "GET", "/ws"), UPGRADE)]
    for transport, given, headers in entries:
        async with serving(transport) as (place, reached):
            bare = await Bare.open(place)
            plain = request_bytes(*given, **headers, origin="http://localhost")
            bare.send(plain.replace(b"\r\n", b"\r\n" + twice.encode() + b"\r\n", 1))
            assert (await bare.head())[0] in {400, 403}
            assert reached == []
            bare.vanish()
