"""Calling what an author wrote, async or not."""

from __future__ import annotations

import threading
from functools import wraps

from antiphon.server.context import Context
from antiphon.server.functions import UserFunction
from antiphon.server.signature import read_signature


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
