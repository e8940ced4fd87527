"""Two connections over a memory channel, on a real event loop, with sessions that are already open.

Tests give the handlers; this module owns the wiring, a clock that only moves when told to, and the end. What a leak is,
is said by ``tests/engine/conftest.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from msgspec import Raw

from antiphon.channel import Channel, Frame
from antiphon.engine.connection import Connection, Handler
from antiphon.protocol.client_session import ClientSession
from antiphon.protocol.events import Outgoing, Request
from antiphon.protocol.server_session import ServerSession
from antiphon.transports.queued import memory_pair
from antiphon.wire.common import RequestParams, Wire
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import decode_wire
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST_LEGACY, Revision
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, CallToolResult
from tests.support.pair import Pair, decoded

__all__ = ["ANSWER", "SAMPLE", "Clock", "Linked", "Recorder", "done", "linked", "recorded", "settle"]

SAMPLE = CreateMessageRequestParams(
    messages=[SamplingMessage(role="user", content=TextContent(text="hi"))], max_tokens=5
)
ANSWER = CreateMessageResult(role="assistant", content=TextContent(text="yes"), model="m")


def done(text: str = "done") -> CallToolResult:
    """Make the result of a tool."""
    return CallToolResult(content=[TextContent(text=text)])


async def settle(passes: int = 30) -> None:
    """Let everything that can run do so."""
    for _ in range(passes):
        await asyncio.sleep(0)


class Clock:
    """Time that stands still until it is advanced. Give it the loop before anything is timed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = loop.time()
        # Instead of the method: deadlines ask the loop itself.
        cast("Any", loop).time = lambda: self.now

    async def advance(self, seconds: float) -> None:
        """Let time pass, and what it brings happen."""
        await settle()
        self.now += seconds
        await settle()


class Recorder:
    """A channel that keeps what it was given to send."""

    def __init__(self, inner: Channel) -> None:
        self.inner = inner
        self.sent: list[Any] = []
        self.receive = inner.receive
        self.close = inner.close
        self.closed_error = inner.closed_error

    def send(self, one: Frame):
        """Keep a frame, and send it."""
        self.sent.append(decoded(one.data))
        return self.inner.send(one)


def recorded() -> tuple[tuple[Channel, Channel], Recorder]:
    """Make a pair of channels of which the server's is recorded."""
    ours, theirs = memory_pair()
    recorder = Recorder(theirs)
    return (ours, recorder), recorder


class Linked:
    """A client and a server that are connected."""

    def __init__(self, server: Connection[ServerSession], client: Connection[ClientSession]) -> None:
        self.server = server
        self.client = client

    def open(self, method: str = "tools/call", params: Wire | None = None, **options: Any) -> Outgoing:
        """Let the client's session open a request, without sending it."""
        spec = METHODS[method]
        values = params or (CallToolRequestParams(name="t") if method == "tools/call" else spec.params())
        return self.client.session.request(spec, values, **options)

    async def call(self, name: str = "t", **options: Any) -> str:
        """Call a tool and return the text of its result."""
        wants = options.get("on_progress") is not None
        raw = await self.client.request(
            self.open(params=CallToolRequestParams(name=name), wants_progress=wants), **options
        )
        content = decode_wire(raw, CallToolResult).content[0]
        assert isinstance(content, TextContent)
        return content.text

    def started(self, name: str = "t", **options: Any) -> asyncio.Task[str]:
        """Call a tool in a task of its own."""
        return asyncio.ensure_future(self.call(name, **options))

    async def ask(self, request: Request | None, method: str = "sampling/createMessage", **options: Any) -> Raw:
        """Let the server ask the client."""
        params = SAMPLE if method == "sampling/createMessage" else RequestParams()
        outgoing = self.server.session.ask(METHODS[method], params, request)
        return await self.server.request(outgoing, **options)

    async def close(self) -> None:
        """Close both sides."""
        await self.client.close()
        await self.server.close()

    def check_empty(self) -> None:
        """Assert that no request is left in any table."""
        for connection in (self.server, self.client):
            assert connection.session.incoming == {}
            assert connection.session.outgoing == {}
            assert len(connection.waiting) == 0
            assert connection.suspended == {}


@asynccontextmanager
async def linked(
    serves: Mapping[str, Handler] | Handler,
    answers: Mapping[str, Handler] | Handler | None = None,
    *,
    revision: Revision = LATEST_LEGACY,
    channels: tuple[Channel, Channel] | None = None,
    server: Mapping[str, Any] | None = None,
    client: Mapping[str, Any] | None = None,
) -> AsyncIterator[Linked]:
    """Connect a client to a server, and close both at the end; no task may be left running.

    ``serves`` and ``answers`` are tables of handlers, or the one for ``tools/call`` and for ``sampling/createMessage``.
    ``server`` and ``client`` are options of their connections.
    """
    pair = Pair.opened(revision)
    ours, theirs = channels or memory_pair()
    tools = {"tools/call": serves} if callable(serves) else serves
    asks = {"sampling/createMessage": answers} if callable(answers) else answers or {}
    link = Linked(
        Connection(theirs, pair.server, tools, **(server or {})),
        Connection(ours, pair.client, asks, **({"stops_clock": True} | dict(client or {}))),
    )
    link.server.ready.set()
    link.server.start()
    link.client.start()
    try:
        yield link
    finally:
        await link.close()
