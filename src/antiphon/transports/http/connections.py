"""uvicorn's connections, bounded: how many, how long a head may take, how large it is, how long nothing may be read.

uvicorn bounds none of these by itself. Whoever opens connections and says nothing, sends heads without end, or takes
nothing of what is sent to it, would hold a socket and its buffers for ever. What a request may cost is bounded in
``app`` and ``body``. Imports uvicorn, and so is imported only where something is served.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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
    """One connection. ``bounded_by`` makes the class that uvicorn is given."""

    limits: ClassVar[Limits] = Limits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pauses = 0
        """How often the client has been too slow."""
        self._head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take a connection, or close it if there are enough."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent."""
        super().data_received(data)
        if not self.reads_head:
            self._head = 0
            return
        self._head += len(data)
        if self._head > self.limits.max_head:
            self.transport.abort()

    def pause_writing(self) -> None:
        """Take note that the client does not keep up."""
        self.pauses += 1
        super().pause_writing()

    @property
    def reads_head(self) -> bool:
        """Whether a head is awaited, or has begun and not ended."""
        cycle: Any = self.cycle
        return cycle is None or cycle.scope is not self.scope

    @property
    def is_idle(self) -> bool:
        """Whether nothing is served, and uvicorn's own clock for that does not run: the client is still sending."""
        return self.timeout_keep_alive_task is None and (self.reads_head or self.cycle.response_complete)

    @property
    def is_stuck(self) -> bool:
        """Whether more waits for the client than should."""
        return self.flow.write_paused


def bounded_by(limits: Limits) -> type[BoundedConnection]:
    """Make the class of connections with these limits."""
    return type("Connection", (BoundedConnection,), {"limits": limits})


class Sweep:
    """Looks at every connection now and then, and aborts those that have come no further for too long.

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
            if now - since >= patience:
                each.transport.abort()
            else:
                seen[each] = (state, since)
        self._seen = seen

    def _state(self, connection: Any) -> tuple[object, float]:
        """Say where a connection stands, and how long it may stand there; ``None`` if it is well."""
        is_ours = isinstance(connection, BoundedConnection)
        if connection.transport.is_closing() or (is_ours and connection.is_stuck):
            # While it is so, nothing is added to what waits.
            left: int = connection.transport.get_write_buffer_size() // _STEP
            return ("writes", connection.pauses if is_ours else 0, left), self._limits.stall
        if is_ours and connection.is_idle:
            return ("reads", id(connection.scope), connection.reads_head), self._limits.head_timeout
        return None, 0.0
