"""The peer's requests: run the handler of each, and send its reply.

Owns the requests whose handlers wait, the limit on how many may be open, and the boundary at which whatever a handler
raises becomes an error reply. Reading and the life of the connection are ``connection``'s.

Most handlers never wait, and a task for each would cost more than they do. So the task that reads frames runs them
itself (``drive``). The moment one waits, that task belongs to the handler, and another takes over the reading. A
handler that has a task of its own anyway is awaited there (``run_alone``).
"""

from __future__ import annotations

import asyncio
import logging
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextvars import Context, copy_context
from functools import partial
from types import CoroutineType
from typing import Any, Protocol, TypeVar, cast

from msgspec import Raw

from antiphon.channel import Channel, Frame
from antiphon.engine.flag import Flag
from antiphon.engine.requests import Waiter
from antiphon.engine.tasks import Tasks
from antiphon.errors import InternalError, InvalidRequest, NotInRevision, PeerError
from antiphon.protocol.events import Batch, BatchReplies, Request
from antiphon.protocol.session import Session
from antiphon.wire.common import Wire
from antiphon.wire.failure import cause_of, drop_frames

__all__ = ["LATER", "Handler", "Later", "Serving", "drive", "run_alone"]

log = logging.getLogger("antiphon.connection")


class Later:
    """The type of ``LATER``."""

    __slots__ = ()


LATER = Later()
"""What a handler returns when the reply will be given to ``Connection.reply`` by somebody else.

Whoever that is sets ``Request.on_cancel``: it is called when the peer withdraws the request, or is gone."""

Outcome = Wire | Raw | Later
Handler = Callable[[Request, Any], "Outcome | CoroutineType[Any, Any, Outcome]"]


class Owner(Protocol):
    """The connection, as far as its requests need it."""

    channel: Channel
    tasks: Tasks

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        ...

    def stop_clocks(self) -> Sequence[Waiter]:
        """Let the deadlines of our own requests stand still, where a waiting handler does that."""
        ...

    def start_clocks(self, waiters: Sequence[Waiter]) -> None:
        """Let those deadlines go on."""
        ...

    def hand_over(self, task: asyncio.Task[Any]) -> None:
        """Take note that a task belongs to a handler from now on: if it was reading, another has to."""
        ...

    def end_children(self, request: Request) -> None:
        """Give up the asks that belong to a request."""
        ...

    async def drained(self, wait: Awaitable[None]) -> None:
        """Wait until the peer has taken what it was sent."""
        ...


class Serving:
    """Serves the requests of one peer. ``handlers`` are given the request and ``owner``."""

    __slots__ = ("_handlers", "_idle", "_limit", "_owner", "_session", "suspended")

    def __init__(self, owner: Owner, session: Session, handlers: Mapping[str, Handler], limit: int) -> None:
        self.suspended: dict[Request, tuple[asyncio.Task[Any], Sequence[Waiter]]] = {}
        """Requests whose handler waits, each with its task and those of our own whose clock stands still for it."""
        self._owner = owner
        self._session = session
        self._handlers = handlers
        self._limit = limit
        self._idle: Flag | None = None

    # --- running handlers ---------------------------------------------------------------------------------------

    async def serve(self, request: Request, *, has_task: bool = False) -> None:
        """Run the handler of a request and send its reply. Whatever the handler raises becomes an error reply.

        ``has_task``: this runs in a task that is the request's alone.
        """
        if request.cancelled:
            # In a batch it may have been, before its turn came.
            return
        try:
            if len(self._session.incoming) > self._limit or len(self.suspended) >= self._limit:
                # A request that was cancelled is no longer open, but its handler may still be cleaning up.
                raise self._too_many()
            outcome = self._handlers[request.method.name](request, self._owner)
            if isinstance(outcome, CoroutineType):
                run, waits = (run_alone, self._note_task) if has_task else (drive, self._waits)
                outcome = await run(outcome, waits, request)
            if isinstance(outcome, Later):
                return
            wait = self.reply(request, outcome)
        except asyncio.CancelledError:
            owner = self._owner
            wait = self.reply_error(request, InternalError("The request was abandoned")) if not owner.is_over else None
            if owner.tasks.is_stopped_by_others(asyncio.current_task()):
                raise
        except Exception as error:
            wait = self.reply_error(request, error)
        finally:
            if request in self.suspended:
                self._resumed(request)
        if wait is not None:
            await self._owner.drained(wait)

    def serve_batch(self, batch: Batch, answered: int) -> BatchReplies:
        """Serve the requests of a batch, each in a task; ``answered`` of its messages have their answers already."""
        requests = [event for event in batch.events if isinstance(event, Request)]
        replies = BatchReplies(len(requests) + answered)
        for request in requests:
            request.batch = replies
            self._owner.tasks.start(self.serve(request, has_task=True))
        return replies

    def _too_many(self) -> InvalidRequest:
        return InvalidRequest(f"Too many requests at once: {self._limit} are open already; try again later")

    def _waits(self, request: Request) -> None:
        task = self._note_task(request)
        if request.on_wait is not None:
            request.on_wait()
        self._owner.hand_over(task)

    def _note_task(self, request: Request) -> asyncio.Task[Any]:
        """Let a request be cancelled by its task, which is this one."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a handler must run in a task")
        request.on_cancel = partial(self._owner.tasks.stop, task)
        self.suspended[request] = task, self._owner.stop_clocks()
        return task

    def _resumed(self, request: Request) -> None:
        task, paused = self.suspended.pop(request)
        request.on_cancel = None
        if paused:
            self._owner.start_clocks(paused)
        self._owner.tasks.forgive(task)

    # --- replies ------------------------------------------------------------------------------------------------

    def reply(self, request: Request, result: Wire | Raw) -> Awaitable[None] | None:
        """Send the result of a request. See ``Connection.reply``."""
        try:
            data = self._session.reply(request, result)
        except NotInRevision as error:
            return self.reply_error(request, InternalError(f"The result cannot be sent: {error}"))
        except Exception as error:
            return self.reply_error(request, error)
        if request.on_end is not None:
            request.on_end(request, result)
        return self.send_reply(request, data)

    def reply_error(self, request: Request, error: BaseException) -> Awaitable[None] | None:
        """Send an error as the reply to a request. See ``Connection.reply_error``."""
        if isinstance(error, ExceptionGroup):
            error = cause_of(cast("ExceptionGroup[Exception]", error))
        if not request.cancelled and (not isinstance(error, PeerError) or error.remote):
            log.error("%s failed", request.method.name, exc_info=error)
        data = self._session.reply_error(request, error)
        if request.on_end is not None:
            request.on_end(request, error)
        drop_frames(error)
        return self.send_reply(request, data)

    def send_reply(self, request: Request, data: bytes | None) -> Awaitable[None] | None:
        """Send the encoded reply to a request, or ``None`` where there is to be none."""
        if request.children:
            self._owner.end_children(request)
        if request.batch is not None:
            batch, request.batch = request.batch, None
            data = batch.add(data)
        wait = self._owner.channel.send(Frame(data, request.id, True, request.code)) if data is not None else None
        if self._idle is not None and not self.is_busy():
            self._idle.set()
        return wait

    # --- the end ------------------------------------------------------------------------------------------------

    def is_busy(self) -> bool:
        """Tell whether a reply is still to come. What only ends with the connection (a subscription) does not count."""
        return any(each in self.suspended or each.method.rounds for each in self._session.incoming.values())

    async def wait_idle(self) -> None:
        """Wait until no reply is to come any more."""
        if self.is_busy():
            self._idle = Flag()
            await self._idle.wait()


T = TypeVar("T")
A = TypeVar("A")


_PASSING = (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit)
"""What goes through as it is: failures, and the ends of a task and of the process."""


@types.coroutine
def drive(handler: Coroutine[Any, Any, T], waits: Callable[[A], object], subject: A) -> Generator[Any, Any, T]:
    """Await ``handler`` in a context of its own; call ``waits(subject)`` before it is suspended for the first time.

    The context (``contextvars``) is a copy, so that what one handler sets is not seen by the next in the same task.
    """
    context = copy_context()
    try:
        pending = context.run(handler.send, None)
    except StopIteration as stop:
        return stop.value
    except _PASSING:
        raise
    except BaseException as error:
        raise _failure(error) from error
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
            # An exception that was thrown in leads to this frame; kept here, both would be garbage.
            argument = step = None
            raise
        except BaseException as error:
            raise _failure(error) from error


async def run_alone(handler: Coroutine[Any, Any, T], waits: Callable[[A], object], subject: A) -> T:
    """Await ``handler`` in a task that is its alone: ``waits(subject)`` is called at once, whether it does or not.

    It has the context of that task, and costs less to be resumed than one that is driven.
    """
    waits(subject)
    try:
        return await handler
    except _PASSING:
        raise
    except BaseException as error:
        raise _failure(error) from error


def _failure(error: BaseException) -> RuntimeError:
    # What test runners raise to get past those who catch every ``Exception``, or a ``GeneratorExit`` of the handler's
    # own, would end the task that runs it, and leave the peer without an answer. PEP 479 does so with StopIteration.
    return RuntimeError(f"the handler raised {type(error).__name__}")
