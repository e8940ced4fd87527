"""What a call of a tool costs, counted: calls of ours, and how deep below us the tool's body runs.

Counts do not depend on the machine's mood, times do. The ceilings are today's numbers: lower them when a change makes
calls cheaper; a change that needs more has to say why.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey
from msgspec import Struct
from uvicorn.server import ServerState

import antiphon
from antiphon import Context, ResourceServer, Server
from antiphon.auth import Issuer
from antiphon.channel import Frame
from antiphon.gateway import Gateway
from antiphon.host import Host, Policy, Scripted, open_store
from antiphon.identity import launch_of
from antiphon.transports.http.server.connections import BoundedConnection, ConnectionLimits, bound_connections
from antiphon.wire.envelope import decode_envelope

OURS = str(Path(antiphon.__file__).parent)
META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    '"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},'
    '"io.modelcontextprotocol/clientCapabilities":{"sampling":{}}},'
)
HEADERS = {
    "host": "127.0.0.1:8000",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}
SAID = '{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}'


class Cost(Struct):
    """What was counted."""

    calls: int = 0
    """Calls of Python functions of ours, resumed coroutines included."""
    frames: int = 0
    """Frames of ours on the stack when the tool's body runs."""


def make_server(cost: Cost) -> Server:
    """Make a server with one tool, which looks how deep it is called."""
    server = Server("budget", tool_rate=None)

    @server.tool(structured=False)
    async def echo(text: str) -> str:
        frame = inspect.currentframe()
        frame = frame and frame.f_back
        cost.frames = 0
        while frame is not None:
            cost.frames += frame.f_code.co_filename.startswith(OURS)
            frame = frame.f_back
        return text

    return server


async def counted(cost: Cost, work: Callable[[], Awaitable[Any]]) -> Any:
    """Count our calls while something is awaited that never waits."""
    for _ in range(3):
        # What is made once, and kept, is not what every call costs.
        await work()
    cost.calls = 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        cost.calls += event == "call" and frame.f_code.co_filename.startswith(OURS)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        return await work()
    finally:
        sys.setprofile(before)


def call(meta: str = "", tool: str = "echo", more: str = "") -> bytes:
    """Make the message of a call."""
    params = f'{{{meta}"name":"{tool}","arguments":{{"text":"hello"}}{more}}}'
    return f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}'.encode()


async def post(app: Any, body: bytes, headers: dict[str, str]) -> tuple[dict[bytes, bytes], bytes]:
    """Send one request to an ASGI application, which is answered without waiting."""
    sent: list[Any] = []

    waiting = [body]

    async def receive() -> Any:
        if not waiting:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": waiting.pop(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    named = [(name.encode(), value.encode()) for name, value in (HEADERS | headers).items()]
    await app.hold()
    await app._endpoint({"type": "http", "method": "POST", "path": "/mcp", "headers": named}, receive, send)
    head, content = sent
    return dict(head["headers"]), content["body"]


class Wire(asyncio.Transport):
    """What lies under a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self._news = asyncio.Event()

    def write(self, data: Any) -> None:
        """Keep what is written."""
        self.written.append(data)
        self._news.set()

    async def until(self, is_there: Callable[[bytes], bool]) -> None:
        """Wait until what was written, all of it, is what is waited for."""
        async with asyncio.timeout(30):
            while not is_there(b"".join(self.written)):
                self._news.clear()
                await self._news.wait()

    def is_closing(self) -> bool:
        """Stay open."""
        return False


class Outbox:
    """A channel for a peer that is handed its messages."""

    def __init__(self) -> None:
        self.sent: list[Frame] = []

    def send(self, frame: Frame) -> None:
        """Keep a frame."""
        self.sent.append(frame)

    async def close(self) -> None:
        """Do nothing."""


def check(cost: Cost, *, calls: int, frames: int) -> None:
    """Hold what was counted against the ceilings, and those against what any call may cost.

    That is 60 calls of functions and 9 frames on the stack, the server's own frame included.
    """
    assert calls <= 60
    assert frames <= 9
    assert cost.calls <= calls
    assert cost.frames <= frames


async def test_a_call_that_is_handed_to_a_peer() -> None:
    """From the decoded message to the reply: what every transport pays."""
    cost = Cost()
    # No whole channel: a peer that is handed its messages receives nothing.
    outbox: Any = Outbox()
    server = make_server(cost)
    async with server._service.serving():
        peer: Any = server._service.connect(outbox)
        await counted(cost, lambda: peer.handle(decode_envelope(call(META))))
        assert b"hello" in outbox.sent[-1].data
        await peer.close()
    check(cost, calls=27, frames=4)


async def test_a_modern_call_over_http() -> None:
    """All of the endpoint: guards, headers against the body, the pool of peers, the response."""
    cost = Cost()
    app = make_server(cost).asgi()
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}
    _, body = await counted(cost, lambda: post(app, call(META), headers))
    assert b"hello" in body
    await app.close()
    check(cost, calls=52, frames=7)


async def test_a_modern_call_with_an_access_token() -> None:
    """A token that was verified before costs its digest and a look-up: over HTTP a tenth of an echo's time."""
    cost = Cost()
    key = ECKey.generate_key("P-256", {"kid": "k"})
    issuer = Issuer(url="https://auth.example.com", jwks={"keys": [key.as_dict(private=False)]})
    audience = "https://mcp.example.com/mcp"
    claims = {"iss": issuer.url, "aud": audience, "sub": "ann", "exp": 4_000_000_000}
    token = jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": "k"}, claims, key)
    app = make_server(cost).asgi(auth=ResourceServer(issuer, audience))
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}
    bearer = {"authorization": f"Bearer {token}"}
    _, body = await counted(cost, lambda: post(app, call(META), headers | bearer))
    assert b"hello" in body
    await app.close()
    check(cost, calls=59, frames=7)


async def test_a_legacy_call_over_http() -> None:
    """All of the endpoint: guards, the session, the response."""
    cost = Cost()
    app = make_server(cost).asgi()
    opening = '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}'
    begun, _ = await post(app, f'{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{opening}}}'.encode(), {})
    headers = {"mcp-protocol-version": "2025-11-25", "mcp-session-id": begun[b"mcp-session-id"].decode()}
    await post(app, b'{"jsonrpc":"2.0","method":"notifications/initialized"}', headers)
    _, body = await counted(cost, lambda: post(app, call(), headers))
    assert b"hello" in body
    await app.close()
    check(cost, calls=56, frames=7)


async def connect(app: Any) -> tuple[BoundedConnection, Wire]:
    """Open a connection to an application, as a server of ours has it."""
    await app.hold()
    config = uvicorn.Config(app, lifespan="off", log_config=None, proxy_headers=False)
    config.load()
    connection, wire = bound_connections(ConnectionLimits())(config, ServerState(), {}), Wire()
    connection.connection_made(wire)
    return connection, wire


def request_of(body: bytes, headers: dict[str, str]) -> bytes:
    """Make the bytes of a POST."""
    lines = [f"{name}: {value}" for name, value in (HEADERS | headers).items()]
    head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, f"content-length: {len(body)}", "", ""])
    return head.encode() + body


async def test_a_modern_call_from_its_bytes_to_those_of_the_response() -> None:
    """The whole server: what is above the socket."""
    cost = Cost()
    app = make_server(cost).asgi()
    connection, wire = await connect(app)
    request = request_of(call(META), headers={**MODERN, "mcp-name": "echo"})

    async def work() -> None:
        wire.written.clear()
        connection.data_received(request)
        await asyncio.gather(*connection.tasks)

    await counted(cost, work)
    assert b"hello" in wire.written[0] and len(wire.written) == 1
    await app.close()
    # What the parser of HTTP calls of ours is beyond the budget: every head is parsed, and every host checked.
    assert cost.calls <= 66
    assert cost.frames <= 8


def make_asking_server() -> Server:
    """Make a server with one tool, which asks its client's model."""
    server = Server("budget", tool_rate=None)

    @server.tool(structured=False)
    async def ask(text: str, ctx: Context) -> str:
        return (await ctx.sample(text)).text

    return server


async def test_a_modern_sample_from_its_bytes_to_those_of_the_result() -> None:
    """Two requests: a round, and its retry."""
    cost = Cost()
    app = make_asking_server().asgi()
    connection, wire = await connect(app)
    headers = {**MODERN, "mcp-name": "ask"}
    first = request_of(call(META, "ask"), headers)

    async def work() -> None:
        wire.written.clear()
        connection.data_received(first)
        await wire.until(lambda _: len(wire.written) == 1)
        round = json.loads(wire.written[0].partition(b"\r\n\r\n")[2])["result"]
        (key,) = round["inputRequests"]
        more = f',"inputResponses":{{"{key}":{SAID}}},"requestState":"{round["requestState"]}"'
        connection.data_received(request_of(call(META, "ask", more), headers))
        await wire.until(lambda written: b'"hi"' in written)

    await counted(cost, work)
    assert b'"hi"' in wire.written[1]
    await app.close()
    assert cost.calls <= 246


async def test_a_legacy_sample_from_its_bytes_to_those_of_the_result() -> None:
    """A stream, and the answer on another connection."""
    cost = Cost()
    app = make_asking_server().asgi()
    opening = '{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"c","version":"1"}}'
    begun, _ = await post(app, f'{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{opening}}}'.encode(), {})
    headers = {"mcp-protocol-version": "2025-11-25", "mcp-session-id": begun[b"mcp-session-id"].decode()}
    await post(app, b'{"jsonrpc":"2.0","method":"notifications/initialized"}', headers)
    connection, wire = await connect(app)
    side, _ = await connect(app)
    first = request_of(call("", "ask"), headers)

    async def work() -> None:
        wire.written.clear()
        connection.data_received(first)
        await wire.until(lambda written: b"createMessage" in written)
        asked = json.loads(b"".join(wire.written).rpartition(b"data: ")[2].partition(b"\n")[0])["id"]
        side.data_received(request_of(f'{{"jsonrpc":"2.0","id":{asked},"result":{SAID}}}'.encode(), headers))
        await wire.until(lambda written: b'"hi"' in written)
        await asyncio.gather(*connection.tasks, *side.tasks)

    await counted(cost, work)
    await app.close()
    # A head is held for its body, which is one call more than 250 and one write less.
    assert cost.calls <= 251


async def test_a_call_through_a_gateway_in_memory():
    """Of client, gateway and server together, with a host that decides about the call and records it."""
    cost = Cost()
    host = Host(Scripted([]), policy=Policy(default="allow"), reviewer=None)
    gateway = Gateway({"shop": make_server(cost)}, host)
    async with antiphon.Client(gateway.server, revision="2025-11-25") as client:
        result = await counted(cost, lambda: client.call_tool("shop__echo", {"text": "hi"}))
    assert result.text == "hi"
    # Eight of them ask the host what the client gets of the result, or of an error in its place.
    assert cost.calls <= 355
    assert cost.frames <= 5


async def test_a_modern_call_through_a_gateway_with_records_in_a_file(tmp_path: Path):
    """Of gateway and server together: one transaction, and each message decoded no more often than needed."""
    cost = Cost()
    store = open_store(f"sqlite:///{tmp_path}/host.db")
    host = Host(Scripted([]), policy=Policy(default="allow"), reviewer=None, store=store)
    gateway = Gateway({"shop": make_server(cost)}, host)
    app = gateway.server.asgi()
    headers = {**MODERN, "mcp-name": "shop__echo"}
    _, body = await counted(cost, lambda: post(app, call(META, "shop__echo"), headers))
    assert b"hello" in body
    await app.close()
    await host.aclose()
    assert cost.calls <= 355


async def test_a_call_through_a_gateway_leaves_nothing_to_the_collector():
    """Objects that refer to each other in a circle stay until the collector finds them, which keeps the event loop."""
    gateway = Gateway({"shop": make_server(Cost())}, Host(Scripted([]), policy=Policy(default="allow"), reviewer=None))
    app = gateway.server.asgi()
    headers = {**MODERN, "mcp-name": "shop__echo"}
    found: list[int] = []
    gc.disable()
    try:
        for _ in range(4):
            for _ in range(10):
                await post(app, call(META, "shop__echo"), headers)
            found.append(gc.collect())
    finally:
        gc.enable()
        await app.close()
    # Whatever else ends meanwhile, such as earlier tests, ends only once.
    assert min(found) < 10


async def test_a_program_on_a_command_line_is_looked_through_once():
    """What it would download is looked for in its words only where one of them can begin that."""
    cost = Cost()
    program = "print('x')\n" * 2_000

    async def look() -> object:
        return launch_of(["python", "-c", program])

    await counted(cost, look)
    assert cost.calls <= 23
