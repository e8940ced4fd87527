"""Our own requests while they wait: which reply each waits for, and for how long.

One timer serves all deadlines of a connection. A deadline can be paused while a person answers, and resumed. The
connection sends requests and gives them up; the session has the rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from msgspec import Raw, Struct

from antiphon.errors import AntiphonError, CallTimeout, RemoteProtocolError
from antiphon.machine.asyncio_tasks import settle_future
from antiphon.machine.call_time import TimeLeft
from antiphon.protocol.events import Outgoing, Replied
from antiphon.wire.envelope import RequestId, from_wire
from antiphon.wire.lifecycle import ProgressNotificationParams

OnProgress = Callable[[ProgressNotificationParams], object]


class Waiter(Struct, eq=False, kw_only=True):
    """One waiting request of ours."""

    outgoing: Outgoing
    future: asyncio.Future[Raw]
    on_progress: OnProgress | None
    timeout: float | None
    """Seconds allowed, not counting pauses."""
    deadline: float | None = None
    """Time of the loop's clock; ``None`` without a timeout, or while it is paused."""
    remaining: float = 0.0
    paused: int = 0
    """Pauses nest."""
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
        self._timer: asyncio.TimerHandle | None = None
        """Rings at the earliest deadline."""

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, outgoing: Outgoing, timeout: float | TimeLeft | None, on_progress: OnProgress | None) -> Waiter:
        """Enter a request that was just sent; the caller awaits ``future`` and then calls ``end``."""
        time = timeout if isinstance(timeout, TimeLeft) else None
        seconds = timeout.seconds if isinstance(timeout, TimeLeft) else timeout
        future: asyncio.Future[Raw] = self._loop.create_future()
        waiter = Waiter(outgoing=outgoing, future=future, on_progress=on_progress, timeout=seconds, time=time)
        self._waiters[outgoing.id] = waiter
        if seconds is not None:
            self._start_clock(waiter, seconds)
        return waiter

    def _start_clock(self, waiter: Waiter, seconds: float) -> None:
        waiter.deadline = self._loop.time() + seconds
        if self._timer is None or waiter.deadline < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(waiter.deadline, self._ring)

    def _ring(self) -> None:
        """Give up the requests whose deadline has passed, and set the timer to the next one."""
        self._timer, now = None, self._loop.time()
        for waiter in list(self._waiters.values()):
            if waiter.deadline is not None and waiter.deadline <= now and not waiter.future.done():
                self._gave_up(waiter.outgoing)
                name = waiter.outgoing.method.name
                waiter.future.set_exception(CallTimeout(f"{name} was not answered within {waiter.timeout:g} s"))
        left = [waiter for waiter in self._waiters.values() if not waiter.future.done()]
        following = min((waiter.deadline for waiter in left if waiter.deadline is not None), default=None)
        if following is not None:
            self._timer = self._loop.call_at(following, self._ring)

    def end(self, waiter: Waiter) -> None:
        """Remove a request from the table."""
        self._waiters.pop(waiter.outgoing.id, None)
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
        if waiter is not None:
            settle_future(waiter.future, error)

    def fail_all(self, error: Callable[[], AntiphonError]) -> None:
        """Fail every request, each with an exception of its own."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in list(self._waiters.values()):
            settle_future(waiter.future, error())

    def pause(self) -> list[Waiter]:
        """Pause the clocks of all waiting requests; pass the result to ``resume`` once."""
        waiters = list(self._waiters.values())
        for waiter in waiters:
            waiter.paused += 1
            if waiter.deadline is not None:
                waiter.remaining, waiter.deadline = waiter.deadline - self._loop.time(), None
                if waiter.time is not None:
                    waiter.time.seconds = waiter.remaining
        return waiters

    def resume(self, waiters: Iterable[Waiter]) -> None:
        """Resume the clocks paused by one ``pause``."""
        for waiter in waiters:
            if waiter.time is not None and waiter.time.seconds is not None:
                # A machine may have worked for the call meanwhile.
                waiter.remaining = waiter.time.seconds
            waiter.paused -= 1
            if waiter.paused == 0 and waiter.timeout is not None and not waiter.future.done():
                self._start_clock(waiter, waiter.remaining)
