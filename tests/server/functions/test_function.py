"""Calling what an author wrote, async or not."""

from __future__ import annotations

import threading
from functools import partial, wraps

from antiphon.server.context import Context
from antiphon.server.functions.function import UserFunction, holds_context
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
