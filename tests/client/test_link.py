"""The connection of a client over its whole life: opened, renewed where the server has forgotten it, or lost."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from antiphon import Client, Context, Server
from antiphon.client.known_tools import KnownTools
from antiphon.errors import CallTimeout, ConfigError, ConnectionClosed, LocalProtocolError, PeerError
from antiphon.server.serving.network import server_app
from antiphon.wire.tools import ToolAnnotations
from tests.support.asgi import running
from tests.support.network import let_deadlines_pass, moment, until
from tests.support.raw_server import RawServer
from tests.support.web import legacy, result, serving

INFO = {"name": "web", "version": "1"}
OPENED = {"protocolVersion": "2025-11-25", "capabilities": {"resources": {}}, "serverInfo": INFO}
QUIET = """
import sys
from pathlib import Path

print('Loading... {"jsonrpc": "2.0"}', flush=True)
print("I am busy", file=sys.stderr, flush=True)
Path(sys.argv[1]).touch()
sys.stdin.read()
"""


def shop() -> Server:
    """Make a server with one tool."""
    server = Server("shop")

    @server.tool
    def name() -> str:
        """Say who serves."""
        return "shop"

    return server


async def test_a_lifespan_that_fails_is_the_cause() -> None:
    """A server in memory fails with its own exception, not with a lost connection."""

    class Broken:
        async def __aenter__(self) -> None:
            raise ValueError("no database")

        async def __aexit__(self, *_: object) -> None: ...

    with pytest.raises(ValueError, match="no database"):
        await Client(Server("s", lifespan=lambda _: Broken())).connect()


async def test_a_server_in_memory_that_fails_is_not_started_again() -> None:
    """The cause is raised, once, as it is."""
    tries: list[int] = []

    class Broken:
        async def serve(self, _channel: Any) -> None:
            tries.append(1)
            raise OSError("no database")

    with pytest.raises(OSError, match="no database"):
        await Client(Broken()).connect()
    assert tries == [1]


async def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """The error says how long it had, what it wrote on stdout besides messages, and what it said on stderr."""
    said = tmp_path / "said"
    client = Client([sys.executable, "-c", QUIET, str(said)], timeout=80, revision="2025-11-25")
    connecting = asyncio.create_task(client.connect())
    await until(lambda: said.exists() or connecting.done())
    await moment()
    let_deadlines_pass(80)
    with pytest.raises(CallTimeout, match=r"within 80 s; on stdout(.|\n)*'Loading(.|\n)*I am busy"):
        await connecting


def test_nothing_is_called_before_it_is_open() -> None:
    """The error says what to write."""
    with pytest.raises(LocalProtocolError, match="async with"):
        assert Client(Server("s"))._link.session


async def test_a_session_that_the_server_forgot_is_opened_anew() -> None:
    """As after its restart: the next call is answered."""
    first, second = server_app(shop()._service, "http", {}), server_app(shop()._service, "http", {})
    current = [first]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await current[0](scope, receive, send)

    async with running(app) as place, Client(f"http://{place}/mcp", revision="2025-11-25") as client:
        assert (await client.call_tool("name")).text == "shop"
        await first.close()
        current[0] = second
        assert (await client.call_tool("name")).text == "shop"
        assert client.revision == "2025-11-25"
        current[0] = first
        await second.close()


async def test_a_call_that_may_have_been_carried_out_is_not_made_again() -> None:
    """A reply that is lost is an error, whoever knows what happened."""
    calls = 0

    async def rest(request: Any, seen: Any) -> Any:
        nonlocal calls
        if seen.body["method"] == "tools/call":
            calls += 1
            request.transport.abort()
        return result(seen.body["id"], {"tools": []})

    plain = legacy(rest)

    async def answers(request: Any, seen: Any) -> Any:
        if isinstance(seen.body, dict) and seen.body.get("method") == "initialize":
            said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": INFO}
            return result(seen.body["id"], said, **{"Mcp-Session-Id": "s-1"})
        return await plain(request, seen)

    async with serving(answers) as site, Client(site.url, revision="2025-11-25") as client:
        with pytest.raises(PeerError):
            await client.call_tool("pay")
        assert calls == 1


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_server_that_is_gone_is_an_error_at_once(revision: str) -> None:
    """The call does not hang, and the error names the address."""
    app = server_app(shop()._service, "http", {})
    async with running(app) as place:
        client = Client(f"http://{place}/mcp", revision=revision)
        await client.connect()
        await app.drain()
    try:
        async with asyncio.timeout(30):
            with pytest.raises((PeerError, ConnectionClosed), match=place):
                await client.call_tool("name")
    finally:
        await client.close()


async def test_a_websocket_that_ends_is_an_error_at_once() -> None:
    """Nothing is sent into the void."""
    app = server_app(shop()._service, "websocket", {})
    async with running(app) as place:
        client = Client(f"ws://{place}/ws")
        await client.connect()
        await app.drain()
    try:
        async with asyncio.timeout(30):
            with pytest.raises(ConnectionClosed):
                await client.call_tool("name")
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("transport", "url"), [("http", "http://{}/mcp"), ("sse", "http://{}/sse"), ("websocket", "ws://{}/ws")]
)
async def test_a_connection_that_cannot_be_opened_anew_is_tried_again_with_the_next_call(
    transport: str, url: str
) -> None:
    """The client is not closed by it."""
    apps = [server_app(shop()._service, transport, {}) for _ in range(2)]
    up = [True, True]
    current = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or up[current]:
            await apps[current](scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b"restarting"})
        else:
            await receive()
            await send({"type": "websocket.close"})

    async with running(app) as place, Client(url.format(place), revision="2025-11-25") as client:
        await apps[0].close()
        current, up[1] = 1, False
        for _ in range(2):
            with pytest.raises((PeerError, ConnectionClosed)):
                await client.call_tool("name")
            assert client.revision == "2025-11-25"
        up[1] = True
        assert (await client.call_tool("name")).text == "shop"
        await apps[1].close()
        current = 0


async def test_a_new_session_has_the_log_level_of_the_one_before() -> None:
    """It was set in a session that is gone."""
    levels: list[Any] = []
    gone = [False]

    async def rest(request: Any, seen: Any) -> Any:
        if gone[0] and seen.headers["Mcp-Session-Id"] == "s-1":
            return web.Response(status=404)
        if seen.body["method"] == "logging/setLevel":
            levels.append((seen.headers["Mcp-Session-Id"], seen.body["params"]["level"]))
        return result(seen.body["id"], {})

    plain = legacy(rest)

    async def answers(request: Any, seen: Any) -> Any:
        if isinstance(seen.body, dict) and seen.body.get("method") == "initialize":
            said = {"protocolVersion": "2025-11-25", "capabilities": {"logging": {}}, "serverInfo": INFO}
            return result(seen.body["id"], said, **{"Mcp-Session-Id": "s-2" if gone[0] else "s-1"})
        return await plain(request, seen)

    async with serving(answers) as site, Client(site.url, revision="2025-11-25", log_level="info") as client:
        await client.set_log_level("error")
        gone[0] = True
        await client.ping()
    assert levels == [("s-1", "info"), ("s-1", "error"), ("s-2", "error")]


async def test_a_server_that_refuses_every_session_is_quoted_when_the_time_is_over() -> None:
    """It has answered each time, so the caller learns what."""

    async def refuse(_request: Any, _seen: Any) -> Any:
        return web.Response(status=404, text="no such page")

    async with serving(legacy(refuse, opening=OPENED)) as site, Client(site.url, revision="2025-11-25") as client:
        with pytest.raises(PeerError, match="no such page"):
            await client.read_resource("s://a", timeout=1.0)


async def test_a_ping_of_a_client_that_is_closed_meanwhile_ends() -> None:
    """As any other call does."""
    asked = asyncio.Event()

    async def answers(request: Any, seen: Any) -> Any:
        if isinstance(seen.body, dict) and seen.body.get("method") == "ping":
            asked.set()
            await asyncio.Event().wait()
        return await legacy(opening=OPENED)(request, seen)

    async with serving(answers) as site, Client(site.url, revision="2025-11-25") as client:
        pinging = asyncio.create_task(client.ping())
        await asked.wait()
        await client.close()
        with pytest.raises(ConnectionClosed):
            await pinging


async def test_the_deadline_of_a_call_holds_while_a_new_session_is_opened() -> None:
    """Even where the client itself has none."""
    sessions = 0

    async def answers(request: Any, seen: Any) -> Any:
        nonlocal sessions
        method = seen.body.get("method") if isinstance(seen.body, dict) else None
        if method == "ping":
            return web.Response(status=404)
        if method == "initialize":
            sessions += 1
            if sessions == 2:
                await asyncio.Event().wait()
        return await legacy(opening=OPENED)(request, seen)

    async with serving(answers) as site, Client(site.url, revision="2025-11-25", timeout=None) as client:
        with pytest.raises(CallTimeout, match=r"ping was not answered within 0\.1 s"):
            await client.ping(timeout=0.1)


async def test_marks_are_forgotten_when_the_tools_change() -> None:
    """What was safe to repeat may be another tool now."""
    server = Server("s")

    def other() -> str:
        """Do something else."""
        return "done"

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def look(ctx: Context) -> str:
        """Look."""
        server.tool(other)
        return "done"

    async with running(server.asgi()) as place, Client(f"http://{place}/mcp", revision="2025-11-25") as client:
        known: KnownTools = vars(client)["_link"]._settings.tools
        await client.list_tools()
        assert known.is_repeatable("look")
        await client.call_tool("look")
        await until(lambda: not known.is_repeatable("look"))


async def test_a_wrapper_that_fails_leaves_nothing_open() -> None:
    """Its own error is raised at once, and the server beneath has ended."""

    def wrap(_channel: object) -> Any:
        raise ValueError("no room")

    before = asyncio.all_tasks()
    with pytest.raises(ValueError, match="no room"):
        await Client(shop(), wrap=wrap).connect()
    assert asyncio.all_tasks() == before


async def test_a_wrapper_may_run_into_a_deadline_of_its_own() -> None:
    """Its error is raised; it is not taken for the deadline of the opening, which may have none."""

    def wrap(_channel: object) -> Any:
        raise TimeoutError("no room in time")

    with pytest.raises(TimeoutError, match="no room in time"):
        await Client(shop(), wrap=wrap, timeout=None).connect()


async def test_a_log_level_that_is_refused_closes_the_session_again() -> None:
    """Nobody leaves an ``async with`` that was never entered."""
    wrong: Any = "loud"
    client = Client(shop(), revision="2025-11-25", log_level=wrong)
    before = asyncio.all_tasks()
    with pytest.raises(ConfigError, match="no log level 'loud'"):
        await client.connect()
    assert asyncio.all_tasks() == before
    with pytest.raises(LocalProtocolError, match="Not connected"):
        _ = client._link.session


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32601, "message": "no such method"},
        {"code": -32603, "message": "not implemented"},
        {"code": -32602, "message": "no such level"},
        {"code": 7, "message": "own code"},
        "a text",
    ],
)
async def test_a_server_that_refuses_the_log_level_is_used_without_it(
    error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It has declared logging, and sends what it likes."""
    server = RawServer()
    server.replies["logging/setLevel"] = lambda message: server.send({"id": message["id"], "error": error})
    async with Client(server, revision="2025-11-25", log_level="info") as client:
        await client.ping()
    assert "does not set its level" in caplog.text


async def test_a_server_that_refuses_the_log_level_only_in_a_new_session_is_used_without_it() -> None:
    """The call that has opened the session goes on."""
    sessions = 0

    async def answers(request: Any, seen: Any) -> Any:
        nonlocal sessions
        method = seen.body.get("method") if isinstance(seen.body, dict) else None
        if method == "initialize":
            sessions += 1
            said = {"protocolVersion": "2025-11-25", "capabilities": {"logging": {}}, "serverInfo": INFO}
            return result(seen.body["id"], said, **{"Mcp-Session-Id": f"s-{sessions}"})
        if method == "logging/setLevel" and sessions == 2:
            return web.json_response(
                {"jsonrpc": "2.0", "id": seen.body["id"], "error": {"code": -32603, "message": "?"}}
            )
        if method == "ping" and seen.headers["Mcp-Session-Id"] == "s-1":
            return web.Response(status=404)
        return await legacy()(request, seen)

    async with serving(answers) as site, Client(site.url, revision="2025-11-25", log_level="info") as client:
        await client.ping()
    assert sessions == 2


async def test_a_lifespan_that_fails_at_its_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody awaits a server in memory: its error would be lost."""

    @contextlib.asynccontextmanager
    async def lifespan(_server: Server) -> AsyncGenerator[None]:
        yield
        raise ValueError("not saved")

    async with Client(Server("s", lifespan=lifespan)) as client:
        await client.ping()
    assert "the server failed when it ended" in caplog.text
    assert "not saved" in caplog.text


async def test_a_client_is_closed_where_it_was_opened() -> None:
    """From another event loop nothing of it is ended, so that its own can still use and close it."""
    client = Client(shop())
    await client.connect()
    with pytest.raises(LocalProtocolError, match="opened on another event loop: close it there"):
        await asyncio.to_thread(asyncio.run, client.close())
    await client.ping()
    await client.close()
