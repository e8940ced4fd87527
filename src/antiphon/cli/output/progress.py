"""Output beside the data: log messages, protocol messages, progress.

Owns the order of lines on one stream: a progress bar is cleared before a line, and nothing is written while a person is
being asked at the same terminal. ``formats`` writes the data.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TextIO, cast

import click
import msgspec

from antiphon.cli.output.formats import paint_text, write_line
from antiphon.host.checks.visible import inert_line, make_inert, wrap_line
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.transports.recording import Message

_TICK = 1.0
"""Seconds until a call is reported as slow, and between two updates."""
_REST = "\x1b[K"
"""Erases the rest of the line."""
_MOST_HELD = 10_000
"""Most lines held while a person decides; further lines are dropped and counted."""


class Teller:
    """Lines and a progress bar on one stream, in colour if it is a terminal that allows it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._asking = 0
        self._held: list[tuple[str, str]] = []
        self._lost = 0
        self._has_bar = False
        self._doing = "working"
        self._reached: tuple[float, float | None] | None = None
        self._since: float | None = None

    def say(self, text: str, style: str = "") -> None:
        """Write a text, made inert; ``style`` is as for ``paint_text``."""
        if self._asking == 0:
            self._write(text, style)
        elif len(self._held) < _MOST_HELD:
            self._held.append((text, style))
        else:
            self._lost += 1

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Show how far a call has come, as a bar; only on a terminal, and not while a person is asked."""
        self._reached = max(0, min(progress, 1e99)), total and max(0, min(total, 1e99))  # No fraction holds 10**400.
        if message:
            self._doing = inert_line(message)[:60]
        self._draw()

    @asynccontextmanager
    async def waiting(self, what: str) -> AsyncGenerator[None]:
        """Show on a terminal how long something takes, every second; not while a person is asked."""
        self._doing, self._reached, self._since = inert_line(what)[:60], None, time.monotonic()
        ticking = asyncio.create_task(self._tick(), name="antiphon-waiting") if self._is_terminal else None
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
        if not self._is_terminal or self._asking:
            return
        columns = shutil.get_terminal_size().columns
        elapsed = "" if self._since is None else f"{time.monotonic() - self._since:.0f} s"
        done, total = self._reached or (0.0, None)
        count = "" if self._reached is None else f"{done:g}/{total:g}" if total else f"{done:g}"
        bar = _draw_bar(min(40, columns // 3), done / total) if total else ""
        row = next(wrap_line("  ".join(filter(None, [self._doing, bar, count, elapsed])), columns - 1))
        self._has_bar = True
        click.echo(f"\r{row}{_REST}", file=self._stream, nl=False)

    def clear(self) -> None:
        """Remove the bar."""
        if self._has_bar:
            self._has_bar = False
            click.echo(f"\r{_REST}", file=self._stream, nl=False)

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
        if self._is_terminal:
            click.echo(paint_text(make_inert(text), style), file=self._stream)
        else:
            write_line(make_inert(text), self._stream)


def _draw_bar(width: int, part: float) -> str:
    filled = round(width * min(1.0, max(0.0, part)))
    return "━" * filled + "─" * (width - filled)


LEGEND = "→ from us to the server   ← from the server to us"

_LONGEST_TEXT = 100
"""Most characters of one text in a line."""
_LONGEST_BODY = 360
"""Most characters of a body: four rows of a terminal."""


def format_message(message: Message) -> str:
    """Format a message as one line: an arrow, its kind, its id, a short body."""
    arrow = "→" if message.direction == "sent" else "←"
    what = {"result": "result of ", "error": "error for ", "unreadable": "unreadable"}.get(message.kind, "")
    number = "" if message.id is None else f" #{message.id}"
    name = message.method or ("an unknown request" if message.kind in ("result", "error") else "")
    return f"{arrow} {what}{name}{number}  {_shorten_body(message.body)}".rstrip()


def _shorten_body(body: object) -> str:
    if body is None:
        return ""
    if isinstance(body, str):
        return _cut_text(body, _LONGEST_BODY)
    return _cut_text(msgspec.json.encode(_abridge_value(body)).decode(), _LONGEST_BODY)


def _abridge_value(value: object) -> object:
    """Shorten long texts, and leave out what every message of the newest revision repeats."""
    if isinstance(value, str):
        return _cut_text(value, _LONGEST_TEXT)
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        # Anyone who has the state of a request can continue the call, so it is not shown.
        return {
            key: f"<{len(member)} characters>"
            if key == "requestState" and isinstance(member, str)
            else _abridge_value(member)
            for key, member in members.items()
            if key != "_meta"
        }
    if isinstance(value, list):
        return [_abridge_value(member) for member in cast("list[object]", value)]
    return value


def _cut_text(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
