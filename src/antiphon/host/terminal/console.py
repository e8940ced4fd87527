"""A conversation at a terminal: showing rows; asking for a key, a line, or several lines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from antiphon.host.checks.cells import cells_of
from antiphon.host.review.keymap import key_for
from antiphon.host.review.texts import Texts, texts
from antiphon.host.terminal.layout import Layout
from antiphon.host.terminal.tty import EndOfInput, Tty

__all__ = ["PROMPT", "Console", "folded"]

_ENGLISH = texts("en")
PROMPT = _ENGLISH("inline.prompt")
"""The prompt, in English, shown only when a decision is expected."""

_ROWS_AT_ONCE = 200
"""Rows shown before other tasks run."""
_ROWS_FOR_KEYS = 8
"""Rows reserved for the keys, and for what stands above them."""
_FOLDED = 8
"""Rows shown of a text if a request does not fit the terminal."""
_MAX_TYPED = 200_000
"""Most characters of one typed answer; more is a mistaken paste."""


class Console:
    """One conversation with the person at a terminal."""

    def __init__(
        self,
        tty: Tty,
        *,
        color: bool | None,
        pause: float,
        waiting: Callable[[], int] = lambda: 0,
        words: Texts = _ENGLISH,
    ) -> None:
        """``color=None``: if the terminal and ``NO_COLOR`` allow it. ``pause``: see ``arm``.

        ``waiting`` counts the questions behind this one. ``words``: what it says, in the person's language.
        """
        self.tty = tty
        self._words = words
        self._waiting = waiting
        self._pause = pause
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in (None, "", "dumb")
        self._color = not plain if color is None else color

    @property
    def layout(self) -> Layout:
        """The layout for the current width of the terminal."""
        return Layout(columns=self.tty.columns, color=self._color)

    async def show(self, rows: Iterable[str]) -> None:
        """Show rows, in pieces, so that a long text does not block other tasks."""
        piece: list[str] = []
        for row in rows:
            piece.append(row)
            if len(piece) == _ROWS_AT_ONCE:
                await self.tty.write("\n".join(piece) + "\n")
                piece.clear()
                await asyncio.sleep(0)
        if piece:
            await self.tty.write("\n".join(piece) + "\n")

    async def say(self, text: str) -> None:
        """Show a text of our own, made inert in case it quotes another text."""
        await self.show(self.layout.remark(text))

    async def arm(self) -> None:
        """Wait a moment after something new was shown, and discard what was typed until then.

        A key pressed for the previous request must not decide this one.
        """
        await asyncio.sleep(self._pause)
        self.tty.discard_typed()

    async def show_to_the_end(self, rows: Iterable[str], more: str) -> bool:
        """Show rows one screen at a time, so that each was visible; ``False`` if the person stopped before the end.

        ``more`` is the prompt between two screens.
        """
        page: list[str] = []
        for row in rows:
            if len(page) == max(2, self.tty.rows - _ROWS_FOR_KEYS):
                await self.show(page)
                if await self.line(more) is None:
                    return False
                page.clear()
            page.append(row)
        await self.show(page)
        return True

    async def typed_within(self, prompt: str, seconds: float) -> str | None:
        """Ask for a line within some seconds; ``None`` if nothing was typed in time."""
        try:
            async with asyncio.timeout(seconds):
                return await self.line(prompt) or ""
        except TimeoutError:
            await self.tty.write("\n")
            return None

    async def choose(self, keys: Mapping[str, str], folded: Collection[str] = ()) -> str | None:
        """Ask for one of the keys (key: what it does); ``None`` if the person pressed Ctrl-D.

        ``folded``: the keys that do nothing as long as a part of the text is folded: it must have been opened once.
        """
        await self._offer(keys)
        while True:
            typed = await self.line(self._words("inline.prompt"))
            if typed is not None and typed in folded:
                await self.say(self._words("fold.first", press=key_for("fold", "inline").keys[0]))
            elif typed is None or typed in keys:
                return typed
            else:
                await self.say(self._words("inline.type_one", keys=", ".join(keys)))

    async def _offer(self, keys: Mapping[str, str]) -> None:
        waiting = self._waiting()
        rows = ["", f" {self._words('inline.waiting', n=waiting)}", ""] if waiting else ["", ""]
        for entry in (f" [{key}] {meaning} " for key, meaning in keys.items()):
            if cells_of(rows[-1]) + cells_of(entry) > self.tty.columns:
                rows.append("")
            rows[-1] += entry
        await self.show(rows)

    async def line(self, prompt: str) -> str | None:
        """Ask for one line, without surrounding spaces; ``None`` if the person pressed Ctrl-D."""
        await self.tty.write(self.layout.paint("1", prompt))
        try:
            return (await self.tty.read_line()).strip()
        except EndOfInput:
            await self.tty.write("\n")
            return None

    async def text(self, instruction: str) -> str:
        """Ask for a text of several lines, ended by a line with a single dot or by Ctrl-D; empty for none."""
        await self.say(f"{instruction} {self._words('inline.text_end')}")
        lines: list[str] = []
        size = 0
        while (line := await self._line_of_text()) is not None:
            lines.append(line)
            size += len(line) + 1
            if size > _MAX_TYPED:
                self.tty.discard_typed()
                await self.say(self._words("inline.too_long", n=_MAX_TYPED))
                return ""
        return "\n".join(lines).strip("\n")

    async def _line_of_text(self) -> str | None:
        try:
            line = await self.tty.read_line()
        except EndOfInput:
            return None
        if self.tty.line_was_cut:
            await self.say(self._words("inline.cut"))
        return None if line == "." else line


def folded(console: Console, rows: Callable[[Layout], Iterator[str]], more: str) -> Layout:
    """Return the layout for rows that may not fit the terminal: long texts are then folded, and ``more`` says how much.

    ``rows`` draws them with a layout.
    """
    layout = console.layout
    # Folded at the height of the terminal, so that finding out takes no longer than drawing.
    high = msgspec.structs.replace(layout, fold=console.tty.rows)
    if next(islice(rows(high), console.tty.rows, None), None) is None:
        return layout
    return msgspec.structs.replace(layout, fold=_FOLDED, more=more)
