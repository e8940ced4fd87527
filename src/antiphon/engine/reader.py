"""Reading from a channel, and running handlers in the task that reads.

Most handlers never wait, and a task for each of them would take longer than they do. So the task that reads runs the
handlers itself (``drive_handler``), until one of them waits::

    channel --frames--> Reader --request--> handler
                          |                   |-- returns: send the reply, read the next frame
                        reply                 `-- waits: hand_over
                          v                         v
            the caller that waits for it    the task belongs to the handler from now on, another
            continues                       task reads, and each frame that arrived with the
                                            request gets a task

A handler that has a task of its own anyway is awaited there (``run_alone``).
"""

from __future__ import annotations

import asyncio
import logging
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from types import CoroutineType
from typing import Any, TypeVar, TypeVarTuple

from msgspec import Raw, Struct, field

from antiphon.channel import Channel, Offers, Oversized, Related, Vouched
from antiphon.engine.requests import WaitingRequests
from antiphon.protocol.events import Batch, Event, Replied, Request
from antiphon.protocol.session import PeerSession
from antiphon.wire.common import Wire

log = logging.getLogger("antiphon.connection")

Task = asyncio.Task[None]


class Tasks:
    """A set of running tasks; a task leaves it when it is done."""

    __slots__ = ("_loop", "_running", "_told")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Not sets, because most sessions are idle, and an empty set takes three times the memory.
        self._running: dict[Task, None] = {}
        self._told: dict[Task, None] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, task: object) -> bool:
        return task in self._running

    def start(self, work: Coroutine[Any, Any, None]) -> Task:
        """Run ``work`` in a task of its own."""
        task = self._loop.create_task(work)
        self._running[task] = None
        task.add_done_callback(self._running.pop)
        return task

    def stop(self, task: asyncio.Task[Any], reason: str | None = None) -> None:
        """Cancel a task, unless it was cancelled before and may be cleaning up."""
        if task not in self._told and not task.done():
            self._told[task] = None
            task.add_done_callback(self._forget)
            task.cancel(reason)

    def is_stopped_by_others(self, task: asyncio.Task[Any] | None) -> bool:
        """Return whether other code has cancelled a task, so that the cancellation must not be swallowed here."""
        return task is not None and task.cancelling() > (task in self._told)

    def forgive(self, task: asyncio.Task[Any]) -> None:
        """Undo ``stop``: what had to end has ended, and the task, which may belong to other code, continues."""
        if task in self._told:
            self._forget(task)
            task.uncancel()

    def _forget(self, task: Task) -> None:
        self._told.pop(task, None)

    def stop_all(self, spare: asyncio.Task[Any] | None) -> None:
        """Cancel every task but one."""
        for task in list(self._running):
            if task is not spare:
                self.stop(task)

    async def wait_stopped(self, spare: asyncio.Task[Any] | None, patience: float) -> None:
        """Cancel all tasks but one, give them ``patience`` seconds to clean up, cancel them again, and return."""
        self.stop_all(spare)
        others = [task for task in self._running if task is not spare]
        if others:
            _, stubborn = await asyncio.wait(others, timeout=patience)
            for task in stubborn:
                task.cancel()


class Flag:
    """Something that happens once.

    ``asyncio.Event`` allocates a queue at once, which would be most of the memory of an idle session.
    """

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: asyncio.Event | None = None

    def is_set(self) -> bool:
        """Return whether it has happened."""
        return self._is_set

    def set(self) -> None:
        """Note that it has happened, and wake all waiting tasks."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Wait until it has happened."""
        if self._is_set:
            return
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()


Arguments = TypeVarTuple("Arguments")


def call_safely(what: str, callback: Callable[[*Arguments], object], *arguments: *Arguments) -> object:
    """Call a callback and return its result; ``None`` if it fails. ``what`` names it in the log."""
    try:
        return callback(*arguments)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        log.exception("a callback for %s failed", what)
        return None


async def await_safely(work: Awaitable[object]) -> None:
    """Await what a callback returned."""
    try:
        await work
    except Exception:
        log.exception("a callback failed")


_TOGETHER = 64
"""Most messages that are each handled in a task, after one whose handler waits."""


class Later:
    """The type of ``LATER``."""

    __slots__ = ()


LATER = Later()
"""Returned by a handler whose reply will be passed to ``Connection.reply`` by other code. That code must set
``Request.on_cancel``, which is called when the peer cancels the request or is gone."""

Outcome = Wire | Raw | Later
Handler = Callable[[Request, Any], "Outcome | CoroutineType[Any, Any, Outcome]"]


class Reader(Struct, eq=False):
    """Reads from one channel."""

    _channel: Channel
    _session: PeerSession
    _tasks: Tasks
    _limit: int
    """Bytes of the longest frame, for the error to a peer that sent a longer one."""
    _waiting: WaitingRequests
    """Our requests; it is told of a reply that is handled on arrival."""
    _take: Callable[..., Awaitable[None] | None]
    """Called with each other message, and ``has_task`` if what it returns is awaited in a task of its own."""
    _ended: Callable[[], Awaitable[None]]
    """Awaited when the peer has ended."""
    _failed: Callable[[Exception], object]
    """Called with errors of our own."""
    _arrived: deque[bytes | Oversized] = field(default_factory=deque)
    """Frames that were received and not handled yet."""
    _known: tuple[bytes | Oversized, Event] | None = None
    """A frame that was decoded on arrival and is still to be received, with its event."""
    _reader: asyncio.Task[None] | None = None
    """The task that reads; ``None`` once reading has ended."""

    def __post_init__(self) -> None:
        if isinstance(self._channel, Offers):
            self._channel.offer_to(self._take_reply)
        self._go_on()

    def _go_on(self) -> None:
        self._reader = self._tasks.start(self._read_frames())

    def hand_over(self, task: asyncio.Task[Any]) -> None:
        """Note that a task belongs to a handler from now on; if it was reading, start another one."""
        if self._reader is task:
            # Messages that arrived with this one may wait too, so each gets a task; all of them start in
            # one pass of the loop.
            for _ in range(min(len(self._arrived), _TOGETHER)):
                self._tasks.start(self._take_alone(self._arrived.popleft()))
            self._go_on()

    def end(self) -> None:
        """Stop reading; the task that reads is not cancelled."""
        self._reader = None

    def _take_reply(self, frame: bytes | Oversized) -> bool:
        """Handle a reply on arrival: its caller continues a pass of the loop earlier, and this task need not wake."""
        if self._reader is None:
            return False
        try:
            event = self._event(frame)
            if isinstance(event, Replied):
                self._waiting.replied(event)
                return True
        except Exception as error:
            self._failed(error)
            return True
        self._known = frame, event
        return False

    async def _read_frames(self) -> None:
        me = asyncio.current_task()
        try:
            while self._reader is me:
                if self._arrived:
                    if (work := self._begin(self._arrived.popleft())) is not None:
                        await work
                    continue
                frames = await self._channel.receive()
                if not frames:
                    await self._ended()
                    return
                self._arrived.extend(frames)
        except Exception as error:
            self._failed(error)

    async def _take_alone(self, frame: bytes | Oversized) -> None:
        try:
            if (work := self._begin(frame, has_task=True)) is not None:
                await work
        except Exception as error:
            self._failed(error)

    def _begin(self, frame: bytes | Oversized, *, has_task: bool = False) -> Awaitable[None] | None:
        """Handle a frame; return what is left to await."""
        known, self._known = self._known, None
        event = known[1] if known is not None and known[0] is frame else self._event(frame)
        return self._take(event, has_task=has_task)

    def _event(self, frame: bytes | Oversized) -> Event:
        if isinstance(frame, Oversized):
            return self._session.handle_oversized(frame.size, self._limit)
        event = self._session.receive(frame)
        if type(frame) is not bytes:
            # Keep what the transport knows of the frame beside its bytes.
            for each in event.events if isinstance(event, Batch) else (event,):
                if isinstance(each, Request) and isinstance(frame, Vouched):
                    each.caller = frame.caller
                elif isinstance(each, Request) and isinstance(frame, Related):
                    each.related_to = frame.related_to
        return event


T = TypeVar("T")
A = TypeVar("A")


_PASSING = (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit)
"""Exceptions that pass unchanged: errors, and the ends of a task and of the process."""


@types.coroutine
def drive_handler(handler: Coroutine[Any, Any, T], waits: Callable[[A], object], subject: A) -> Generator[Any, Any, T]:
    """Await ``handler`` in a context of its own; call ``waits(subject)`` before it is first suspended.

    The context (``contextvars``) is a copy, so that one handler's variables are not seen by the next in the same task.
    """
    context = copy_context()
    try:
        pending = context.run(handler.send, None)
    except StopIteration as stop:
        return stop.value
    except _PASSING:
        raise
    except BaseException as error:
        raise _make_failure(error) from error
    try:
        waits(subject)
    except BaseException:
        handler.close()
        raise
    return (yield from _go_on(handler, context, pending))


def _go_on(handler: Coroutine[Any, Any, T], context: Context, pending: Any) -> Generator[Any, Any, T]:
    while True:
        try:
            value = yield pending
        except GeneratorExit:
            handler.close()
            raise
        except BaseException as error:
            step, argument = handler.throw, error
        else:
            step, argument = handler.send, value
        try:
            pending = context.run(step, argument)
        except StopIteration as stop:
            return stop.value
        except _PASSING:
            # An exception that was thrown in references this frame; kept here, both would form a cycle.
            argument = step = None
            raise
        except BaseException as error:
            raise _make_failure(error) from error


async def run_alone(handler: Coroutine[Any, Any, T], waits: Callable[[A], object], subject: A) -> T:
    """Await ``handler`` in its own task, where resuming is cheaper than in ``drive_handler``; first call ``waits``."""
    waits(subject)
    try:
        return await handler
    except _PASSING:
        raise
    except BaseException as error:
        raise _make_failure(error) from error


def _make_failure(error: BaseException) -> RuntimeError:
    # Exceptions by which test runners pass ``except Exception``, or a ``GeneratorExit`` of the handler, would end
    # the task that runs it, and leave the peer without a reply. PEP 479 does the same for StopIteration.
    return RuntimeError(f"the handler raised {type(error).__name__}")
