"""What a call of a tool costs, counted: calls of ours, and how deep below us the tool's body runs.

Counts do not depend on the machine's mood, times do. The ceilings are today's numbers: lower them when a change makes
calls cheaper; a change that needs more has to say why.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec import Struct

from antiphon import Server
from antiphon.channel import Frame
from antiphon.wire.envelope import decode_envelope

OURS = str(Path(__file__).parent.parent / "src" / "antiphon")
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


def call(meta: str = "") -> bytes:
    """Make the message of a call."""
    params = f'{{{meta}"name":"echo","arguments":{{"text":"hello"}}}}'
    return f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}'.encode()


async def post(app: Any, body: bytes, headers: dict[str, str]) -> tuple[dict[bytes, bytes], bytes]:
    """Send one request to an ASGI application."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    pairs = [(name.encode(), value.encode()) for name, value in (HEADERS | headers).items()]
    await app({"type": "http", "method": "POST", "path": "/mcp", "headers": pairs}, receive, send)
    return dict(sent[0]["headers"]), sent[1]["body"]


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
    """Hold what was counted against the ceilings, and those against the budget of the design (section 10)."""
    assert calls <= 60
    assert frames <= 8
    assert cost.calls <= calls
    assert cost.frames <= frames


async def test_a_call_that_is_handed_to_a_peer() -> None:
    """From the decoded message to the reply: what every transport pays."""
    cost, outbox = Cost(), Outbox()
    server = make_server(cost)
    async with server.serving():
        peer: Any = server.connect(outbox)  # type: ignore[arg-type]
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
    check(cost, calls=47, frames=8)


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
    check(cost, calls=51, frames=8)
