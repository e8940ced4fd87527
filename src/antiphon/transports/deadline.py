"""A deadline that costs nothing if there is nothing to wait for."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Coroutine, Generator
from types import CoroutineType
from typing import Any, TypeVar, cast

__all__ = ["at_once_or_within"]

T = TypeVar("T")


async def at_once_or_within(seconds: float, work: Awaitable[T]) -> T:
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
        return await _rest(coroutine, pending)


@types.coroutine
def _rest(work: Coroutine[Any, Any, T], pending: Any) -> Generator[Any, Any, T]:
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
