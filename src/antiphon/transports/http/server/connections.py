"""uvicorn's connections with limits: their number, the time and size of a head, and the time without reading.

uvicorn limits none of these. Clients that open connections and send nothing, send endless heads, or do not read what is
sent to them, could hold sockets and buffers for ever. ``app`` and ``asgi`` limit what a request may cost. This module
imports uvicorn, so it is imported only by programs that serve.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from antiphon.transports.http.server.asgi import MOVE, Scope

if TYPE_CHECKING:
    import socket

_STEP = 64 * 1024

MAX_MOVED = 64 * 1024
"""Most bytes of a request with which a connection is given to another process; a larger one is passed on by itself."""

_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"expect"})
"""Headers that say how a body arrives; one that was read is sent on whole."""

_rename_upgrade = re.compile(rb"(?i)\nupgrade(?=:[ \t]*+h2c\b)").sub
"""Renames the header by which clients in Java and Kotlin ask for HTTP/2. A server may ignore it (RFC 9110, section
7.8), but the parser takes the body for the other protocol, and loses it."""

Give = Callable[["socket.socket", bytes, str], bool]
"""Gives a connection to the process of this name, with a request that was read from it; or returns ``False``."""


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """Limits of a connection before its request is complete, and after its response was written."""

    max_connections: int = 5_000
    """Most connections open at once; a further one is closed immediately."""
    head_timeout: float = 10.0
    """Seconds from the connection, or from a request's first byte, to the end of its head."""
    max_head: int = 64 * 1024
    """Most bytes of a request's head. What arrives in the same read as its end is not counted."""
    stall: float = 30.0
    """Seconds a client has to read 64 KiB of what waits for it, or all of it if that is less."""


class BoundedConnection(HttpToolsProtocol):
    """One connection. ``bound_connections`` makes the class that is given to uvicorn. Needs a ``Sweep``.

    uvicorn reads requests and writes responses (its cycles). This notes how far a request has arrived, which says what
    the connection waits for, and may hand the connection to another process.
    """

    limits: ClassVar[ConnectionLimits] = ConnectionLimits()
    give: Give | None = None
    """Gives it to another process, if there are any that could serve it."""
    brought = b""
    """A request that another process has read from it, until it is served."""
    is_given_back = False
    """Whether it goes to another process as soon as nothing is open on it."""
    pauses = 0
    """How often the client has been too slow."""
    served = 0
    """Number of complete responses."""
    _head = 0
    """Bytes of the head that is being read."""
    _keeps = True
    """Whether the connection stays open after the next response."""
    _moves = True
    """Whether the request that is served may go to another process: one that has come from there may not."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open: list[RequestResponseCycle] = []
        """Those without a complete response, in their order: the first is being served."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Accept a connection, or close it if there are too many; serve a request that it brings along."""
        super().connection_made(transport)
        self._writes = _JoinedWrites(transport, self.loop)
        if self.give is not None:
            # Each request gets a copy.
            self.app_state = {**self.app_state, MOVE: self.move}
        if len(self.connections) > self.limits.max_connections:
            transport.abort()
        elif self.brought:
            brought, self.brought, self._moves = self.brought, b"", False
            self.data_received(brought)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of a connection: uvicorn tells only the last request on it that its client is gone."""
        super().connection_lost(exc)
        for cycle in self._open:
            cycle.disconnected = True
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Handle what the client has sent."""
        if self.reads_head and data.find(b"h2c") >= 0:
            head, end, rest = data.partition(b"\r\n\r\n")
            data = _rename_upgrade(b"\nIgnored", head) + end + rest
        HttpToolsProtocol.data_received(self, data)
        self._head = self._head + len(data) if self.reads_head else 0
        if self._head > self.limits.max_head:
            self.transport.abort()

    # --- called by the parser and by cycles -----------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        """Note that a request is served, or waits for the one before."""
        before = self.cycle
        HttpToolsProtocol.on_headers_complete(self)
        if self.cycle is not before:
            self._open.append(self.cycle)
            if self.cycle.scope["method"] != "HEAD":
                self.cycle.transport = self._writes
            if not self._keeps:
                _close_after(self.cycle)

    def on_message_complete(self) -> None:
        """Note that a request is complete, also if its response is already; uvicorn alone forgets that."""
        HttpToolsProtocol.on_message_complete(self)
        if self.cycle:
            self.cycle.more_body = False

    def on_response_complete(self) -> None:
        """Continue with the request that waits, if any."""
        self.served += 1
        self._moves = self._writes.is_at_head = True
        del self._open[0]
        HttpToolsProtocol.on_response_complete(self)
        if self.is_given_back:
            self.hand_back()

    def pause_writing(self) -> None:
        """Note that the client reads too slowly."""
        self.pauses += 1
        super().pause_writing()

    # --- other processes ------------------------------------------------------------------------------------------

    def move(self, scope: Scope, home: str, body: bytes) -> bool:
        """Give the connection to another process, with a request that nothing was answered to yet."""
        cycle = self.cycle
        if self.give is None or not self._moves or cycle.scope is not scope or self.reads_head or cycle.more_body:
            # The next request has begun to arrive, or this one was moved here.
            return False
        request = None if cycle.response_started else _encode_request(scope, body)
        if request is None or not self._give_away(self.give, request, home):
            return False
        # For this process the client is gone.
        cycle.disconnected = True
        return True

    def hand_back(self) -> bool:
        """Give the connection to any other process, if nothing is open on it; tell whether it was taken."""
        is_fresh = self.reads_head and not self._head and not self.served
        return self.give is not None and (is_fresh or self.is_resting) and self._give_away(self.give, b"", "")

    def _give_away(self, give: Give, request: bytes, home: str) -> bool:
        if self.transport.is_closing() or self.transport.get_write_buffer_size():
            return False
        # What arrives from now on is for the other process, which reads from the same socket.
        self.transport.pause_reading()
        if not give(self.transport.get_extra_info("socket"), request, home):
            self.transport.resume_reading()
            return False
        self.transport.abort()
        return True

    # --- the end --------------------------------------------------------------------------------------------------

    def take_leave(self, *, gives: bool = False) -> None:
        """Make the next response the last one, with ``Connection: close``, so that no client sends another request.

        uvicorn closes an idle connection without notice, just when a client may be writing to it. ``gives``: give the
        connection to another process instead, if that is possible, as soon as nothing is open on it.
        """
        if gives and self.give is not None:
            self.is_given_back = True
            self.hand_back()
            return
        if self._keeps and self._open and not self._open[-1].response_started:
            _close_after(self._open[-1])
        self._keeps = False

    # --- state ----------------------------------------------------------------------------------------------------

    @property
    def reads_head(self) -> bool:
        """Whether a head is awaited, or has begun and is not complete."""
        return not self.cycle or self.cycle.scope is not self.scope

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being served and the client is still sending."""
        return self.reads_head or (self.cycle.more_body and not self._open)

    @property
    def is_resting(self) -> bool:
        """Whether the last request was answered, and nothing has come since."""
        return not (self.reads_head or self.cycle.more_body or self._open)

    @property
    def is_quiet(self) -> bool:
        """Whether no request is being served, and none has come but the beginning of a head."""
        return not self._open and (self.reads_head or not self.cycle.more_body)


class _JoinedWrites(asyncio.Transport):
    """What cycles write to: holds the head of a response for its body, so that the system is called once for both.

    A head whose body does not follow at once is written in the next turn of the event loop.
    """

    is_at_head = True
    """Whether a response begins with what is written next."""
    _held = b""
    """A head that is not written yet."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self.is_at_head:
            self.is_at_head = False
            self._held = bytes(data)
            self._writing = self._loop.call_soon(self._release)
        elif self._held and len(data) < _STEP:
            self._writing.cancel()
            held, self._held = self._held, b""
            self._transport.write(held + data)
        else:
            self._release()
            self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._release()
        self._transport.close()

    def _release(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)


def _close_after(cycle: RequestResponseCycle) -> None:
    """Have a response say that the connection ends with it; uvicorn closes it then."""
    cycle.default_headers = [*cycle.default_headers, (b"connection", b"close")]


def _encode_request(scope: Scope, body: bytes) -> bytes | None:
    """Write a request as it could have arrived; ``None`` if it is too large."""
    headers = [(name, value) for name, value in scope["headers"] if name not in _FRAMING]
    if body:
        headers.append((b"content-length", b"%d" % len(body)))
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    first = b"%b %b HTTP/%b" % (scope["method"].encode(), target, scope["http_version"].encode())
    request = b"\r\n".join((first, *(b"%b: %b" % header for header in headers), b"", body))
    return request if len(request) <= MAX_MOVED else None


def bound_connections(limits: ConnectionLimits) -> type[BoundedConnection]:
    """Make the class of connections with these limits."""
    return type("Connection", (BoundedConnection,), {"limits": limits})


class Sweep:
    """Checks all connections periodically, and ends those that have made no progress for too long.

    One timer serves all connections, so that a request costs nothing.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._seen: dict[Any, tuple[object, float]] = {}

    def __call__(self, connections: Iterable[Any], now: float) -> None:
        """Check the connections; ``now`` is in seconds, by any clock that only increases."""
        seen: dict[Any, tuple[object, float]] = {}
        for each in list(connections):
            state, patience = self._state(each)
            if state is None:
                continue
            before = self._seen.get(each)
            since = before[1] if before is not None and before[0] == state else now
            if now - since < patience:
                seen[each] = (state, since)
            elif state[0] == "rests":
                each.transport.close()
            else:
                each.transport.abort()
        self._seen = seen

    def _state(self, connection: Any) -> tuple[tuple[object, ...] | None, float]:
        """Return the state of a connection and how long it may last; ``None`` if nothing is wrong."""
        is_ours = isinstance(connection, BoundedConnection)
        if connection.transport.is_closing() or (is_ours and connection.flow.write_paused):
            # It is closing, or too much waits for the client. In this state nothing is added to the data that waits.
            left: int = connection.transport.get_write_buffer_size() // _STEP
            return ("writes", connection.pauses if is_ours else 0, left), self._limits.stall
        if is_ours and connection.is_idle:
            return ("reads", connection.served, connection.reads_head), self._limits.head_timeout
        if is_ours and connection.is_resting:
            return ("rests", connection.served), connection.timeout_keep_alive
        return None, 0.0
