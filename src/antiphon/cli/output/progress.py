"""Output beside the data: log messages, protocol messages, progress.

Owns the order of lines on one stream: a progress bar is cleared before a line, and nothing is written while a person is
being asked at the same terminal. ``formats`` writes the data.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TextIO

from antiphon.cli.output.formats import write_line
from antiphon.host.checks.visible import inert, inert_line
from antiphon.machine.asyncio_tasks import end_tasks

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

__all__ = ["Teller"]

_TICK = 1.0
"""Seconds until a call is reported as slow, and between two updates."""
_MOST_HELD = 10_000
"""Most lines held while a person decides; further lines are dropped and counted."""


class Teller:
    """Lines and a progress bar on one stream, in colour if it is a terminal that allows it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = _console(stream) if stream.isatty() else None
        self._asking = 0
        self._held: list[tuple[str, str]] = []
        self._lost = 0
        self._bar: tuple[Progress, TaskID] | None = None
        self._doing = "working"
        self._reached: tuple[float, float | None] | None = None
        self._since: float | None = None

    def say(self, text: str, style: str = "") -> None:
        """Write a text, made inert; ``style`` is one of rich's."""
        if self._asking == 0:
            self._write(text, style)
        elif len(self._held) < _MOST_HELD:
            self._held.append((text, style))
        else:
            self._lost += 1

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Show how far a call has come, as a bar; only on a terminal, and not while a person is asked."""
        self._reached = progress, total
        if message:
            self._doing = inert_line(message)[:60]
        self._draw()

    @asynccontextmanager
    async def waiting(self, what: str) -> AsyncGenerator[None]:
        """Show on a terminal how long something takes, every second; not while a person is asked."""
        self._doing, self._reached, self._since = inert_line(what)[:60], None, time.monotonic()
        ticking = asyncio.create_task(self._tick(), name="antiphon-waiting") if self._console is not None else None
        try:
            yield
        finally:
            self._since = None
            await end_tasks(ticking)
            self.clear()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._draw()

    def _draw(self) -> None:
        if self._console is None or self._asking:
            return
        bar, task = self._bar = self._bar or _bar(self._console)
        elapsed = "" if self._since is None else f"{time.monotonic() - self._since:.0f} s"
        done, total = self._reached or (0.0, None)
        count = "" if self._reached is None else f"{done:g}/{total:g}" if total else f"{done:g}"
        bar.update(task, description=self._doing, completed=done, total=total, count=count, elapsed=elapsed)
        # Not earlier, because it draws its content at once. Repeating it is harmless.
        bar.start()
        bar.refresh()

    def clear(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold all output while the terminal is used for a question; it is written afterwards."""
        self.clear()
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if self._asking == 0:
                self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        for text, style in held:
            self._write(text, style)
        if self._lost:
            self._write(f"({self._lost} more lines were dropped)", "")
            self._lost = 0

    def _write(self, text: str, style: str) -> None:
        self.clear()
        if self._console is None:
            write_line(inert(text), self._stream)
        else:
            self._console.print(inert(text), style=style or None, markup=False, highlight=False, soft_wrap=True)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream, emoji=False)


def _bar(console: Console) -> tuple[Progress, TaskID]:
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(min(40, console.width // 3)),
        TextColumn("{task.fields[count]}", markup=False),
        TextColumn("{task.fields[elapsed]}", markup=False),
    )
    bar = Progress(
        *columns, console=console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    )
    return bar, bar.add_task("", total=None, count="", elapsed="")
