"""uvicorn's connections with limits: their number, the time and size of a head, and the time without reading.

uvicorn limits none of these. Clients that open connections and send nothing, send endless heads, or do not read what is
sent to them, could hold sockets and buffers for ever. ``app`` and ``body`` limit what a request may cost. This module
imports uvicorn, so it is imported only by programs that serve.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import unquote

import httptools
from msgspec import Struct
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from antiphon.transports.http.server.asgi import ASGIApp, Endpoint, HeaderPair, Http, Scope
from antiphon.transports.http.server.cycle import CommonHeaders, Cycle

if TYPE_CHECKING:
    import asyncio
    import socket

__all__ = ["BoundedConnection", "ConnectionLimits", "Sweep", "bounded_by"]

_STEP = 64 * 1024

MAX_MOVED = 64 * 1024
"""Most bytes of a request with which a connection is given to another process; a larger one is passed on by itself."""

_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"expect"})
"""Headers that say how a body arrives; one that was read is sent on whole."""

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
    """One connection. ``bounded_by`` makes the class that is given to uvicorn.

    uvicorn handles bytes and upgrades; how a request is presented, and when an idle connection is closed, is decided
    here. Needs a ``Sweep``, and supports neither an access log nor ``limit_concurrency``.
    """

    limits: ClassVar[ConnectionLimits] = ConnectionLimits()
    endpoint: ClassVar[Endpoint | None] = None
    """Serves requests, if it is not uvicorn's application itself."""
    shared: ClassVar[CommonHeaders] = CommonHeaders()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pauses = 0
        """How often the client has been too slow."""
        self.served = 0
        """Number of complete responses."""
        self._application = cast("ASGIApp", self.app)
        self.common = type(self).shared
        self._endpoint: Endpoint = type(self).endpoint or self._call_application
        self._head = 0
        self._reading: Cycle | None = None
        """The cycle whose request is being read, or was last; ``None`` while the head of the next one is read."""
        self._served: Cycle | None = None
        """The cycle that is being served, or was last."""
        self._waiting: deque[Cycle] = deque()
        self._keeps = True
        """Whether the connection stays open after the next response."""
        self.give: Give | None = None
        """Gives it to another process, if there are any that could serve it."""
        self.brought = b""
        """A request that another process has read from it, until it is served."""
        self._moves = True
        """Whether the request that is served may go to another process: one that has come from there may not."""
        self.is_given_back = False
        """Whether it goes to another process as soon as nothing is open on it."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Accept a connection, or close it if there are too many; serve a request that it brings along."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            transport.abort()
        elif self.brought:
            brought, self.brought, self._moves = self.brought, b"", False
            self.data_received(brought)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of a connection: the requests being served on it learn that their client is gone."""
        self.connections.discard(self)
        if self._served is not None:
            self._served.disconnected = not self._served.response_complete
            self._served.note()
        self._waiting.clear()
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        self.parser: Any = None

    def data_received(self, data: bytes) -> None:
        """Handle what the client has sent."""
        # By its name, which takes half of what super() does.
        HttpToolsProtocol.data_received(self, data)
        if self._reading is not None:
            self._head = 0
            return
        self._head += len(data)
        if self._head > self.limits.max_head:
            self.transport.abort()

    # --- called by the parser -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Start a request; its scope is made when its head is complete."""
        self.url = b""
        self._named: dict[bytes, bytes] = {}
        self._earlier: list[HeaderPair] = []
        """See ``Http.earlier``."""
        self._reading = None

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header. Those that matter to the connection are looked at when they do (``Cycle.receive``)."""
        name = name.lower()
        named = self._named
        if name in named:
            self._earlier.append((name, named[name]))
        named[name] = value

    def on_headers_complete(self) -> None:
        """Have a request served, or queue it until those before it are answered."""
        parser = self.parser
        method = parser.get_method().decode("ascii")
        path, raw_path, query = _split_target(self.url, self.root_path)
        headers = self._named
        if b"upgrade" in headers and self._upgrades(method):
            return
        before: Cycle | None = self.cycle
        cycle = Cycle(
            method,
            path,
            self.root_path,
            query,
            self._earlier,
            headers,
            self,
            # Of HTTP/1.0 only a connection whose client asks for it is kept; chunks would be none to such a client.
            self._keeps
            and parser.should_keep_alive()
            and (b"connection" not in headers or parser.get_http_version() != "1.0"),
        )
        self.cycle: Any = cycle
        self._reading = cycle
        if self.endpoint is None:
            cycle.scope = self._scope_of(cycle, raw_path)
        if before is None or before.response_complete:
            self._serve(cycle)
        else:
            # Pipelined requests are served one after the other.
            self.flow.pause_reading()
            self._waiting.append(cycle)

    def _upgrades(self, method: str) -> bool:
        """Tell whether the connection goes on as a WebSocket; uvicorn wants its headers, and writes them to it."""
        self.headers = [*self._earlier, *self._named.items()]
        self.scope = cast("Any", {"method": method, "headers": self.headers})
        return bool(self.parser.should_upgrade() and self._should_upgrade())

    def on_body(self, body: bytes) -> None:
        """Handle a part of a request's body."""
        if self._reading is not None and self._reading.feed(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Note that a request is complete."""
        if self._reading is not None:
            self._reading.feed_end()

    def on_response_complete(self) -> None:
        """Continue with the request that waits, if any."""
        self.served += 1
        self._moves = True
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self._waiting:
            self._serve(self._waiting.popleft())
        elif self.is_given_back:
            self.hand_back()

    def _serve(self, cycle: Cycle) -> None:
        self._served = cycle
        task = cycle.task = self.loop.create_task(cycle.run(self._endpoint))
        if not task.done():
            # An eagerly started task may have finished already.
            self.tasks.add(task)

    # --- other processes ----------------------------------------------------------------------------------------

    def move(self, cycle: Cycle, home: str, body: bytes | None) -> bool:
        """Give the connection to another process, with the request of a cycle that nothing was answered to yet."""
        if self.give is None or not self._moves or cycle is not self._reading or cycle.more_body:
            # The next request has begun to arrive, or this one was moved here.
            return False
        request = _encode_request(cycle, self.url, self.parser.get_http_version(), body or b"")
        return request is not None and self._give_away(self.give, request, home)

    def hand_back(self) -> bool:
        """Give the connection to any other process, if nothing is open on it; tell whether it was taken."""
        is_fresh = self.cycle is None and not self._head
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

    # --- any ASGI application -----------------------------------------------------------------------------------

    def _scope_of(self, cycle: Cycle, raw_path: bytes) -> Scope:
        return {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": self.parser.get_http_version(),
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": cycle.root_path,
            "headers": cycle.pairs,
            "state": self.app_state.copy(),
            "method": cycle.method,
            "path": cycle.path,
            "raw_path": raw_path,
            "query_string": cycle.query,
        }

    async def _call_application(self, http: Http) -> None:
        await self._application(cast("Cycle", http).scope or {}, http.receive, http.send)

    # --- the end ------------------------------------------------------------------------------------------------

    def take_leave(self, *, gives: bool = False) -> None:
        """Make the next response the last one, with ``Connection: close``, so that no client sends another request.

        uvicorn closes an idle connection without notice, just when a client may be writing to it. ``gives``: give the
        connection to another process instead, if that is possible, as soon as nothing is open on it.
        """
        if gives and self.give is not None:
            self.is_given_back = True
            self.hand_back()
            return
        self._keeps = False
        last = self._waiting[-1] if self._waiting else self._served
        if last is not None and not last.response_started:
            last.keep_alive = False

    # --- state --------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Note that the client reads too slowly."""
        self.pauses += 1
        super().pause_writing()

    @property
    def reads_head(self) -> bool:
        """Whether a head is awaited, or has begun and is not complete."""
        return self._reading is None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being served and the client is still sending."""
        read = self._reading
        return read is None or (read.response_complete and read.more_body)

    @property
    def is_resting(self) -> bool:
        """Whether the last request was answered, and nothing has come since."""
        read = self._reading
        return read is not None and read.response_complete and not read.more_body

    @property
    def is_quiet(self) -> bool:
        """Whether no request is being served, and none has come but the beginning of a head."""
        served = self._served
        return self.is_resting or (self.reads_head and (served is None or served.response_complete))

    @property
    def is_stuck(self) -> bool:
        """Whether more data waits for the client than should."""
        return self.flow.write_paused


def _encode_request(cycle: Cycle, target: bytes, version: str, body: bytes) -> bytes | None:
    """Write a request as it could have arrived; ``None`` if it is too large."""
    headers = [(name, value) for name, value in cycle.pairs if name not in _FRAMING]
    if body:
        headers.append((b"content-length", b"%d" % len(body)))
    lines = [b"%b: %b" % header for header in headers]
    first = b"%b %b HTTP/%b" % (cycle.method.encode(), target, version.encode())
    request = b"\r\n".join((first, *lines, b"", body))
    return request if len(request) <= MAX_MOVED else None


@functools.lru_cache(64)
def _split_target(url: bytes, root: str) -> tuple[str, bytes, bytes]:
    """Split the target of a request: path, raw path, query."""
    parsed = httptools.parse_url(url)
    path = parsed.path.decode("ascii")
    return root + (unquote(path) if "%" in path else path), root.encode("ascii") + parsed.path, parsed.query or b""


def bounded_by(limits: ConnectionLimits, endpoint: Endpoint | None = None) -> type[BoundedConnection]:
    """Make the class of connections with these limits. ``endpoint``: serves their requests instead of the application.

    For an application whose only other purpose is the lifespan, which uvicorn starts before it accepts connections.
    """
    limited, served = limits, endpoint

    class Connection(BoundedConnection):
        limits = limited
        endpoint = served
        shared = CommonHeaders()

    return Connection


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
        if connection.transport.is_closing() or (is_ours and connection.is_stuck):
            # In this state nothing is added to the data that waits.
            left: int = connection.transport.get_write_buffer_size() // _STEP
            return ("writes", connection.pauses if is_ours else 0, left), self._limits.stall
        if is_ours and connection.is_idle:
            return ("reads", connection.served, connection.reads_head), self._limits.head_timeout
        if is_ours and connection.is_resting:
            return ("rests", connection.served), connection.timeout_keep_alive
        return None, 0.0
