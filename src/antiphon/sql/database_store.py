"""A store of a server in a database: opened on first use, closed with ``async with``.

Owns what such stores have in common; each adds its tables and the operations on them.
Callers wait for a database only as long as it makes progress: the time since it last began or ended a transaction
counts. A transaction that has begun is finished even if its caller has given up.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import Struct

from antiphon.errors import ConfigError
from antiphon.machine.call_time import CURRENT
from antiphon.machine.public_names import describe_install

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from antiphon.sql.runner import Runner

T = TypeVar("T")


class DatabaseStore:
    """A store at a ``place``, as ``runner_at`` takes it."""

    _make: Callable[[Connection], object]
    """Creates the tables that are missing; set by the subclass, which imports its tables late."""

    def __init__(self, place: str | Path) -> None:
        self._runner = runner_at(place, extra="sql", durable=True)
        self._patience = StorePatience(self._runner.last_turn)
        self._ready = False

    async def aclose(self) -> None:
        """Close the database; the store cannot be used afterwards."""
        await self._runner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _run(self, work: Callable[[Connection], T], *, write: bool = True) -> T:
        """Run one piece of work in a transaction.

        Raises:
            StoreStalled: the database does not answer.
            Whatever the work raises.
        """
        if not self._ready:
            await self._patience.wait(self._runner.run(self._make))
            self._ready = True
        return await self._patience.wait(self._runner.run(work, write=write))


def runner_at(place: str | Path, *, extra: str, durable: bool = False) -> Runner:
    """Make the runner of transactions for a place; nothing is opened before the first transaction.

    ``place`` is a path, ``"sqlite:///path"`` or ``"postgresql://user@host/name"``. ``extra`` is the extra to install if
    packages are missing. ``durable``: a power cut does not lose committed data either, which makes a file slower.
    Raises ``ConfigError``: the address is of another kind, or packages are missing.
    """
    try:
        from antiphon.sql.runner import PostgresRunner, SqliteRunner

        if not isinstance(place, str) or "://" not in place or place.startswith("sqlite:///"):
            return SqliteRunner(Path(str(place).removeprefix("sqlite:///")), durable=durable)
        from sqlalchemy import make_url

        url = make_url(place)
        if url.get_backend_name() != "postgresql":
            raise ConfigError(f"a store is a path, sqlite:///... or postgresql://..., not {url.get_backend_name()}://")
        return PostgresRunner(url.set(drivername="postgresql+asyncpg"))
    except ImportError as error:
        wanted = f"{extra},postgres" if error.name == "asyncpg" else extra
        raise ConfigError(f"a store needs more packages ({error.name}): {describe_install(wanted)}") from None


PATIENCE = 6.0
"""Seconds a request waits for each operation of a store. Longer than a process that vanished in the middle of a
transaction can block others (``runner.IDLE``), and short compared with the timeout of a call."""
_AGAIN = 0.5
"""Seconds to wait while the previous operation is still unanswered, so that no caller waits for the full time twice."""


class StoreStalled(OSError):
    """The store did not answer in time. The operation may still happen."""


class _Wait(Struct, eq=False):
    answer: asyncio.Future[Any]
    """The operation, or what stands for it: it is cancelled to let the caller go."""
    bound: float
    """Seconds without progress after which it gives up."""
    until: float
    """When it gives up in any case."""
    due: float
    """When it may have waited long enough."""
    is_over: bool = False


class StorePatience:
    """The waiting of all callers of one store.

    They share one timer, because one for each caller takes longer than a transaction of several of them.
    """

    def __init__(self, last_turn: Callable[[], float] = lambda: -math.inf) -> None:
        self._last_turn = last_turn
        self._stalled = False
        self._waits: set[_Wait] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the timer. A timer outlives its last caller, since the next one mostly comes soon."""

    async def wait(self, waiting: Awaitable[T], seconds: float | None = None) -> T:
        """Wait for the store, ``PATIENCE`` seconds without progress by default. The operation continues after that.

        Within a call it waits at most for the time that the call has left, and subtracts the time it took from that. It
        waits ``_AGAIN`` seconds even if no time is left, so that a person's decision is not lost for want of the
        milliseconds of a transaction.

        Raises:
            StoreStalled: it did not answer in time.
            Whatever ``waiting`` raises.
        """
        answer = waiting if isinstance(waiting, asyncio.Future) else asyncio.ensure_future(waiting)
        if answer.done() and not answer.cancelled() and answer.exception() is None:
            # A brief transaction ran at once, so there is nothing to wait for.
            self._stalled = False
            return answer.result()
        bound = _AGAIN if self._stalled else seconds or PATIENCE
        time = CURRENT.get()
        left = math.inf if time is None or time.seconds is None else max(_AGAIN, time.seconds)
        bound = min(bound, left)
        loop = asyncio.get_running_loop()
        began = loop.time()
        task: Any = asyncio.current_task(loop)
        cancelled_before = task.cancelling()
        wait = _Wait(answer, bound, began + left, began + bound)
        self._waits.add(wait)
        if self._timer is None or self._loop is not loop or wait.due < self._timer.when():
            self._look_at(loop, wait.due)
        try:
            result = await answer
        except (TimeoutError, asyncio.CancelledError) as error:
            is_ours = wait.is_over and task.cancelling() <= cancelled_before
            if isinstance(error, asyncio.CancelledError) and not is_ours:
                raise
            self._stalled = True
            raise StoreStalled(f"the store did not answer within {bound:g} s") from None
        finally:
            self._waits.discard(wait)
            if time is not None:
                time.spend(loop.time() - began)
        self._stalled = False
        return result

    def _look_at(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._timer is not None and self._loop is loop:
            self._timer.cancel()
        self._loop, self._timer = loop, loop.call_at(when, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let those go that have waited long enough, and look again when the next one may have."""
        self._timer, now = None, loop.time()
        for wait in [wait for wait in self._waits if wait.due <= now]:
            wait.due = min(wait.until, self._last_turn() + wait.bound)
            if wait.due <= now:
                wait.is_over = wait.answer.cancel()
                self._waits.discard(wait)
        if self._waits:
            self._look_at(loop, min(wait.due for wait in self._waits))
