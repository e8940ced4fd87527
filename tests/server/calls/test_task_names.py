"""Lanes: the same names for the same tasks in every run, and none where the name cannot be known."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import Any

from antiphon.server.calls.journal import lane_here, run_in_lane, use_lanes


async def named() -> str | None:
    """Return the lane of this task, after others have had their turn."""
    await asyncio.sleep(0)
    return lane_here()


async def in_lanes(body: Any) -> Any:
    """Run a body as that of a call."""
    use_lanes(asyncio.get_running_loop())
    return await run_in_lane(body())


async def test_tasks_are_named_by_their_creation() -> None:
    """Siblings are counted, children are below their parent."""

    async def parent() -> list[str | None]:
        return [lane_here(), *await asyncio.gather(named(), named())]

    async def body() -> list[Any]:
        return [lane_here(), await asyncio.create_task(parent()), await asyncio.create_task(named())]

    assert await in_lanes(body) == ["1", ["1.1", "1.1.1", "1.1.2"], "1.2"]


async def test_names_do_not_depend_on_who_is_first() -> None:
    """The order of creation counts, not that of running."""

    async def late(passes: int) -> str | None:
        for _ in range(passes):
            await asyncio.sleep(0)
        return lane_here()

    async def body() -> list[Any]:
        return await asyncio.gather(late(9), late(0))

    assert await in_lanes(body) == ["1.1", "1.2"]


async def test_a_task_group_and_a_timeout_are_named() -> None:
    """Whatever asyncio makes of the author's code goes through the loop's factory."""

    async def body() -> list[Any]:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(named())
        return [first.result(), await asyncio.wait_for(named(), 60) is not None]

    assert await in_lanes(body) == ["1.1", True]


async def test_tasks_of_no_call_have_no_lane() -> None:
    """The factory leaves them alone."""
    use_lanes(asyncio.get_running_loop())
    assert await asyncio.create_task(named()) is None


async def test_two_calls_do_not_share_lanes() -> None:
    """Each begins with the first."""

    async def body() -> str | None:
        return await asyncio.create_task(named())

    assert await asyncio.gather(in_lanes(body), in_lanes(body)) == ["1.1", "1.1"]


async def test_a_task_made_past_the_factory_has_no_lane() -> None:
    """Its parent's name is not its own."""

    async def body() -> str | None:
        return await asyncio.Task(named())

    assert await in_lanes(body) is None


async def test_a_task_with_a_context_of_its_own_is_named() -> None:
    """``create_task(context=...)`` is counted like the others, and uses that context."""

    async def body() -> str | None:
        context = copy_context()
        return await asyncio.get_running_loop().create_task(named(), context=context)

    assert await in_lanes(body) == "1.1"


async def test_the_factory_before_goes_on_making_tasks() -> None:
    """Somebody else's task factory is kept, and asked once for each task."""
    loop = asyncio.get_running_loop()
    made: list[str] = []

    def theirs(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        made.append("task")
        return asyncio.Task(work, loop=loop, **options)

    loop.set_task_factory(theirs)
    use_lanes(loop)
    use_lanes(loop)
    assert await asyncio.create_task(named()) is None
    assert made == ["task"]
