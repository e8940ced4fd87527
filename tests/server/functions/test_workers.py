"""Worker threads: bounded, with context, without holding a process."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from antiphon.server.functions.workers import Workers, in_thread


async def test_a_call_runs_in_another_thread():
    """Its value comes back."""
    assert await in_thread(threading.get_ident) != threading.get_ident()


async def test_context_variables_go_along():
    """As with ``asyncio.to_thread``."""
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    variable.set(7)
    assert await in_thread(variable.get) == 7


async def test_an_exception_comes_back():
    """It is the caller's to handle."""
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 / 0)


@pytest.mark.parametrize("kind", [SystemExit, StopIteration])
async def test_what_would_end_the_loop_becomes_an_error(kind):
    """A library that calls ``sys.exit`` ends its call, not the server."""

    def leave() -> None:
        raise kind("3")

    with pytest.raises(RuntimeError, match=kind.__name__):
        await in_thread(leave)


async def test_no_more_than_the_limit_run_at_once():
    """The third call waits until one of two has ended."""
    workers = Workers(2)
    begun, release = threading.Semaphore(0), threading.Event()
    running: list[int] = []

    def hold(number: int) -> int:
        running.append(number)
        begun.release()
        release.wait(60)
        return number

    tasks = [asyncio.create_task(workers.run(lambda number=number: hold(number))) for number in range(3)]
    await asyncio.sleep(0)
    begun.acquire()
    begun.acquire()
    assert len(running) == 2
    release.set()
    assert await asyncio.gather(*tasks) == [0, 1, 2]


async def test_threads_are_used_again():
    """One call after the other needs one thread."""
    workers = Workers(5)
    assert len({await workers.run(threading.get_ident) for _ in range(20)}) == 1


async def test_a_cancelled_caller_is_free_at_once():
    """The call goes on in its thread, and what it gives is dropped."""
    workers = Workers(1)
    begun, release = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        release.wait(60)

    task = asyncio.create_task(workers.run(hold))
    await asyncio.sleep(0)
    begun.wait(60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert await workers.run(lambda: 5) == 5


def test_a_call_that_never_ends_does_not_keep_the_process():
    """A server whose client has gone must be able to end."""
    program = """
import asyncio, threading
from antiphon.server.functions.workers import in_thread
async def main():
    begun = threading.Event()
    def hold():
        begun.set()
        threading.Event().wait()
    task = asyncio.create_task(in_thread(hold))
    await asyncio.sleep(0)
    begun.wait()
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
