"""Our own requests while they wait: which reply each waits for, and for how long.

One timer serves all deadlines of a connection. A deadline can be paused while a person answers, and resumed. The
connection sends requests and gives them up; the session has the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from msgspec import Raw, Struct

from antiphon.errors import AntiphonError, CallTimeout, RemoteProtocolError
from antiphon.machine.call_time import TimeLeft
from antiphon.protocol.events import Outgoing, Replied
from antiphon.wire.envelope import RequestId, from_wire
from antiphon.wire.lifecycle import ProgressNotificationParams


class Timed(Struct, eq=False):
    """Something with a deadline. It is a struct because there is one for every request."""

    timeout: float | None
    """Seconds allowed, not counting pauses."""
    deadline: float | None = None
    """Time of the loop's clock."""
    remaining: float = 0.0
    paused: int = 0


class Deadlines:
    """Calls ``expired`` for each item whose deadline has passed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[Timed], object]) -> None:
        self._loop = loop
        self._expired = expired
        self._waiting: dict[Timed, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timed: Timed) -> None:
        """Start the clock of ``timed``."""
        if timed.timeout is None:
            return
        timed.deadline = self._loop.time() + timed.timeout
        self._waiting[timed] = None
        self._arm(timed.deadline)

    def end(self, timed: Timed) -> None:
        """Remove ``timed``, which was answered."""
        self._waiting.pop(timed, None)

    def pause(self, timed: Timed) -> None:
        """Pause the clock of ``timed``; pauses nest."""
        timed.paused += 1
        if timed.paused == 1 and timed.deadline is not None:
            timed.remaining = timed.deadline - self._loop.time()
            timed.deadline = None

    def resume(self, timed: Timed) -> None:
        """Undo one ``pause``."""
        timed.paused -= 1
        if timed.paused == 0 and timed in self._waiting:
            timed.deadline = self._loop.time() + timed.remaining
            self._arm(timed.deadline)

    def close(self) -> None:
        """Stop the timer for good."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, when: float) -> None:
        if self._timer is None or when < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        due = [timed for timed in self._waiting if timed.deadline is not None and timed.deadline <= now]
        for timed in due:
            del self._waiting[timed]
            self._expired(timed)
        following = [timed.deadline for timed in self._waiting if timed.deadline is not None]
        if following:
            self._arm(min(following))


OnProgress = Callable[[ProgressNotificationParams], object]


class Waiter(Timed, eq=False, kw_only=True):
    """One waiting request of ours."""

    outgoing: Outgoing
    future: asyncio.Future[Raw]
    on_progress: OnProgress | None
    time: TimeLeft | None = None
    """Of the call that the request is made for: what is left of it where the request stands still, or has ended."""

    def let_go(self) -> None:
        """Declare that nobody will look at the outcome, so that an error is not reported as never retrieved."""
        if self.future.done() and not self.future.cancelled():
            self.future.exception()


class WaitingRequests:
    """The table of our waiting requests. ``gave_up`` is called with each request whose deadline passed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, gave_up: Callable[[Outgoing], object]) -> None:
        self._loop = loop
        self._gave_up = gave_up
        self._waiters: dict[RequestId, Waiter] = {}
        self._deadlines = Deadlines(loop, self._expired)

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, outgoing: Outgoing, timeout: float | TimeLeft | None, on_progress: OnProgress | None) -> Waiter:
        """Enter a request that was just sent; the caller awaits ``future`` and then calls ``end``."""
        time = timeout if isinstance(timeout, TimeLeft) else None
        seconds = timeout.seconds if isinstance(timeout, TimeLeft) else timeout
        future: asyncio.Future[Raw] = self._loop.create_future()
        waiter = Waiter(seconds, outgoing=outgoing, future=future, on_progress=on_progress, time=time)
        self._waiters[outgoing.id] = waiter
        if seconds is not None:
            self._deadlines.start(waiter)
        return waiter

    def end(self, waiter: Waiter) -> None:
        """Remove a request from the table."""
        self._waiters.pop(waiter.outgoing.id, None)
        if waiter.timeout is not None:
            self._deadlines.end(waiter)
            if waiter.time is not None and waiter.deadline is not None:
                waiter.time.seconds = max(0.0, waiter.deadline - self._loop.time())

    def replied(self, event: Replied) -> None:
        """Wake the caller that waits for this reply."""
        waiter = self._waiters.get(event.outgoing.id)
        if waiter is None or waiter.future.done():
            return
        if event.result is not None:
            waiter.future.set_result(event.result)
        elif event.error is not None:
            waiter.future.set_exception(from_wire(event.error))
        else:
            waiter.future.set_exception(RemoteProtocolError(event.problem or "The reply cannot be read"))

    def report_progress_to(self, params: ProgressNotificationParams) -> object:
        """Report progress to the waiting caller; returns what its callback returned."""
        waiter = self._waiters.get(params.progress_token)
        if waiter is None or waiter.on_progress is None or waiter.future.done():
            return None
        return waiter.on_progress(params)

    def fail(self, id: RequestId, error: AntiphonError) -> None:
        """Fail one request."""
        waiter = self._waiters.get(id)
        if waiter is not None and not waiter.future.done():
            waiter.future.set_exception(error)

    def fail_all(self, error: Callable[[], AntiphonError]) -> None:
        """Fail every request, each with an exception of its own."""
        self._deadlines.close()
        for waiter in list(self._waiters.values()):
            if not waiter.future.done():
                waiter.future.set_exception(error())

    def pause(self) -> list[Waiter]:
        """Pause the clocks of all waiting requests; pass the result to ``resume`` once."""
        waiters = list(self._waiters.values())
        for waiter in waiters:
            self._deadlines.pause(waiter)
            if waiter.paused == 1 and waiter.time is not None and waiter.timeout is not None:
                waiter.time.seconds = waiter.remaining
        return waiters

    def resume(self, waiters: Iterable[Waiter]) -> None:
        """Resume the clocks paused by one ``pause``."""
        for waiter in waiters:
            if waiter.time is not None and waiter.time.seconds is not None:
                # A machine may have worked for the call meanwhile.
                waiter.remaining = waiter.time.seconds
            self._deadlines.resume(waiter)

    def _expired(self, timed: Timed) -> None:
        if not isinstance(timed, Waiter) or timed.future.done():
            return
        self._gave_up(timed.outgoing)
        name = timed.outgoing.method.name
        timed.future.set_exception(CallTimeout(f"{name} was not answered within {timed.timeout:g} s"))
