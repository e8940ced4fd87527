"""A running session: one channel, one session, the tasks between them.

Owns its life, the handling of each message, the peer's requests and their number, and the conversion of a handler's
exceptions to error replies. ``reading`` reads frames, ``requests`` has our waiting requests, and the session has the
rules. ``close`` may be called from any task, any number of times.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from msgspec import Raw

from antiphon import errors
from antiphon.channel import MAX_FRAME, Channel, Frame
from antiphon.engine.reader import (
    LATER,
    Flag,
    Handler,
    Later,
    Reader,
    Tasks,
    await_safely,
    call_safely,
    drive_handler,
    run_alone,
)
from antiphon.engine.requests import OnProgress, Waiter, WaitingRequests
from antiphon.machine.call_time import TimeLeft
from antiphon.protocol import events
from antiphon.protocol.call_record import CallRecord
from antiphon.protocol.caller import Caller
from antiphon.protocol.session import PeerSession
from antiphon.wire.common import RequestParams, Wire
from antiphon.wire.envelope import Envelope, cause_of, drop_frames
from antiphon.wire.lifecycle import ProgressNotificationParams

if TYPE_CHECKING:
    from antiphon.engine.request_telemetry import ConnectionWatch

__all__ = ["LATER", "OTHERS", "Connection", "Handler", "Later"]

log = logging.getLogger("antiphon.connection")

S = TypeVar("S", bound=PeerSession)

OTHERS = ""
"""Key of the handler of requests whose methods no revision has, where the session passes them on."""

MAX_SERVED = 1_000
"""Most open requests of one peer; further ones are refused. Each holds a task and its frame. Reader continues
meanwhile, because the frames that follow may contain replies that these requests wait for."""

_STALL = 60.0
"""Seconds without reading our output after which a peer counts as gone."""

_LAST_WORDS = 5.0
"""Seconds that cancelled handlers have to clean up when a connection closes."""


@dataclass(eq=False)
class Connection(Generic[S]):
    """The loop around one session."""

    channel: Channel
    session: S
    _handlers: Mapping[str, Handler]
    """One for each request that the session admits: ``(request, connection)`` to a result, coroutine or ``LATER``."""
    _: KW_ONLY
    on_notified: Callable[[Connection[S], events.Notified], object] | None = None
    """Called with this connection and each notification; if it returns a coroutine, that is run."""
    on_close: Callable[[Connection[S]], object] | None = None
    """Called when ``close`` begins, while replies can still be sent."""
    on_end: Callable[[Connection[S]], object] | None = None
    """Called with this connection once nothing can be sent any more."""
    stops_clock: bool = False
    """Whether deadlines of our own requests stand still while a handler waits (docs/topics/human-time.md)."""
    grace: float = 0.0
    """Seconds that running handlers have to finish after the peer has ended."""
    max_served: int = MAX_SERVED
    """Most open requests of the peer."""
    max_frame: int = MAX_FRAME
    """Bytes of the longest frame the channel accepts, for the error to a peer that sent a longer one."""
    caller: Caller | None = None
    """What the peer's token says, if one token stands for all its messages; otherwise each has its own."""
    is_local: bool = False
    """Whether the peer is in this process or has started it, so that nobody else can have sent its messages."""
    principal: str | None = None
    """Who the peer has proven to be; ``None`` where the transport does not authenticate."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers of the transport's request, if it has any; not verified."""
    ignored: int = 0
    """Number of messages of the peer without effect: late replies, unknown notifications, unexpected requests."""
    watch: ConnectionWatch | None = None
    """Reports requests to the telemetry, if that is configured; set by the owner together with wrapped handlers."""
    ready: Flag = field(default_factory=Flag)
    """Set by the owner when the handshake is complete; our asks wait for it."""
    suspended: dict[events.Request, tuple[asyncio.Task[Any], Sequence[Waiter]]] = field(default_factory=dict)
    """Requests whose handler waits, each with its task and our own requests whose clock stands still for it."""
    gone: Callable[[], errors.ConnectionClosed] | None = None
    """Returns why nothing will be received any more."""
    _room: Awaitable[None] | None = None
    """What the channel returned for the last frame: ``None``, or what finishes when there is room again."""
    _unread: int = 0
    """Number of cancelled requests of which the peer may not have read yet what their handlers sent."""
    _idle: Flag | None = None
    _reader: Reader | None = None
    """Made by ``start``; ``None`` for a connection whose messages are passed in."""
    _over: Callable[[], errors.ConnectionClosed] | None = None
    _ended: Flag = field(default_factory=Flag)
    _closed: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.session.is_framed = getattr(self.channel, "is_framed", False)
        self.loop = asyncio.get_running_loop()
        """The event loop that reads and writes."""
        self.tasks = Tasks(self.loop)
        self.waiting = WaitingRequests(self.loop, lambda outgoing: self._give_up(outgoing.id, "the deadline passed"))
        """Our requests that wait for their reply."""

    # --- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start reading."""
        self._reader = Reader(
            self.channel,
            self.session,
            self.tasks,
            self.max_frame,
            self.waiting,
            self._take,
            self._peer_ended,
            self._failed,
        )

    async def wait_ended(self) -> None:
        """Wait until the peer has ended or ``close`` was called."""
        await self._ended.wait()

    async def close(self) -> None:
        """Fail waiting requests, cancel handlers and close the channel; a handler never waits for its own end."""
        caller = asyncio.current_task()
        if self._closed is None:
            if self.on_close is not None and self._over is None:
                call_safely("the close of a connection", self.on_close, self)
            self._end(lambda: errors.ConnectionClosed("The connection was closed"))
            self._closed = self.loop.create_task(self._close(caller))
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

    def _end(self, error: Callable[[], errors.ConnectionClosed]) -> None:
        if self._over is not None:
            return
        self.gone = self._over = error
        if self._reader is not None:
            self._reader.end()
        self.waiting.fail_all(error)
        for request in list(self.session.incoming.values()):
            if request not in self.suspended and request.on_cancel is not None:
                call_safely("a cancellation", request.on_cancel, "the connection has ended")
            if request.on_end is not None:
                request.on_end(request, None)
        caller = asyncio.current_task()
        for task, _ in list(self.suspended.values()):
            # Some tasks belong to the transport, because ``handle`` runs in its tasks.
            if task is not caller:
                self.tasks.stop(task, "the connection has ended")
        self.tasks.stop_all(spare=caller)
        self._ended.set()
        if self.on_end is not None:
            call_safely("the end of a connection", self.on_end, self)

    async def _peer_ended(self) -> None:
        """Handle the end of the peer: running handlers have the grace period to finish."""
        gone = self.gone = self.channel.closed_error
        self.waiting.fail_all(gone)
        if self.grace > 0:
            try:
                async with asyncio.timeout(self.grace):
                    await self.wait_idle()
            except TimeoutError:
                log.warning("the peer has ended; its requests are given up after %g s", self.grace)
        self._end(gone)

    def _failed(self, error: Exception) -> None:
        """End the connection because of an error of our own."""
        log.error("the connection failed", exc_info=error)
        self._end(lambda: errors.ConnectionClosed("The connection failed; the log says why"))

    # --- incoming messages --------------------------------------------------------------------------------------

    def _take(self, event: events.Event, *, has_task: bool = False) -> Awaitable[None] | None:
        """Handle a message; return what is left to await, which is only a handler's. ``has_task``: in its own task."""
        if type(event) is events.Request:
            event.caller = event.caller or self.caller
            return self._serve(event, has_task=has_task)
        wait = self._act(event)
        return None if wait is None else self._drain_channel(wait)

    def _act(self, event: events.Event) -> Awaitable[None] | None:
        """Handle an event that is no request; return what sending a reply returned."""
        if isinstance(event, events.Replied):
            self.waiting.replied(event)
        elif isinstance(event, events.Notified):
            if isinstance(event.params, ProgressNotificationParams):
                self._detach(call_safely(event.method.name, self.waiting.report_progress_to, event.params))
            elif self.on_notified is not None:
                self._detach(call_safely(event.method.name, self.on_notified, self, event))
        elif isinstance(event, events.Answered):
            return self.channel.send(Frame(event.reply, event.id, True, event.code))
        elif isinstance(event, events.Cancelled):
            self._withdraw_work(event)
        elif isinstance(event, events.Batch):
            return self._batch(event)
        elif isinstance(event, events.Ignored):
            self.ignored += 1
            log.debug("ignored: %s", event.reason)
        return None

    def _detach(self, result: object) -> None:
        if not inspect.iscoroutine(result):
            return
        if len(self.tasks) > 2 * self.max_served:
            # The peer notifies faster than our callbacks run: notifications may be lost, memory must stay bounded.
            result.close()
            self.ignored += 1
            return
        self.tasks.start(await_safely(result))

    def _withdraw_work(self, event: events.Cancelled) -> None:
        request = event.request
        log.debug("%s was cancelled: %s", request.method.name, event.reason)
        if request.on_cancel is not None:
            call_safely("a cancellation", request.on_cancel, event.reason)
        if request.on_end is not None:
            request.on_end(request, None)
        self._end_children(request)
        if request.batch is not None:
            self._send_reply(request, None)
        if self._room is not None and self._reader is not None:
            # It counts as open until then: a peer that reads nothing and cancels whatever it requests could
            # otherwise have any number of frames wait for it.
            self._unread += 1
            self.tasks.start(self._read(self._room))

    async def _read(self, room: Awaitable[None]) -> None:
        """Wait until the peer has read what a cancelled request has sent."""
        try:
            await self._drain_channel(room)
        finally:
            self._unread -= 1

    def _batch(self, batch: events.Batch) -> Awaitable[None] | None:
        wait = None
        answers = [event for event in batch.events if isinstance(event, events.Answered)]
        requests = [event for event in batch.events if isinstance(event, events.Request)]
        replies = events.BatchReplies(len(requests) + len(answers))
        for request in requests:
            request.batch, request.caller = replies, request.caller or self.caller
            self.tasks.start(self._serve(request, has_task=True))
        for event in batch.events:
            if isinstance(event, events.Answered):
                if (frame := replies.add(event.reply)) is not None:
                    wait = self.channel.send(Frame(frame))
            elif not isinstance(event, events.Request):
                self._act(event)
        return wait

    # --- messages passed in one at a time (``channel.Peer``) ----------------------------------------------------

    def handle(
        self,
        message: Envelope,
        *,
        waits: Callable[[], object] | None = None,
        params: RequestParams | None = None,
        caller: Caller | None = None,
        record: CallRecord | None = None,
        pass_on: Callable[[str], object] | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Handle a message in the caller's task, for transports with one request per message (``channel.Peer``)."""
        event = self.session.take(message, params)
        if type(event) is events.Request:
            event.on_wait, event.pass_on = waits, pass_on
            if (caller := caller or self.caller) is not None:
                event.caller = caller
            if record is not None:
                event.record, event.progress = record, record.progress
            return self._serve(event)
        return self._carry_out_actions(event)

    async def _carry_out_actions(self, event: events.Event) -> None:
        if (wait := self._act(event)) is not None:
            await self._drain_channel(wait)

    def tell(self, message: Envelope) -> Awaitable[None] | None:
        """Handle one message that is no request, like ``handle``. See ``channel.Peer``."""
        wait = self._act(self.session.take(message))
        return None if wait is None else self._drain_channel(wait)

    def withdraw(self, id: int | str, reason: str) -> None:
        """Cancel a request of the peer because its stream was closed, as if by a notification."""
        event = self.session.withdraw(id, reason)
        if event is not None:
            self._withdraw_work(event)

    # --- requests of the peer -----------------------------------------------------------------------------------

    async def _serve(self, request: events.Request, *, has_task: bool = False) -> None:
        """Run a request's handler and reply, with an error if it raises. ``has_task``: in a task of its own."""
        if request.cancelled:
            # In a batch it may have been cancelled before its turn.
            return
        try:
            is_full = len(self.session.incoming) + self._unread > self.max_served
            if is_full or len(self.suspended) >= self.max_served:
                # A cancelled request is no longer open, but its handler may still be cleaning up.
                raise errors.InvalidRequest(
                    f"Too many requests at once: {self.max_served} are open already; try again later"
                )
            handler = self._handlers.get(request.method.name) or self._handlers[OTHERS]
            outcome = handler(request, self)
            if isinstance(outcome, CoroutineType):
                run = (
                    run_alone(outcome, self._note_task, request)
                    if has_task
                    else drive_handler(outcome, self._waits, request)
                )
                outcome = await run
            if isinstance(outcome, Later):
                return
            wait = self.reply(request, outcome)
        except asyncio.CancelledError:
            wait = (
                None if self.is_over else self.reply_error(request, errors.InternalError("The request was abandoned"))
            )
            if self.tasks.is_stopped_by_others(asyncio.current_task()):
                raise
        except Exception as error:
            wait = self.reply_error(request, error)
        finally:
            if request in self.suspended:
                self._resume_reading(request)
        if wait is not None:
            await self._drain_channel(wait)

    def _waits(self, request: events.Request) -> None:
        task = self._note_task(request)
        if request.on_wait is not None:
            request.on_wait()
        if self._reader is not None:
            self._reader.hand_over(task)

    def _note_task(self, request: events.Request) -> asyncio.Task[Any]:
        """Register the current task, so that cancelling the request cancels it."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a handler must run in a task")
        request.on_cancel = partial(self.tasks.stop, task)
        self.suspended[request] = task, self.waiting.pause() if self.stops_clock else ()
        return task

    def _resume_reading(self, request: events.Request) -> None:
        task, paused = self.suspended.pop(request)
        if getattr(request.on_cancel, "func", None) == self.tasks.stop:
            # A handler that waited and then left its reply to other code has set another function.
            request.on_cancel = None
        if paused:
            self.waiting.resume(paused)
        self.tasks.forgive(task)

    # --- replies ------------------------------------------------------------------------------------------------

    def reply(self, request: events.Request, result: Wire | Raw) -> Awaitable[None] | None:
        """Send a result, or an error if it cannot be encoded; nothing if the request was cancelled or answered."""
        try:
            data = self.session.reply(request, result)
        except errors.NotInRevision as error:
            return self.reply_error(request, errors.InternalError(f"The result cannot be sent: {error}"))
        except Exception as error:
            return self.reply_error(request, error)
        if request.on_end is not None:
            request.on_end(request, result)
        return self._send_reply(request, data)

    def reply_error(self, request: events.Request, error: BaseException) -> Awaitable[None] | None:
        """Reply with an error; any but our own ``PeerError`` is logged, and its text is not sent."""
        if isinstance(error, ExceptionGroup):
            error = cause_of(cast("ExceptionGroup[Exception]", error))
        if not request.cancelled and (not isinstance(error, errors.PeerError) or error.remote):
            log.error("%s failed", request.method.name, exc_info=error)
        data = self.session.reply_error(request, error)
        if request.on_end is not None:
            request.on_end(request, error)
        drop_frames(error)
        return self._send_reply(request, data)

    def _send_reply(self, request: events.Request, data: bytes | None) -> Awaitable[None] | None:
        """Send the encoded reply to a request, or nothing if it is ``None``."""
        if request.children:
            self._end_children(request)
        if request.batch is not None:
            batch, request.batch = request.batch, None
            data = batch.add(data)
        wait = None
        if data is not None:
            wait = self._room = self.channel.send(Frame(data, request.id, True, request.code))
        if self._idle is not None and not self.is_busy():
            self._idle.set()
        return wait

    def is_busy(self) -> bool:
        """Return whether a reply is still to come; subscriptions, which last as long as this, do not count."""
        return any(each in self.suspended or each.method.rounds for each in self.session.incoming.values())

    async def wait_idle(self) -> None:
        """Wait until no reply is still to come."""
        if self.is_busy():
            self._idle = Flag()
            await self._idle.wait()

    # --- our requests -------------------------------------------------------------------------------------------

    async def request(
        self,
        outgoing: events.Outgoing,
        *,
        timeout: float | TimeLeft | None = None,
        on_progress: OnProgress | None = None,
    ) -> Raw:
        """Send a request that the session opened; return the result, undecoded, within ``timeout`` seconds."""
        if self.gone is not None:
            self.session.cancel(outgoing.id)
            raise self.gone()
        if asyncio.get_running_loop() is not self.loop:
            self.session.cancel(outgoing.id)
            raise errors.LocalProtocolError("It was opened on another event loop: use one asyncio.run for all of it")
        waiter = self.waiting.add(outgoing, timeout, on_progress)
        try:
            parent = outgoing.parent
            wait = self._room = self.channel.send(Frame(outgoing.data, parent.id if parent is not None else None))
            if wait is not None:
                await self._drain_before(wait, waiter.future)
            return await waiter.future
        except asyncio.CancelledError:
            self._give_up(outgoing.id, "the caller no longer waits")
            waiter.let_go()
            raise
        except errors.ConnectionClosed:
            self.session.cancel(outgoing.id)
            raise
        finally:
            self.waiting.end(waiter)

    def send(self, data: bytes, request: events.Request | None = None) -> Awaitable[None] | None:
        """Send an encoded notification; ``request`` is the peer's request it belongs to."""
        wait = self._room = self.channel.send(Frame(data, request.id if request is not None else None))
        return wait

    def abandon(self, id: int | str, error: errors.AntiphonError) -> None:
        """Give up a request of ours: the peer is told to stop, and the caller gets ``error``."""
        self._give_up(id, str(error))
        self.waiting.fail(id, error)

    def _give_up(self, id: int | str, reason: str) -> None:
        frame = self.session.cancel(id, reason)
        if frame is not None and not self.is_over:
            self._room = self.channel.send(Frame(frame))

    async def _drain_before(self, wait: Awaitable[None], future: asyncio.Future[Raw]) -> None:
        """Wait until there is room, but no longer than for the reply: deadlines hold even if the peer reads nothing."""
        room = self.tasks.start(self._drain_channel(wait))
        try:
            await asyncio.wait((room, future), return_when=asyncio.FIRST_COMPLETED)
        finally:
            room.cancel()

    def _end_children(self, request: events.Request) -> None:
        """Give up the asks that belong to a request."""
        for id in list(request.children or ()):
            self.abandon(id, errors.LocalProtocolError("The request this ask belongs to has ended"))

    async def _drain_channel(self, wait: Awaitable[None]) -> None:
        """Wait until the peer has read what it was sent; a peer that reads nothing for long is gone."""
        try:
            async with asyncio.timeout(_STALL):
                await wait
        except TimeoutError:
            self._end(lambda: errors.ConnectionClosed(f"The peer read nothing for {_STALL:g} s"))
