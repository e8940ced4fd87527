"""uvicorn's connections, bounded: how many, how long a head may take, how large it is, how long nothing may be read.

uvicorn bounds none of these by itself. Whoever opens connections and says nothing, sends heads without end, or takes
nothing of what is sent to it, would hold a socket and its buffers for ever. What a request may cost is bounded in
``app`` and ``body``. Imports uvicorn, and so is imported only where something is served.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import unquote

import httptools
from msgspec import Struct
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from antiphon.transports.http.server.asgi import ASGIApp, Endpoint, Scope
from antiphon.transports.http.server.cycle import Cycle

if TYPE_CHECKING:
    import asyncio

__all__ = ["BoundedConnection", "Limits", "Sweep", "bounded_by"]

_STEP = 64 * 1024


class Limits(Struct, frozen=True, kw_only=True):
    """What a connection may cost before it is a request, and after its response was written."""

    max_connections: int = 5_000
    """Connections open at once; one more is closed at once."""
    head_timeout: float = 10.0
    """Seconds from the connection, or from a request's first byte, to the end of its head."""
    max_head: int = 64 * 1024
    """Bytes of a request's head. What arrives with its end in one read is not counted."""
    stall: float = 30.0
    """Seconds in which a client has to take 64 KiB, or what is left, of what waits for it."""


class BoundedConnection(HttpToolsProtocol):
    """One connection. ``bounded_by`` makes the class that uvicorn is given.

    uvicorn's, as far as bytes and upgrades go; how a request is presented, and when a connection that rests is closed,
    is ours. Needs a ``Sweep``, and serves no access log and no ``limit_concurrency``.
    """

    limits: ClassVar[Limits] = Limits()
    endpoint: ClassVar[Endpoint | None] = None
    """What serves requests, if it is not uvicorn's application itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pauses = 0
        """How often the client has been too slow."""
        self.served = 0
        """How many responses were complete."""
        self._head = 0
        self._served: Cycle | None = None
        """The cycle that is being served, or was last."""
        self._waiting: deque[Cycle] = deque()
        self._keeps = True
        """Whether it goes on after the response that is due."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take a connection, or close it if there are enough."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of a connection: whoever serves a request of it learns that its client is gone."""
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
        """Take what the client has sent."""
        super().data_received(data)
        cycle: Cycle | None = self.cycle
        if cycle is None or cycle.scope is not self.scope:
            self._head += len(data)
            if self._head > self.limits.max_head:
                self.transport.abort()
            return
        self._head = 0

    # --- what the parser finds ----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request: its scope is made when its head is complete."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self.scope: Any = None

    def on_headers_complete(self) -> None:
        """Have a request served, or keep it until those before it are."""
        parser = self.parser
        self.scope = scope = self._make_scope(parser.get_method().decode("ascii"), parser.get_http_version())
        if parser.should_upgrade() and self._should_upgrade():
            return
        keep_alive = self._keeps and scope["http_version"] != "1.0" and parser.should_keep_alive()
        self._begin(scope, keep_alive=keep_alive, expects_continue=self.expect_100_continue)

    def _begin(self, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> None:
        before: Cycle | None = self.cycle
        cycle = Cycle(
            scope,
            self.transport,
            self.flow,
            self.on_response_complete,
            defaults=self.server_state.default_headers,
            keep_alive=keep_alive,
            expects_continue=expects_continue,
        )
        self.cycle: Any = cycle
        if before is None or before.response_complete:
            self._serve(cycle)
        else:
            # Pipelined: one after the other.
            self.flow.pause_reading()
            self._waiting.append(cycle)

    def on_body(self, body: bytes) -> None:
        """Take a part of a request's body."""
        cycle = self._open_cycle()
        if cycle is not None and cycle.feed(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Take note that a request is complete."""
        cycle = self._open_cycle()
        if cycle is not None:
            cycle.more_body = False
            cycle.note()

    def on_response_complete(self) -> None:
        """Go on with the request that waits, if any."""
        self.served += 1
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self._waiting:
            self._serve(self._waiting.popleft())

    def _make_scope(self, method: str, version: str) -> Scope:
        path, raw_path, query = _split(self.url, self.root_path)
        return {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": self.root_path,
            "headers": self.headers,
            "state": self.app_state.copy(),
            "method": method,
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
        }

    def _serve(self, cycle: Cycle) -> None:
        self._served = cycle
        task = self.loop.create_task(cycle.run(cast("ASGIApp", self.app), self.tasks, self.endpoint))
        if not task.done():
            # An eager one may be.
            cycle.task = task
            self.tasks.add(task)

    def _open_cycle(self) -> Cycle | None:
        """Return the cycle whose request is being read, unless nobody wants it any more."""
        cycle: Cycle | None = self.cycle
        if cycle is None or cycle.response_complete or cycle.scope is not self.scope:
            return None
        return cycle

    # --- the end ------------------------------------------------------------------------------------------------

    def take_leave(self) -> None:
        """Let the next response be the last: it says ``Connection: close``, so that no client sends another request.

        uvicorn closes a connection that rests without a word, and a client may be writing into it just then.
        """
        self._keeps = False
        last = self._waiting[-1] if self._waiting else self._served
        if last is not None and not last.response_started:
            last.keep_alive = False

    # --- where it stands ----------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Take note that the client does not keep up."""
        self.pauses += 1
        super().pause_writing()

    @property
    def reads_head(self) -> bool:
        """Whether a head is awaited, or has begun and not ended."""
        cycle: Cycle | None = self.cycle
        return cycle is None or cycle.scope is not self.scope

    @property
    def is_idle(self) -> bool:
        """Whether nothing is served, and the client is still sending."""
        cycle: Cycle | None = self.cycle
        return self.reads_head or (cycle is not None and cycle.response_complete and cycle.more_body)

    @property
    def is_resting(self) -> bool:
        """Whether the last request has its response, and nothing has come since."""
        cycle: Cycle | None = self.cycle
        return cycle is not None and cycle.response_complete and not self.is_idle

    @property
    def is_stuck(self) -> bool:
        """Whether more waits for the client than should."""
        return self.flow.write_paused


@functools.lru_cache(64)
def _split(url: bytes, root: str) -> tuple[str, bytes, bytes]:
    """Take the target of a request apart: path, raw path, query."""
    parsed = httptools.parse_url(url)
    path = parsed.path.decode("ascii")
    return root + (unquote(path) if "%" in path else path), root.encode("ascii") + parsed.path, parsed.query or b""


def bounded_by(limits: Limits, endpoint: Endpoint | None = None) -> type[BoundedConnection]:
    """Make the class of connections with these limits. ``endpoint``: serves their requests in the application's place.

    For one that only sees to the lifespan, which uvicorn has begun before it accepts a connection.
    """
    return type("Connection", (BoundedConnection,), {"limits": limits, "endpoint": endpoint})


class Sweep:
    """Looks at every connection now and then, and ends those that have come no further for too long.

    One clock for all of them: a request costs nothing by it.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seen: dict[Any, tuple[object, float]] = {}

    def __call__(self, connections: Iterable[Any], now: float) -> None:
        """Look at the connections; ``now`` in seconds, by any clock that goes forward."""
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
        """Say where a connection stands, and how long it may stand there; ``None`` if it is well."""
        is_ours = isinstance(connection, BoundedConnection)
        if connection.transport.is_closing() or (is_ours and connection.is_stuck):
            # While it is so, nothing is added to what waits.
            left: int = connection.transport.get_write_buffer_size() // _STEP
            return ("writes", connection.pauses if is_ours else 0, left), self._limits.stall
        if is_ours and connection.is_idle:
            return ("reads", connection.served, connection.reads_head), self._limits.head_timeout
        if is_ours and connection.is_resting:
            return ("rests", connection.served), connection.timeout_keep_alive
        return None, 0.0
