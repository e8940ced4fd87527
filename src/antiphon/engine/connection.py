"""A running session: one channel, one session, the tasks between them.

Reads frames, hands requests to handlers, sends replies, wakes whoever waits for one. The rules are the session's; the
meaning of a request is its handler's. Closing works from any task, in any order, any number of times.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, Generic, TypeVar, TypeVarTuple

from msgspec import Raw

from antiphon.channel import MAX_FRAME, Channel, Frame, Oversized
from antiphon.engine.drive import drive
from antiphon.engine.tasks import Tasks
from antiphon.engine.waiting import OnProgress, Waiter, Waiting
from antiphon.errors import (
    AntiphonError,
    ConnectionClosed,
    InternalError,
    InvalidRequest,
    LocalProtocolError,
    NotInRevision,
    PeerError,
)
from antiphon.protocol.events import (
    Answered,
    Batch,
    BatchReplies,
    Cancelled,
    Event,
    Ignored,
    Notified,
    Outgoing,
    Replied,
    Request,
)
from antiphon.protocol.session import Session
from antiphon.wire.common import Wire
from antiphon.wire.envelope import Envelope
from antiphon.wire.lifecycle import ProgressNotificationParams

__all__ = ["LATER", "Connection", "Handler", "Later"]

log = logging.getLogger("antiphon.connection")

S = TypeVar("S", bound=Session)
A = TypeVarTuple("A")

MAX_SERVED = 1_000
"""Most requests of one peer that may be open at once; more are refused. Each holds a task and its frame.

Reading never stops for it: among the frames behind may be the replies that these requests wait for."""

_STALL = 60.0
"""Seconds a peer may leave our output unread before it counts as gone."""

_LAST_WORDS = 5.0
"""Seconds that cancelled handlers have to clean up when a connection closes."""


class Later:
    """The type of ``LATER``."""

    __slots__ = ()


LATER = Later()
"""What a handler returns when the reply will be given to ``Connection.reply`` by somebody else.

Whoever that is sets ``Request.on_cancel``: it is called when the peer withdraws the request, or is gone."""

Outcome = Wire | Raw | Later
Handler = Callable[[Request, Any], "Outcome | CoroutineType[Any, Any, Outcome]"]


class Connection(Generic[S]):
    """The loop around one session.

    ``handlers`` has one function for every request the session lets through: ``(request, connection)`` to a result,
    to a coroutine of one, or to ``LATER``. ``notified`` is called for each notification (and its result run, if it is
    a coroutine), ``closing`` when ``close`` begins and replies can still be sent, ``ended`` once nothing can.
    ``stops_clock``: while a handler of ours waits, the deadlines of our own requests stand still (a client that
    answers asks; DESIGN 5, "Human time is free"). ``grace``: seconds that running handlers have to finish after the
    peer has ended.
    """

    def __init__(
        self,
        channel: Channel,
        session: S,
        handlers: Mapping[str, Handler],
        *,
        notified: Callable[[Notified], object] | None = None,
        closing: Callable[[], object] | None = None,
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
        self.ready = asyncio.Event()
        """Set by the owner once the handshake is complete: asks of ours wait for it."""
        self._handlers = handlers
        self._notified = notified
        self._on_close = closing
        self._on_end = ended
        self._stops_clock = stops_clock
        self._grace = grace
        self._max_served = max_served
        self._max_frame = max_frame
        self._loop = asyncio.get_running_loop()
        self._waiting = Waiting(self._loop, self._expired)
        self._arrived: deque[bytes | Oversized] = deque()
        self._tasks = Tasks(self._loop)
        self._reader: asyncio.Task[None] | None = None
        # Requests whose handler waits, each with its task and those of our own whose clock stands still for it.
        self._suspended: dict[Request, tuple[asyncio.Task[Any], Sequence[Waiter]]] = {}
        # Why nothing will be received any more, and why nothing can be sent any more.
        self._gone: Callable[[], ConnectionClosed] | None = None
        self._over: Callable[[], ConnectionClosed] | None = None
        self._idle = asyncio.Event()
        self._ended = asyncio.Event()
        self._closed: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read."""
        self._read_on()

    async def wait_ended(self) -> None:
        """Wait until the peer has ended or ``close`` was called."""
        await self._ended.wait()

    async def close(self) -> None:
        """End the connection: whoever waits is told, handlers are cancelled, the channel is closed.

        Returns when that is done; a handler that was cancelled by another ``close`` does not wait for its own end.
        """
        caller = asyncio.current_task()
        if self._closed is None:
            if self._on_close is not None and self._over is None:
                _guarded("the close of a connection", self._on_close)
            self._end(lambda: ConnectionClosed("The connection was closed"))
            self._closed = self._loop.create_task(self._close(caller))
        elif caller in self._tasks:
            return
        await asyncio.shield(self._closed)

    async def _close(self, caller: asyncio.Task[Any] | None) -> None:
        await self._tasks.wait_stopped(spare=caller, patience=_LAST_WORDS)
        await self.channel.close()

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._over is not None

    def _end(self, error: Callable[[], ConnectionClosed]) -> None:
        if self._over is not None:
            return
        self._gone = self._over = error
        self._waiting.fail_all(error)
        for request in list(self.session.incoming.values()):
            if request not in self._suspended and request.on_cancel is not None:
                _guarded("a cancellation", request.on_cancel, "the connection has ended")
        caller = asyncio.current_task()
        for task, _ in list(self._suspended.values()):
            # Not all of them are ours: ``handle`` runs in a task of the transport's.
            if task is not caller:
                self._tasks.stop(task, "the connection has ended")
        self._tasks.stop_all(spare=caller)
        self._ended.set()
        if self._on_end is not None:
            _guarded("the end of a connection", self._on_end)

    # --- reading ------------------------------------------------------------------------------------------------

    def _read_on(self) -> None:
        self._reader = self._tasks.start(self._read())

    async def _read(self) -> None:
        me = asyncio.current_task()
        try:
            while self._reader is me and self._over is None:
                if self._arrived:
                    event = self._event(self._arrived.popleft())
                    # Most frames are requests whose handler never waits: they cost no coroutine but their own.
                    if type(event) is Request:
                        await self.serve(event)
                    elif (wait := self._act(event)) is not None:
                        await self._drained(wait)
                    continue
                frames = await self.channel.receive()
                if not frames:
                    await self._peer_ended()
                    return
                self._arrived.extend(frames)
        except Exception:
            log.exception("the connection failed")
            self._end(lambda: ConnectionClosed("The connection failed; the log says why"))

    async def _peer_ended(self) -> None:
        self._gone = self.channel.closed_error
        self._waiting.fail_all(self._gone)
        if self._grace > 0 and self._is_busy():
            try:
                async with asyncio.timeout(self._grace):
                    await self._idle.wait()
            except TimeoutError:
                log.warning("the peer has ended; its requests are given up after %g s", self._grace)
        self._end(self._gone)

    def _is_busy(self) -> bool:
        """Tell whether a reply is still to come. What only ends with the connection (a subscription) does not count."""
        return any(each in self._suspended or each.method.rounds for each in self.session.incoming.values())

    def _event(self, frame: bytes | Oversized) -> Event:
        if isinstance(frame, Oversized):
            return self.session.oversized(frame.size, self._max_frame)
        return self.session.receive(frame)

    def _act(self, event: Event) -> Awaitable[None] | None:
        if isinstance(event, Replied):
            self._waiting.replied(event)
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
            self._detach(_guarded(event.method.name, self._waiting.progressed, event.params))
        elif self._notified is not None:
            self._detach(_guarded(event.method.name, self._notified, event))

    def _detach(self, result: object) -> None:
        if not inspect.iscoroutine(result):
            return
        if len(self._tasks) > 2 * self._max_served:
            # A peer that tells faster than our callbacks can take it: what it tells may be lost, memory may not.
            result.close()
            self.ignored += 1
            return
        self._tasks.start(_logged(result))

    def _withdrawn(self, event: Cancelled) -> None:
        request = event.request
        log.debug("%s was cancelled: %s", request.method.name, event.reason)
        if request.on_cancel is not None:
            _guarded("a cancellation", request.on_cancel, event.reason)
        self._end_children(request)
        if request.batch is not None:
            self._send_reply(request, None)

    def _batch(self, batch: Batch) -> None:
        replies = BatchReplies(sum(isinstance(event, Request | Answered) for event in batch.events))
        for event in batch.events:
            if isinstance(event, Request):
                event.batch = replies
                self._tasks.start(self.serve(event))
            elif isinstance(event, Answered):
                frame = replies.add(event.reply)
                if frame is not None:
                    self.channel.send(Frame(frame))
            else:
                self._act(event)

    # --- one message at a time (``channel.Peer``) ---------------------------------------------------------------

    async def handle(self, message: Envelope, *, waits: Callable[[], object] | None = None) -> None:
        """Take one message, in the caller's task: for a transport whose messages each come in a request of their own.

        A connection that is driven so is never started. See ``channel.Peer``.
        """
        event = self.session.take(message)
        if type(event) is Request:
            event.on_wait = waits
            await self.serve(event)
        elif (wait := self._act(event)) is not None:
            await self._drained(wait)

    def withdraw(self, id: int | str, reason: str) -> None:
        """Cancel a request of the peer's whose stream was closed, as if it had been cancelled by a notification."""
        event = self.session.withdraw(id, reason)
        if event is not None:
            self._withdrawn(event)

    # --- serving ------------------------------------------------------------------------------------------------

    async def serve(self, request: Request) -> None:
        """Run the handler of a request and send its reply. Whatever the handler raises becomes an error reply."""
        if request.cancelled:
            # In a batch it may have been, before its turn came.
            return
        try:
            self._check_room()
            outcome = self._handlers[request.method.name](request, self)
            if isinstance(outcome, CoroutineType):
                outcome = await drive(outcome, self._waits, request)
            if isinstance(outcome, Later):
                return
            wait = self.reply(request, outcome)
        except asyncio.CancelledError:
            wait = self.reply_error(request, InternalError("The request was abandoned")) if self._over is None else None
            if self._tasks.is_stopped_by_others(asyncio.current_task()):
                raise
        except Exception as error:
            wait = self.reply_error(request, error)
        finally:
            if request in self._suspended:
                self._resumed(request)
        if wait is not None:
            await self._drained(wait)

    def _check_room(self) -> None:
        # A request that was cancelled is no longer open, but its handler may still be cleaning up.
        if len(self.session.incoming) > self._max_served or len(self._suspended) >= self._max_served:
            raise InvalidRequest(f"Too many requests at once: {self._max_served} are open already; try again later")

    def _waits(self, request: Request) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a handler must run in a task")
        request.on_cancel = partial(self._tasks.stop, task)
        self._suspended[request] = task, self._waiting.pause() if self._stops_clock else ()
        if request.on_wait is not None:
            request.on_wait()
        if self._reader is task and self._over is None:
            self._read_on()

    def _resumed(self, request: Request) -> None:
        task, paused = self._suspended.pop(request)
        self._waiting.resume(paused)
        self._tasks.forgive(task)

    def reply(self, request: Request, result: Wire | Raw) -> Awaitable[None] | None:
        """Send the result of a request; nothing is sent if it was cancelled or answered before.

        A result that cannot be sent becomes an error reply. Returns what ``Channel.send`` returns.
        """
        try:
            data = self.session.reply(request, result)
        except NotInRevision as error:
            return self.reply_error(request, InternalError(f"The result cannot be sent: {error}"))
        except Exception as error:
            return self.reply_error(request, error)
        return self._send_reply(request, data)

    def reply_error(self, request: Request, error: BaseException) -> Awaitable[None] | None:
        """Send an error as the reply to a request.

        An exception that is no ``PeerError``, or one that a peer of ours sent, is logged, and told to nobody.
        """
        if not request.cancelled and (not isinstance(error, PeerError) or error.remote):
            log.error("%s failed", request.method.name, exc_info=error)
        return self._send_reply(request, self.session.reply_error(request, error))

    def _send_reply(self, request: Request, data: bytes | None) -> Awaitable[None] | None:
        if request.children:
            self._end_children(request)
        if request.batch is not None:
            batch, request.batch = request.batch, None
            data = batch.add(data)
        wait = self.channel.send(Frame(data, request.id, True, request.code)) if data is not None else None
        if self._gone is not None and not self._is_busy():
            self._idle.set()
        return wait

    def _end_children(self, request: Request) -> None:
        for id in list(request.children or ()):
            self.abandon(id, LocalProtocolError("The request this ask belongs to has ended"))

    # --- sending ------------------------------------------------------------------------------------------------

    async def request(
        self, outgoing: Outgoing, *, timeout: float | None = None, on_progress: OnProgress | None = None
    ) -> Raw:
        """Send a request the session has opened, and wait for its result, undecoded.

        Raises:
            PeerError: the peer answered with an error.
            RemoteProtocolError: the peer answered with what cannot be read.
            CallTimeout: no answer came within ``timeout`` seconds; the peer was told to stop.
            ConnectionClosed: the channel ended first.
        """
        if self._gone is not None:
            self.session.cancel(outgoing.id)
            raise self._gone()
        waiter = self._waiting.add(outgoing, timeout, on_progress)
        try:
            parent = outgoing.parent
            wait = self.channel.send(Frame(outgoing.data, parent.id if parent is not None else None))
            if wait is not None:
                await self._drained_before(wait, waiter.future)
            return await waiter.future
        except asyncio.CancelledError:
            self._give_up(outgoing.id, "the caller no longer waits")
            waiter.let_go()
            raise
        except ConnectionClosed:
            self.session.cancel(outgoing.id)
            raise
        finally:
            self._waiting.end(waiter)

    def send(self, data: bytes, request: Request | None = None) -> Awaitable[None] | None:
        """Send a notification the session has encoded; ``request`` is the peer's request it belongs to."""
        return self.channel.send(Frame(data, request.id if request is not None else None))

    def abandon(self, id: int | str, error: AntiphonError) -> None:
        """Give up a request of ours: the peer is told to stop, whoever waits gets ``error``."""
        self._give_up(id, str(error))
        self._waiting.fail(id, error)

    def _expired(self, outgoing: Outgoing) -> None:
        self._give_up(outgoing.id, "the deadline passed")

    def _give_up(self, id: int | str, reason: str) -> None:
        frame = self.session.cancel(id, reason)
        if frame is not None and self._over is None:
            self.channel.send(Frame(frame))

    async def _drained(self, wait: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(_STALL):
                await wait
        except TimeoutError:
            self._end(lambda: ConnectionClosed(f"The peer read nothing for {_STALL:g} s"))

    async def _drained_before(self, wait: Awaitable[None], future: asyncio.Future[Raw]) -> None:
        """Wait until there is room, but no longer than for the reply: deadlines hold for a peer that reads nothing."""
        room = self._tasks.start(self._drained(wait))
        try:
            await asyncio.wait((room, future), return_when=asyncio.FIRST_COMPLETED)
        finally:
            room.cancel()


def _guarded(what: str, callback: Callable[[*A], object], *arguments: *A) -> object:
    """Call what is not ours: if it fails, the log has it, and the connection goes on."""
    try:
        return callback(*arguments)
    except Exception:
        log.exception("a callback for %s failed", what)
        return None


async def _logged(work: Awaitable[object]) -> None:
    try:
        await work
    except Exception:
        log.exception("a callback failed")
