"""Threads for functions that are not async, so that a blocking one does not stop the others.

Owns a bounded set of threads, started when needed and kept. Unlike ``asyncio.to_thread`` it shares no threads with name
look-ups, and its threads are daemons, so that a function that never returns does not keep the process alive after its
client has gone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

from msgspec import Struct

__all__ = ["MAX_THREADS", "Workers", "in_thread"]

MAX_THREADS = 40
"""Most functions that run at the same time; others wait. The same number as anyio's default, which other servers
use."""


class _Job(Struct, frozen=True):
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    context: Context
    call: Callable[[], Any]


class Workers:
    """Up to ``limit`` threads that run calls in order of arrival."""

    def __init__(self, limit: int = MAX_THREADS) -> None:
        self._limit = limit
        self._count = 0
        self._idle = threading.Semaphore(0)
        self._jobs: SimpleQueue[_Job] = SimpleQueue()

    async def run(self, call: Callable[[], Any]) -> Any:
        """Run ``call`` in a thread, with the caller's context variables, and return its result.

        If the caller is cancelled while the call runs, the call continues and its result is dropped; if it has not
        begun, it never runs.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._jobs.put(_Job(loop, future, copy_context(), call))
        if not self._idle.acquire(blocking=False) and self._count < self._limit:
            self._count += 1
            threading.Thread(target=self._work, name=f"antiphon-{self._count}", daemon=True).start()
        return await future

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            value, failure = (None, None) if job.future.cancelled() else _perform(job)
            # Marked idle before the result is delivered, so that the receiver's next call finds this
            # thread.
            self._idle.release()
            # If the loop was closed meanwhile, nobody waits for the result.
            with suppress(RuntimeError):
                job.loop.call_soon_threadsafe(_settle, job.future, value, failure)
            del job, value, failure


def _perform(job: _Job) -> tuple[Any, BaseException | None]:
    """Return what the call returned or raised."""
    try:
        return job.context.run(job.call), None
    except (SystemExit, StopIteration) as error:
        # SystemExit would end the thread silently, and StopIteration would end the coroutine that waits.
        return None, RuntimeError(f"{type(error).__name__} in a thread: {error}")
    except BaseException as error:
        return None, error


def _settle(future: asyncio.Future[Any], value: Any, failure: BaseException | None) -> None:
    if future.cancelled():
        return
    if failure is None:
        future.set_result(value)
    else:
        future.set_exception(failure)


in_thread = Workers().run
"""Run a call in one of the process's worker threads. See ``Workers.run``."""
