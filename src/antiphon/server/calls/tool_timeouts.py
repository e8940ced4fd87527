"""The deadlines of tools: those a client calls, and those a model uses in sampling.

Time spent waiting for the client's answers does not count, because a person may take long. An ask stops the clocks of
all tools it is made within, and no others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from antiphon.errors import ToolError

__all__ = ["CLOCK", "Clock", "standing_still", "within"]

R = TypeVar("R")


class Clock:
    """The deadline of one run of a tool; ``outer`` is that of the tool it runs within."""

    __slots__ = ("_asks_out", "_left", "is_over", "limit", "outer")

    def __init__(self, seconds: float, outer: Clock | None) -> None:
        self.limit = asyncio.timeout(seconds)
        self.outer = outer
        self.is_over = False
        """Whether the tool has ended; a task that it made may go on."""
        self._asks_out = 0
        self._left = 0.0

    def stop(self) -> None:
        """Stop the clock. Asks may overlap; it continues when the last one is answered."""
        when = self.limit.when()
        if self._asks_out == 0 and when is not None and not self.limit.expired():
            self._left = when - asyncio.get_running_loop().time()
            self.limit.reschedule(None)
        self._asks_out += 1

    def go_on(self) -> None:
        """End one ``stop``."""
        self._asks_out -= 1
        # The tool may have ended while its task still runs, or its deadline may have passed during cleanup.
        if self._asks_out == 0 and not self.is_over and not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time() + self._left)


CLOCK: ContextVar[Clock | None] = ContextVar("antiphon_clock", default=None)
"""The innermost deadline around the running code; ``None`` if there is none."""


async def within(seconds: float, name: str, work: Awaitable[R]) -> R:
    """Await the work of the tool ``name``, for at most ``seconds``.

    Raises:
        ToolError: it did not finish in time.
    """
    clock = Clock(seconds, CLOCK.get())
    before = CLOCK.set(clock)
    try:
        async with clock.limit:
            return await work
    except TimeoutError:
        if clock.limit.expired():
            raise ToolError(f"{name} did not finish within {seconds:g} s") from None
        raise
    finally:
        clock.is_over = True
        CLOCK.reset(before)


@contextmanager
def standing_still() -> Generator[None]:
    """Stop all deadlines around this place while an ask is out."""
    clocks: list[Clock] = []
    clock = CLOCK.get()
    while clock is not None:
        clocks.append(clock)
        clock = clock.outer
    for one in clocks:
        one.stop()
    try:
        yield
    finally:
        for one in clocks:
            one.go_on()
