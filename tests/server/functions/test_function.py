"""Calling what an author wrote, async or not."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import pytest

from antiphon.server.context import Context
from antiphon.server.functions.function import UserFunction, Workers, digest_code, holds_context, in_thread
from antiphon.server.functions.signature import read_signature


def user_function(function, *, inline=False) -> UserFunction:
    """Read and wrap a function."""
    return UserFunction(function, read_signature(function, noun="tool"), inline=inline)


async def test_an_async_function_runs_on_the_loop():
    """In the thread of its caller."""

    async def where() -> int:
        return threading.get_ident()

    assert await user_function(where).run({}, None) == threading.get_ident()


async def test_a_plain_function_runs_in_a_thread():
    """So that it may block."""

    def where() -> int:
        return threading.get_ident()

    assert await user_function(where).run({}, None) != threading.get_ident()


async def test_an_inline_function_runs_on_the_loop():
    """When its author promises that it never waits."""

    def where() -> int:
        return threading.get_ident()

    assert await user_function(where, inline=True).run({}, None) == threading.get_ident()


async def test_the_context_goes_where_it_is_wanted():
    """Under the name its parameter has."""

    async def give(text: str, asked_by: Context) -> tuple[str, object]:
        return text, asked_by

    context = object()
    assert await user_function(give).run({"text": "a"}, context) == ("a", context)


async def test_a_plain_wrapper_of_an_async_function_is_awaited():
    """Decorators that are not async are common."""

    async def inner(x: int) -> int:
        return x + 1

    @wraps(inner)
    def outer(x: int):
        return inner(x)

    assert await user_function(outer).run({"x": 1}, None) == 2


class Holder:
    """Keeps a context, or does not."""

    def __init__(self, held: object) -> None:
        self.held = held

    def work(self) -> None:
        """Do nothing."""


def test_a_function_may_hold_a_context_already():
    """From the function around it, through a decorator or a partial, or from the object it is bound to."""
    ctx = Context.__new__(Context)

    def closure(n: int = 0) -> object:
        return ctx

    @wraps(closure)
    def wrapper() -> object:
        return closure()

    held = [closure, wrapper, partial(closure, 1), Holder(ctx).work]
    assert [holds_context(each) for each in held] == [True] * 4


def test_other_functions_hold_none():
    """Also where a variable around them has no value yet."""

    def early() -> object:
        return later

    free = [early, Holder(5).work, len, partial(len, ""), Holder]
    assert [holds_context(each) for each in free] == [False] * 5
    later = 1
    assert early() == later


SOURCES = {
    "original": "def f(x):\n    return x in {'a', 'b', 'c'} and (lambda y: y + 1)(2)",
    "a constant": "def f(x):\n    return x in {'a', 'b', 'd'} and (lambda y: y + 1)(2)",
    "an inner function": "def f(x):\n    return x in {'a', 'b', 'c'} and (lambda y: y + 2)(2)",
    "an instruction": "def f(x):\n    return x in {'a', 'b', 'c'} or (lambda y: y + 1)(2)",
    "a name": "def f(x):\n    return z in {'a', 'b', 'c'} and (lambda y: y + 1)(2)",
}


def made(source: str, filename: str = "one.py") -> Callable[..., Any]:
    """Define the function ``f`` of a source."""
    names: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), names)
    return names["f"]


@pytest.mark.parametrize("change", [name for name in SOURCES if name != "original"])
def test_every_change_counts(change: str) -> None:
    """Instructions, names, constants, and those of inner functions."""
    assert digest_code(made(SOURCES[change])) != digest_code(made(SOURCES["original"]))


def test_place_does_not_count() -> None:
    """Neither the file nor the line nor comments."""
    moved = "# a comment\n\n\n" + SOURCES["original"]
    assert digest_code(made(moved, "/elsewhere/two.py")) == digest_code(made(SOURCES["original"]))


def test_another_process_digests_the_same() -> None:
    """Sets have another order there."""
    program = (
        "from antiphon.server.functions.function import digest_code\n"
        f"exec({SOURCES['original']!r})\n"
        "print(digest_code(f).hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": seed}
        ).stdout.strip()
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1


def test_what_wraps_a_function_is_looked_through() -> None:
    """Partials, decorators, methods and objects that can be called."""
    plain = made(SOURCES["original"])

    @wraps(plain)
    def wrapped(*args: Any) -> Any:
        return plain(*args)

    class Doubler:
        def __call__(self, x: int) -> int:
            return x

        def method(self, x: int) -> int:
            return x

    assert digest_code(partial(plain, 1)) == digest_code(wrapped) == digest_code(plain)
    assert digest_code(Doubler()) == digest_code(Doubler.__call__)
    assert digest_code(Doubler().method) == digest_code(Doubler.method)
    assert digest_code(len) == digest_code(len)


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


@pytest.mark.parametrize("kind", [SystemExit, StopIteration, KeyboardInterrupt, GeneratorExit])
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


async def test_a_thread_does_not_keep_the_context_of_its_first_call():
    """A free-threaded Python lets a thread inherit the context in which it was started."""
    workers, variable = Workers(1), contextvars.ContextVar[object]("variable")

    async def call() -> weakref.ref[set[int]]:
        value = set[int]()
        variable.set(value)
        await workers.run(lambda: None)
        return weakref.ref(value)

    kept = await asyncio.create_task(call())
    # A second call: the thread has put down the first.
    await asyncio.create_task(workers.run(lambda: None))
    gc.collect()
    assert kept() is None


def test_a_forked_child_has_threads_of_its_own():
    """A call there does not wait for a thread that only its parent has."""
    program = (
        "import asyncio, os\n"
        "from antiphon.server.functions.function import in_thread\n"
        "asyncio.run(in_thread(os.getpid))\n"
        "child = os.fork()\n"
        "if not child: os._exit(asyncio.run(asyncio.wait_for(in_thread(lambda: 7), 20)))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "7\n"


async def test_a_thread_that_cannot_be_started_fails_one_call_and_takes_no_place():
    """The call that failed is not made later, and the next one finds its place."""
    workers, made = Workers(1), list[int]()
    # More than a machine has, as where too many processes are there.
    usual = threading.stack_size(1 << 46)
    try:
        with pytest.raises(RuntimeError, match="thread"):
            await workers.run(lambda: made.append(1))
    finally:
        threading.stack_size(usual)
    async with asyncio.timeout(30):
        await workers.run(lambda: made.append(2))
    assert made == [2]


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
from antiphon.server.functions.function import in_thread
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
