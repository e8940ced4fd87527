"""A running session: one channel, one session, the tasks between them.

Owns its life, the reading, and what is done about each message. Serving requests is ``serving``'s business, making them
``requests``'s, the rules are the session's. Closing works from any task, in any order, any number of times.

One frame is read after another, in one task at a time. Most are requests whose handler never waits, and the task that
reads serves them itself. If it comes to belong to a handler that does, what arrived with that request is looked at in
tasks of its own, and another goes on with the reading (``Reading``).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import CoroutineType
from typing import Any, Generic, TypeVar

from msgspec import Raw

from antiphon.channel import MAX_FRAME, Channel, Frame, Offers, Oversized, Related
from antiphon.engine.callbacks import awaited, called
from antiphon.engine.flag import Flag
from antiphon.engine.requests import Asking, OnProgress, Waiter
from antiphon.engine.serving import LATER, Handler, Later, Serving
from antiphon.engine.tasks import Tasks
from antiphon.engine.telemetry import Watch
from antiphon.errors import AntiphonError, ConnectionClosed, LocalProtocolError
from antiphon.protocol.events import (
    Answered,
    Batch,
    Cancelled,
    Event,
    Ignored,
    Notified,
    Outgoing,
    Replied,
    Request,
)
from antiphon.protocol.session import Session
from antiphon.wire.common import RequestParams, Wire
from antiphon.wire.envelope import Envelope
from antiphon.wire.lifecycle import ProgressNotificationParams

__all__ = ["LATER", "Connection", "Handler", "Later"]

log = logging.getLogger("antiphon.connection")

S = TypeVar("S", bound=Session)

MAX_SERVED = 1_000
"""Most requests of one peer that may be open at once; more are refused. Each holds a task and its frame.

Reading never stops for it: among the frames behind may be the replies that these requests wait for."""

_STALL = 60.0
"""Seconds a peer may leave our output unread before it counts as gone."""

_LAST_WORDS = 5.0
"""Seconds that cancelled handlers have to clean up when a connection closes."""


class Connection(Generic[S]):
    """The loop around one session.

    ``handlers`` has one function for every request the session lets through: ``(request, connection)`` to a result,
    to a coroutine of one, or to ``LATER``. ``notified`` is called for each notification (and its result run, if it is
    a coroutine), ``ended`` once nothing can be sent any more.
    ``stops_clock``: while a handler of ours waits, the deadlines of our own requests stand still (a client that
    answers asks; docs/topics/human-time.md). ``grace``: seconds that running handlers have to finish after the
    peer has ended.
    """

    def __init__(
        self,
        channel: Channel,
        session: S,
        handlers: Mapping[str, Handler],
        *,
        notified: Callable[[Notified], object] | None = None,
        ended: Callable[[], object] | None = None,
        stops_clock: bool = False,
        grace: float = 0.0,
        max_served: int = MAX_SERVED,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self.channel = channel
        self.session = session
        self.ignored = 0
        """How many messages of the peer had no effect: late replies, unknown notifications, stray requests."""
        self.principal: str | None = None
        """Who the peer has proven to be, where the transport checks that."""
        self.headers: Mapping[str, str] = {}
        """Headers of the transport's request, where it has some; what is in them was not verified."""
        self.watch: Watch | None = None
        """Who is told of the requests, if anybody listens; set by the owner, with the handlers it has watched."""
        self.ready = Flag()
        """Set by the owner once the handshake is complete: asks of ours wait for it."""
        self.on_notified = notified
        self.on_close: Callable[[], object] | None = None
        """Called when ``close`` begins and replies can still be sent."""
        self.on_end = ended
        self._stops_clock = stops_clock
        self._grace = grace
        self._max_served = max_served
        self._max_frame = max_frame
        self._loop = asyncio.get_running_loop()
        self.tasks = Tasks(self._loop)
        self.serving = Serving(self, session, handlers, max_served)
        self.asking = Asking(self, session, self._loop)
        self._reading: Reading | None = None
        """Made by ``start``: a connection that is handed its messages has none."""
        self.gone: Callable[[], ConnectionClosed] | None = None
        """Why nothing will be received any more."""
        self._over: Callable[[], ConnectionClosed] | None = None
        self._ended = Flag()
        self._closed: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read."""
        self._reading = Reading(self, self.session, self._max_frame)

    async def wait_ended(self) -> None:
        """Wait until the peer has ended or ``close`` was called."""
        await self._ended.wait()

    async def close(self) -> None:
        """End the connection: whoever waits is told, handlers are cancelled, the channel is closed.

        Returns when that is done; a handler that was cancelled by another ``close`` does not wait for its own end.
        """
        caller = asyncio.current_task()
        if self._closed is None:
            if self.on_close is not None and self._over is None:
                called("the close of a connection", self.on_close)
            self._end(lambda: ConnectionClosed("The connection was closed"))
            self._closed = self._loop.create_task(self._close(caller))
        elif caller in self.tasks:
            return
        await asyncio.shield(self._closed)

    async def _close(self, caller: asyncio.Task[Any] | None) -> None:
        await self.tasks.wait_stopped(spare=caller, patience=_LAST_WORDS)
        await self.channel.close()

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._over is not None

    def _end(self, error: Callable[[], ConnectionClosed]) -> None:
        if self._over is not None:
            return
        self.gone = self._over = error
        if self._reading is not None:
            self._reading.end()
        self.asking.waiting.fail_all(error)
        for request in list(self.session.incoming.values()):
            if request not in self.serving.suspended and request.on_cancel is not None:
                called("a cancellation", request.on_cancel, "the connection has ended")
            if request.on_end is not None:
                request.on_end(request, None)
        caller = asyncio.current_task()
        for task, _ in list(self.serving.suspended.values()):
            # Not all of them are ours: ``handle`` runs in a task of the transport's.
            if task is not caller:
                self.tasks.stop(task, "the connection has ended")
        self.tasks.stop_all(spare=caller)
        self._ended.set()
        if self.on_end is not None:
            called("the end of a connection", self.on_end)

    async def peer_ended(self) -> None:
        """Take note that nothing will be received any more: running handlers have the grace to finish."""
        gone = self.gone = self.channel.closed_error
        self.asking.waiting.fail_all(gone)
        if self._grace > 0:
            try:
                async with asyncio.timeout(self._grace):
                    await self.serving.wait_idle()
            except TimeoutError:
                log.warning("the peer has ended; its requests are given up after %g s", self._grace)
        self._end(gone)

    def failed(self, error: Exception) -> None:
        """End the connection for a fault of our own."""
        log.error("the connection failed", exc_info=error)
        self._end(lambda: ConnectionClosed("The connection failed; the log says why"))

    # --- what arrives -------------------------------------------------------------------------------------------

    def act(self, event: Event) -> Awaitable[None] | None:
        """Do what has to be done about an event that is no request; return what sending an answer returned."""
        if isinstance(event, Replied):
            self.asking.waiting.replied(event)
        elif isinstance(event, Notified):
            self._notice(event)
        elif isinstance(event, Answered):
            return self.channel.send(Frame(event.reply, event.id, True, event.code))
        elif isinstance(event, Cancelled):
            self._withdrawn(event)
        elif isinstance(event, Batch):
            self._batch(event)
        elif isinstance(event, Ignored):
            self.ignored += 1
            log.debug("ignored: %s", event.reason)
        return None

    def _notice(self, event: Notified) -> None:
        if isinstance(event.params, ProgressNotificationParams):
            self._detach(called(event.method.name, self.asking.waiting.progressed, event.params))
        elif self.on_notified is not None:
            self._detach(called(event.method.name, self.on_notified, event))

    def _detach(self, result: object) -> None:
        if not inspect.iscoroutine(result):
            return
        if len(self.tasks) > 2 * self._max_served:
            # A peer that tells faster than our callbacks can take it: what it tells may be lost, memory may not.
            result.close()
            self.ignored += 1
            return
        self.tasks.start(awaited(result))

    def _withdrawn(self, event: Cancelled) -> None:
        request = event.request
        log.debug("%s was cancelled: %s", request.method.name, event.reason)
        if request.on_cancel is not None:
            called("a cancellation", request.on_cancel, event.reason)
        if request.on_end is not None:
            request.on_end(request, None)
        self.end_children(request)
        if request.batch is not None:
            self.serving.send_reply(request, None)

    def _batch(self, batch: Batch) -> None:
        answers = [event for event in batch.events if isinstance(event, Answered)]
        replies = self.serving.serve_batch(batch, len(answers))
        for event in batch.events:
            if isinstance(event, Answered):
                frame = replies.add(event.reply)
                if frame is not None:
                    self.channel.send(Frame(frame))
            elif not isinstance(event, Request):
                self.act(event)

    # --- one message at a time (``channel.Peer``) ---------------------------------------------------------------

    def handle(
        self, message: Envelope, *, waits: Callable[[], object] | None = None, params: RequestParams | None = None
    ) -> Coroutine[Any, Any, None]:
        """Take one message, in the caller's task: for a transport whose messages each come in a request of their own.

        A connection that is driven so is never started. See ``channel.Peer``.
        """
        event = self.session.take(message, params)
        if type(event) is Request:
            event.on_wait = waits
            return self.serving.serve(event)
        return self._acted(event)

    async def _acted(self, event: Event) -> None:
        if (wait := self.act(event)) is not None:
            await self.drained(wait)

    def tell(self, message: Envelope) -> Awaitable[None] | None:
        """Take one message that is no request, as ``handle`` does. See ``channel.Peer``."""
        wait = self.act(self.session.take(message))
        return None if wait is None else self.drained(wait)

    def withdraw(self, id: int | str, reason: str) -> None:
        """Cancel a request of the peer's whose stream was closed, as if it had been cancelled by a notification."""
        event = self.session.withdraw(id, reason)
        if event is not None:
            self._withdrawn(event)

    # --- replies ------------------------------------------------------------------------------------------------

    def reply(self, request: Request, result: Wire | Raw) -> Awaitable[None] | None:
        """Send the result of a request; nothing is sent if it was cancelled or answered before.

        A result that cannot be sent becomes an error reply. Returns what ``Channel.send`` returns.
        """
        return self.serving.reply(request, result)

    def reply_error(self, request: Request, error: BaseException) -> Awaitable[None] | None:
        """Send an error as the reply to a request.

        An exception that is no ``PeerError``, or one that a peer of ours sent, is logged, and told to nobody.
        """
        return self.serving.reply_error(request, error)

    # --- sending ------------------------------------------------------------------------------------------------

    def request(
        self, outgoing: Outgoing, *, timeout: float | None = None, on_progress: OnProgress | None = None
    ) -> CoroutineType[Any, Any, Raw]:
        """Send a request the session has opened, and wait for its result, undecoded.

        Raises:
            PeerError: the peer answered with an error.
            RemoteProtocolError: the peer answered with what cannot be read.
            CallTimeout: no answer came within ``timeout`` seconds; the peer was told to stop.
            ConnectionClosed: the channel ended first.
        """
        return self.asking.request(outgoing, timeout, on_progress)

    def send(self, data: bytes, request: Request | None = None) -> Awaitable[None] | None:
        """Send a notification the session has encoded; ``request`` is the peer's request it belongs to."""
        return self.channel.send(Frame(data, request.id if request is not None else None))

    def abandon(self, id: int | str, error: AntiphonError) -> None:
        """Give up a request of ours: the peer is told to stop, whoever waits gets ``error``."""
        self.asking.abandon(id, error)

    # --- for ``Reading``, ``serving`` and ``requests`` ----------------------------------------------------------

    def hand_over(self, task: asyncio.Task[Any]) -> None:
        """Take note that a task belongs to a handler from now on: if it was reading, another has to."""
        if self._reading is not None:
            self._reading.hand_over(task)

    def stop_clocks(self) -> Sequence[Waiter]:
        """Let the deadlines of our own requests stand still, where a waiting handler does that."""
        return self.asking.waiting.pause() if self._stops_clock else ()

    def start_clocks(self, waiters: Sequence[Waiter]) -> None:
        """Let those deadlines go on."""
        self.asking.waiting.resume(waiters)

    def end_children(self, request: Request) -> None:
        """Give up the asks that belong to a request."""
        for id in list(request.children or ()):
            self.abandon(id, LocalProtocolError("The request this ask belongs to has ended"))

    async def drained(self, wait: Awaitable[None]) -> None:
        """Wait until the peer has taken what it was sent; one that reads nothing for long is gone."""
        try:
            async with asyncio.timeout(_STALL):
                await wait
        except TimeoutError:
            self._end(lambda: ConnectionClosed(f"The peer read nothing for {_STALL:g} s"))


_TOGETHER = 64
"""Most messages that are looked at each in a task, after one whose handler waits."""


class Reading:
    """Reads from one channel. ``limit``: bytes of the longest frame it takes, to tell a peer that sent a longer one."""

    __slots__ = ("_arrived", "_known", "_limit", "_owner", "_reader", "_session")

    def __init__(self, owner: Connection[Any], session: Session, limit: int) -> None:
        self._owner = owner
        self._session = session
        self._limit = limit
        self._arrived: deque[bytes | Oversized] = deque()
        """What was received and not looked at yet."""
        self._known: tuple[bytes | Oversized, Event] | None = None
        """A frame that was looked at where it arrived and is to be received, and what it means."""
        self._reader: asyncio.Task[None] | None = None
        """The task that reads; ``None`` once nothing more is to be read."""
        if isinstance(owner.channel, Offers):
            owner.channel.offer_to(self._take_reply)
        self._go_on()

    def _go_on(self) -> None:
        self._reader = self._owner.tasks.start(self._read())

    def hand_over(self, task: asyncio.Task[Any]) -> None:
        """Take note that a task belongs to a handler from now on: if it was reading, another has to."""
        if self._reader is task:
            # What came with this one may wait as well: each in a task now, all of them begin in one pass of the loop.
            for _ in range(min(len(self._arrived), _TOGETHER)):
                self._owner.tasks.start(self._take(self._arrived.popleft()))
            self._go_on()

    def end(self) -> None:
        """Read nothing more; the task that reads is not stopped."""
        self._reader = None

    def _take_reply(self, frame: bytes | Oversized) -> bool:
        """Take a frame where it arrives, if it is a reply.

        Whoever waits for it goes on a pass of the event loop sooner, and the task that reads does not wake for it.
        """
        if self._reader is None:
            return False
        try:
            event = self._event(frame)
            if isinstance(event, Replied):
                self._owner.act(event)
                return True
        except Exception as error:
            self._owner.failed(error)
            return True
        self._known = frame, event
        return False

    async def _read(self) -> None:
        owner, me = self._owner, asyncio.current_task()
        try:
            while self._reader is me:
                if self._arrived:
                    if (work := self._begin(self._arrived.popleft())) is not None:
                        await work
                    continue
                frames = await owner.channel.receive()
                if not frames:
                    await owner.peer_ended()
                    return
                self._arrived.extend(frames)
        except Exception as error:
            owner.failed(error)

    async def _take(self, frame: bytes | Oversized) -> None:
        try:
            if (work := self._begin(frame, has_task=True)) is not None:
                await work
        except Exception as error:
            self._owner.failed(error)

    def _begin(self, frame: bytes | Oversized, *, has_task: bool = False) -> Awaitable[None] | None:
        """Act on a frame; return what is left to wait for. A request costs no coroutine but its handler's.

        ``has_task``: it is awaited in a task of its own.
        """
        known, self._known = self._known, None
        event = known[1] if known is not None and known[0] is frame else self._event(frame)
        if type(event) is Request:
            return self._owner.serving.serve(event, has_task=has_task)
        wait = self._owner.act(event)
        return None if wait is None else self._owner.drained(wait)

    def _event(self, frame: bytes | Oversized) -> Event:
        if isinstance(frame, Oversized):
            return self._session.oversized(frame.size, self._limit)
        event = self._session.receive(frame)
        if type(frame) is Related and isinstance(event, Request):
            event.related_to = frame.related_to
        return event
