"""Lanes: a name for the task that asks, which is the same when the handler is run again.

The first task of a call is lane ``1``; the tasks it creates are ``1.1``, ``1.2``, in the order of their creation, and
so on. The lane distinguishes two branches that ask the same question. Owns the task factory that assigns lanes; for
tasks of no call it costs one look-up in their context.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

from antiphon.errors import LocalProtocolError

T = TypeVar("T")

TaskFactory = Callable[..., "asyncio.Future[Any]"]
Work = Coroutine[Any, Any, Any] | Generator[Any, None, Any]


class _Lane:
    __slots__ = ("_children", "_path", "name", "task")

    def __init__(self, path: str) -> None:
        self.name = path
        self.task: asyncio.Future[Any] | None = None
        """The task; ``None`` while it is being created, when it may already run (eager tasks)."""
        self._path = f"{path}." if path else ""
        self._children = 0

    def child(self) -> _Lane:
        self._children += 1
        return _Lane(f"{self._path}{self._children}")


_LANE: ContextVar[_Lane | None] = ContextVar("antiphon_lane", default=None)


def lane_here() -> str | None:
    """Return the lane of the running task; ``None`` if it was not made by its loop's task factory."""
    lane = _LANE.get()
    if lane is None or not lane.name or (lane.task is not None and lane.task is not asyncio.current_task()):
        return None
    return lane.name


def lane_of(what: str, remedy: str) -> str:
    """Return the name of the task that asks; ``LocalProtocolError``, which says what to do, if it has none."""
    lane = lane_here()
    if lane is None:
        raise LocalProtocolError(
            f"{what} comes from a task that its event loop's task factory did not make: run again, the call could not "
            f"tell whose answer is whose; {remedy}"
        )
    return lane


def use_lanes(loop: asyncio.AbstractEventLoop) -> None:
    """Install the task factory in a loop. The loop's previous factory still makes the tasks."""
    present = loop.get_task_factory()
    if not isinstance(present, _Factory):
        loop.set_task_factory(_Factory(present))


def run_in_lane(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Run the body of a call in a task of its own, as its first lane. The loop must ``use_lanes``."""
    context = copy_context()
    context.run(_LANE.set, _Lane(""))
    return context.run(asyncio.get_running_loop().create_task, work)


def begin_lane() -> None:
    """Make the running task the first lane of a call, whose body it is about to run."""
    use_lanes(asyncio.get_running_loop())
    lane = _Lane("1")
    lane.task = asyncio.current_task()
    _LANE.set(lane)


@contextmanager
def beside_lanes() -> Generator[None]:
    """Give no lanes to tasks that are created meanwhile, because they are not the handler's own."""
    before = _LANE.set(None)
    try:
        yield
    finally:
        _LANE.reset(before)


async def outside_lanes(work: Coroutine[Any, Any, T]) -> T:
    """Await a store's work, which takes no lane: it may create tasks in one run and none in the next."""
    return await asyncio.get_running_loop().create_task(work, context=Context())


class _Factory:
    """Makes tasks with the previous factory, and names those of calls."""

    __slots__ = ("_make",)

    def __init__(self, before: TaskFactory | None) -> None:
        self._make = before or _plain_task

    def __call__(
        self, loop: asyncio.AbstractEventLoop, work: Work, *, context: Context | None = None, **options: Any
    ) -> asyncio.Future[Any]:
        if context is not None:
            return self._make_in(context, loop, work, options)
        creator = _LANE.get()
        if creator is None:
            return self._make(loop, work, **options)
        own, lane = copy_context(), creator.child()
        own.run(_LANE.set, lane)
        # Run in the context instead of passing ``context=``, which factories for Python before 3.11 do not
        # know.
        lane.task = task = own.run(self._make, loop, work, **options)
        return task

    def _make_in(
        self, context: Context, loop: asyncio.AbstractEventLoop, work: Work, options: dict[str, Any]
    ) -> asyncio.Future[Any]:
        creator = context.get(_LANE)
        if creator is None:
            return self._make(loop, work, context=context, **options)
        lane = creator.child()
        try:
            context.run(_LANE.set, lane)
        except RuntimeError:
            # The context is in use, so it cannot be changed from here: the task has no lane, and its asks
            # need keys.
            return self._make(loop, work, context=context, **options)
        lane.task = task = self._make(loop, work, context=context, **options)
        return task


def _plain_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    return asyncio.Task(work, loop=loop, **options)
