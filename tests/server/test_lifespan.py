"""A lifespan in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon.errors import ConfigError
from antiphon.server.lifespan import Held


async def test_a_lifespan_is_left_in_the_task_that_entered_it() -> None:
    """What belongs to a task may be used in it, such as a ``TaskGroup``."""
    tasks: list[asyncio.Task[None] | None] = []

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[str]:
        tasks.append(asyncio.current_task())
        async with asyncio.TaskGroup() as group:
            background = group.create_task(asyncio.Event().wait())
            yield "state"
            background.cancel()
        tasks.append(asyncio.current_task())

    held = Held(lifespan())
    assert await asyncio.create_task(held.enter()) == "state"
    await asyncio.create_task(held.leave())
    assert tasks[0] is tasks[1]


async def test_what_entering_raises_is_raised() -> None:
    """As it is."""

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        raise OSError("no")
        yield

    with pytest.raises(OSError, match="no"):
        await Held(lifespan()).enter()


async def test_what_leaving_raises_is_raised() -> None:
    """To whoever leaves last."""

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        yield
        raise OSError("disk full")

    held = Held(lifespan())
    await held.enter()
    with pytest.raises(OSError, match="disk full"):
        await held.leave()


async def test_an_entering_that_is_cancelled_cleans_up() -> None:
    """What was begun is ended before the caller goes on."""
    begun, events = asyncio.Event(), list[str]()

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        try:
            begun.set()
            await asyncio.Event().wait()
            yield
        finally:
            events.append("cleaned up")

    entering = asyncio.create_task(Held(lifespan()).enter())
    await begun.wait()
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert events == ["cleaned up"]


async def test_what_is_no_context_manager_is_named_with_the_remedy() -> None:
    """The decorator is easily forgotten."""

    async def lifespan() -> AsyncIterator[int]:
        yield 1

    wrong: Any = lifespan()
    with pytest.raises(ConfigError, match=r"async_generator.*contextlib\.asynccontextmanager"):
        Held(wrong)
    await wrong.aclose()
