"""Tasks of asyncio that outlive the function that starts them, held while they run, and ended; and deadlines.

A deadline costs nothing if there is nothing to wait for, and one can be stopped while a person signs in.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import CoroutineType
from typing import Any, TypeVar, cast

from antiphon.errors import LocalProtocolError

T = TypeVar("T")


def find_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs; raise ``LocalProtocolError``, which says what to do, if none of asyncio does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        remedy = "use asyncio.run(main()), or anyio.run(main, backend='asyncio')"
        raise LocalProtocolError(f"No event loop of asyncio runs here: {remedy}") from None


def start_in(running: set[asyncio.Task[T]], work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run ``work`` in a task that ``running`` holds, because the event loop has only weak references to tasks."""
    task = asyncio.get_running_loop().create_task(work)
    running.add(task)
    task.add_done_callback(running.discard)
    return task


def run_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Run ``work`` on the event loop of another thread, and wait for it on this one."""
    return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def settle_future(done: asyncio.Future[Any], error: BaseException | None = None, result: object = None) -> None:
    """Give a future its error or its result, unless it has been settled or cancelled before."""
    if done.done():
        return
    if error is None:
        done.set_result(result)
    elif isinstance(error, asyncio.CancelledError):
        done.cancel()
    else:
        done.set_exception(error)


def ignore_error(done: asyncio.Future[Any]) -> None:
    """Mark the error of a task as retrieved: asyncio reports it otherwise when all its waiters were cancelled."""
    if not done.cancelled():
        done.exception()


def is_withdrawn(error: BaseException) -> bool:
    """Return whether an error means that the current task is cancelled, and not just something that it awaited."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


async def end_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel all tasks, then wait until each has cleaned up.

    None of them is cancelled twice, which would interrupt its cleanup: not even if the caller is cancelled meanwhile,
    which ends only the waiting. What a task raises is left to whoever awaits it. ``None`` stands for a task that was
    never started.
    """
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


async def at_once_or_within(seconds: float | None, work: Awaitable[T]) -> T:
    """Await ``work``, starting a timer only if it has to wait. Raises ``TimeoutError``.

    Nearly every write fits into a buffer, and setting up ``asyncio.timeout`` would then take longer than the write.
    """
    if type(work) is not CoroutineType:
        async with asyncio.timeout(seconds):
            return await work
    coroutine = cast("Coroutine[Any, Any, T]", work)
    try:
        pending = coroutine.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    async with asyncio.timeout(seconds):
        return await run_rest(coroutine, pending)


async def wait_at_most(seconds: float, work: Awaitable[object]) -> None:
    """Await something for at most some seconds; that it takes longer is no error."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work


@types.coroutine
def run_rest(work: Generator[Any, Any, T] | Coroutine[Any, Any, T], pending: Any) -> Generator[Any, Any, T]:
    """Continue to await something that was begun by hand, and has yielded ``pending``."""
    while True:
        try:
            value = yield pending
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            step, argument = work.throw, error
        else:
            step, argument = work.send, value
        try:
            pending = step(argument)
        except StopIteration as done:
            return cast("T", done.value)


@contextmanager
def stop_timeout(limit: asyncio.Timeout) -> Generator[None]:
    """Stop a running timeout until the block has ended."""
    clock = asyncio.get_running_loop().time
    when, began = limit.when(), clock()
    limit.reschedule(None)
    try:
        yield
    finally:
        limit.reschedule(None if when is None else when + clock() - began)


@contextmanager
def both_stopped(pause: Callable[[], AbstractContextManager[None]], limit: asyncio.Timeout) -> Generator[None]:
    """Stop a timeout, and the deadlines that ``pause`` stops, until the block has ended."""
    with pause(), stop_timeout(limit):
        yield
