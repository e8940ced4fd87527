"""The calls a server keeps between requests: parked ones, and for those that have ended, their last reply.

Owns the table, its bounds and its clock. Every entry lives equally long after it was last touched, so the oldest comes
first and one timer serves all; what has ended is kept as bytes, which cost the garbage collector next to nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec
from msgspec import Raw

from antiphon.engine.connection import Connection
from antiphon.errors import PeerError
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.parked_call import RoundCall
from antiphon.wire.envelope import ErrorObject

__all__ = ["EndedCall", "KeptCalls", "repeat"]

_SHARE = 4
"""A client that has proven who it is may have a quarter of the table and of its room; beyond, its own oldest go."""

_ENDED = 1024
"""Bytes of what is left of a call beside its reply: its ids, its place in the tables."""


class EndedCall(msgspec.Struct, gc=False, frozen=True):
    """What is left of a call: ``reply`` is the JSON of its result, or of its error."""

    run: bytes
    replayed_from: bytes
    generation: int
    owner: str | None
    reply: Raw
    is_error: bool

    @property
    def weight(self) -> int:
        """Bytes it holds, nearly."""
        return _ENDED + len(self.reply)


def repeat(call: EndedCall, connection: Connection[ServerSession], request: Request) -> None:
    """Answer a request as the call's last one was answered."""
    if not call.is_error:
        connection.reply(request, call.reply)
        return
    error = msgspec.json.decode(call.reply, type=ErrorObject)
    connection.reply_error(request, PeerError(error.message, code=error.code, data=error.data))


Entry = RoundCall | EndedCall


class _Shelf:
    """Ids in the order in which they were touched, and what they weigh: at most so many, and so many bytes."""

    __slots__ = ("_limit", "_room", "_size", "ids")

    def __init__(self, limit: int, room: int) -> None:
        self.ids: OrderedDict[bytes, int] = OrderedDict()
        self._limit = limit
        self._room = room
        self._size = 0

    @property
    def is_over(self) -> bool:
        """Whether the oldest has to go. What came last stays, whatever it weighs."""
        return len(self.ids) > 1 and (len(self.ids) > self._limit or self._size > self._room)

    def put(self, id: bytes, weight: int) -> bool:
        """Put it last; tell whether there is too much now."""
        self._size += weight - self.ids.get(id, 0)
        self.ids[id] = weight
        self.ids.move_to_end(id)
        return (len(self.ids) > self._limit or self._size > self._room) and self.is_over

    def take(self, id: bytes) -> None:
        self._size -= self.ids.pop(id, 0)

    def oldest(self) -> bytes:
        return next(iter(self.ids))


class KeptCalls:
    """Calls by id, the one touched longest ago first.

    ``ttl``: seconds an entry is kept after it was touched. ``limit``: most entries. ``room``: most bytes of requests
    and replies they hold. ``leave``: called with a parked call whose time is over.
    """

    def __init__(self, ttl: float, limit: int, room: int, leave: Callable[[RoundCall, str], object]) -> None:
        self._ttl = ttl
        self._leave = leave
        self._entries: dict[bytes, tuple[Entry, float]] = {}
        self._all = _Shelf(limit, room)
        self._owned: dict[str, _Shelf] = {}
        self._share = max(1, limit // _SHARE), room // _SHARE
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, id: bytes) -> Entry | None:
        """Return what is kept of a call."""
        entry = self._entries.get(id)
        return entry[0] if entry is not None else None

    def keep(self, id: bytes, entry: Entry) -> None:
        """Keep a call, or what it has become, from now on; make room for it."""
        loop = asyncio.get_running_loop()
        self._entries[id] = entry, loop.time() + self._ttl
        weight = entry.weight
        is_over = self._all.put(id, weight)
        if entry.owner is not None:
            owned = self._owned.get(entry.owner)
            if owned is None:
                owned = self._owned[entry.owner] = _Shelf(*self._share)
            owned.put(id, weight)
            while owned.is_over:
                self._drop(owned.oldest(), "too many calls of this client wait")
        while is_over and self._all.is_over:
            self._drop(self._all.oldest(), "too many calls wait")
        if self._timer is None:
            self._timer = loop.call_later(self._ttl, self._sweep)

    def forget(self, id: bytes) -> None:
        """Keep nothing of a call any more."""
        gone = self._entries.pop(id, None)
        if gone is None:
            return
        self._all.take(id)
        owner = gone[0].owner
        if owner is not None:
            owned = self._owned[owner]
            owned.take(id)
            if not owned.ids:
                del self._owned[owner]

    def clear(self) -> None:
        """Keep nothing at all."""
        for id in list(self._entries):
            self.forget(id)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._entries:
            id = self._all.oldest()
            _, until = self._entries[id]
            if until > loop.time():
                self._timer = loop.call_at(until, self._sweep)
                return
            self._drop(id, "no retry came in time")

    def _drop(self, id: bytes, reason: str) -> None:
        entry, _ = self._entries[id]
        self.forget(id)
        if isinstance(entry, RoundCall):
            self._leave(entry, reason)
