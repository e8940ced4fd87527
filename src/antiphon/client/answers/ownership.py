"""Our open calls: which of them an ask belongs to, how many asks each has left, and whose turn it is.

Before 2026-07-28 an ask does not name the call it belongs to. It is known if the transport knows on whose stream
the ask came. Otherwise it is the only open call, unless a call was given up and the server may not have heard of it
yet. All other asks are counted together: as many are allowed as the open calls have left between them. ``calls``
decides what happens when there are too many.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Collection, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import msgspec

from antiphon.client.rounds.loop import RoundLimits
from antiphon.errors import InvalidParams
from antiphon.machine.call_time import CARRIED, TimeLeft, count_time, hold_variable
from antiphon.protocol.events import Request
from antiphon.wire.common import Wire
from antiphon.wire.envelope import RequestId
from antiphon.wire.origin import Origin, OriginCall, OriginTask

_PROCESS = os.urandom(4).hex()
"""Part of every call's name, so that a call continued in another process never has the name of a call made there."""

_numbers = count(1)

MAX_LATE = 10_000
"""Most asks that are attributed to calls that were given up."""


class OpenCall(msgspec.Struct, eq=False):
    """A call of ours that is open. Its origin is made for the first ask that needs it.

    A struct, because every call makes one, and structs are made in C.
    """

    method: str
    params: Wire
    time: TimeLeft | None = None
    """The time it has left, if it is counted."""
    given_name: str | None = None
    """The name that a continued call had before."""
    carried: Any = msgspec.field(default_factory=CARRIED.get)
    number: int = msgspec.field(default_factory=_numbers.__next__)
    request: RequestId | None = None
    """Id of its open request, or of the last one if none is open."""
    task: OriginTask | None = None
    """The task that it has become."""
    asked: int = 0
    answering: int = 0
    pending: set[Request] | None = None
    """Asks that came as requests and are being answered."""
    answered: list[tuple[Wire, Origin]] = []
    """Answered asks of its round, until it is known whether the answers reached the server."""

    @property
    def name(self) -> str:
        """The name of the call, unique across processes."""
        return self.given_name or f"{self.number}-{_PROCESS}"

    def origin(self) -> OriginCall:
        """Return the facts about the call for its answerers."""
        arguments: Any = getattr(self.params, "arguments", None)
        if isinstance(arguments, msgspec.Raw):
            try:
                arguments = msgspec.json.decode(arguments or b"{}")
            except msgspec.DecodeError as error:
                raise InvalidParams(f"arguments: {error}") from None
        # A server refuses anything but an object; whoever is asked about the call sees the params.
        arguments = arguments if arguments.__class__ is dict else None
        subject = getattr(self.params, "name", None) or getattr(self.params, "uri", None)
        return OriginCall(id=self.name, method=self.method, name=subject, arguments=arguments)


@contextmanager
def answering(call: OpenCall | None) -> Generator[None]:
    """Answer an ask as a part of its call, with the call's time and what it carries; ``None``: it is not known."""
    carried, time = (None, None) if call is None else (call.carried, call.time)
    with hold_variable(CARRIED, carried), count_time(time):
        yield


class OpenCalls:
    """The open calls of one connection."""

    def __init__(self, limits: RoundLimits) -> None:
        self._limits = limits
        self._calls: dict[int, OpenCall] = {}
        self._asked = 0
        # Number of asks that belong to one of several calls, without knowing which.
        self._shared = 0
        self._shared_pending: set[Request] = set()
        # Number of asks that given-up calls may still have sent, and the newest call when the last of these
        # was given up; 0 once the server has answered a later call.
        self._late = 0
        self._late_since = 0
        self._newest = 0
        self._answering = 0
        self._queue: deque[tuple[OpenCall | None, asyncio.Future[None]]] = deque()

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[OpenCall]:
        return iter(list(self._calls.values()))

    # --- calls --------------------------------------------------------------------------------------------------

    def open(self, method: str, params: Wire, time: TimeLeft | None = None, name: str | None = None) -> OpenCall:
        """Begin a call.

        ``time``: what it has left, if that is counted. ``name``: the name that a continued call had before; by default
        a new one.
        """
        call = OpenCall(method, params, time, name)
        self._calls[call.number] = call
        self._newest = call.number
        if self._queue:
            self._next()
        return call

    def close(self, call: OpenCall, *, given_up: bool = False) -> None:
        """End a call, and the answering of its asks.

        ``given_up``: the server may not know yet that the call has ended, and may still send asks for it. They are
            counted for no other call, until the server has answered a later call.
        """
        del self._calls[call.number]
        if given_up:
            self._late = min(self._late + self._limits.asks, MAX_LATE)
            self._late_since = self._newest
        elif call.number > self._late_since:
            self._late = self._late_since = 0
        self._asked -= call.asked
        if self._shared:
            # Attribute as many of the shared asks as possible to this call; the rest belongs to calls
            # that are still open.
            self._shared = max(0, self._shared - (self._limits.asks - call.asked)) if self._calls else 0
        if call.pending:
            _withdraw_asks(call.pending)
        if self._shared_pending and not self._calls:
            _withdraw_asks(self._shared_pending)
        if self._queue:
            self._next()

    def note_rest(self) -> None:
        """Note that a request without rounds has ended: asks that came during it are no longer counted."""
        if self._shared and not self._calls:
            self._shared = 0

    def call_of(self, request: RequestId) -> OpenCall | None:
        """Return the call whose open request this is."""
        return next((call for call in self._calls.values() if call.request == request), None)

    def only_call(self, method: str | None = None) -> OpenCall | None:
        """Return the only open call, or the only one of ``method``; ``None`` if an ask may belong to another call."""
        found = [call for call in self._calls.values() if method is None or call.method == method]
        return found[0] if len(found) == 1 and not self._late_since else None

    @property
    def may_ask(self) -> bool:
        """Whether an ask can belong to a call: one that is open, or one that was given up lately."""
        return bool(self._calls or self._late_since)

    # --- asks ---------------------------------------------------------------------------------------------------

    def charge(self, owner: OpenCall | None, *, is_certain: bool = False) -> bool:
        """Count an ask; return whether it may be answered. ``is_certain``: it is known to belong to the owner."""
        if self._late and not is_certain:
            self._late -= 1
            return True
        if owner is not None:
            if owner.asked >= self._limits.asks:
                return False
            owner.asked += 1
            self._asked += 1
            return True
        if self._asked + self._shared >= self._limits.asks * max(1, len(self._calls)):
            return False
        self._shared += 1
        return True

    def take_turn(self, owner: OpenCall | None) -> Awaitable[None] | None:
        """Let an ask be answered now, or return what to await first; call ``end_turn`` in either case.

        Each open call adds as many turns as one call may have, so that an answerer that calls the same server, and is
        asked during that call, never waits for itself.
        """
        if self._queue or not self._is_free(owner):
            return self._wait_turn(owner)
        self._take(owner)
        return None

    async def _wait_turn(self, owner: OpenCall | None) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((owner, turn))
        self._next()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._queue.remove((owner, turn))
            else:
                self.end_turn(owner)
            raise

    def end_turn(self, owner: OpenCall | None) -> None:
        """Let the next ask be answered."""
        self._answering -= 1
        if owner is not None:
            owner.answering -= 1
        if self._queue:
            self._next()

    def bind(self, ask: Request, owner: OpenCall | None) -> set[Request]:
        """Have an ask cancelled when its call ends, or all calls that it may belong to.

        Returns the set to remove the ask from once it is answered.
        """
        if owner is None:
            bound = self._shared_pending if self._calls else set[Request]()
        else:
            bound = owner.pending = owner.pending if owner.pending is not None else set()
        bound.add(ask)
        return bound

    def _is_free(self, owner: OpenCall | None) -> bool:
        if owner is not None and owner.answering >= self._limits.at_once:
            return False
        return self._answering < self._limits.at_once * max(1, len(self._calls))

    def _take(self, owner: OpenCall | None) -> None:
        self._answering += 1
        if owner is not None:
            owner.answering += 1

    def _next(self) -> None:
        for entry in list(self._queue):
            owner, turn = entry
            if turn.done() or not self._is_free(owner):
                continue
            self._queue.remove(entry)
            self._take(owner)
            turn.set_result(None)


def _withdraw_asks(asks: Collection[Request]) -> None:
    for ask in list(asks):
        if ask.on_cancel is not None:
            ask.on_cancel("the call it belongs to has ended")
