"""A conversation at a terminal: showing rows that fit it; asking for a key, a line, or several lines.

Every row begins with something of ours, so that no text of a server can begin a row and imitate the host.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from antiphon.host.checks.form_fields import YES
from antiphon.host.checks.visible import cells_of, gutter_of, inert_line, inert_parts, make_inert, wrap_line
from antiphon.host.review.keymap import key_for
from antiphon.host.review.summary import Texts, load_texts
from antiphon.host.terminal.tty import EndOfInput, Tty

_ENGLISH = load_texts("en")
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
        """Show rows one screen at a time, asking ``more`` between; ``False`` if the person stopped before the end."""
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

    async def ask_within(self, prompt: str, seconds: float) -> str | None:
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

    async def agrees(self, prompt: str) -> bool:
        """Ask a question that only a plain yes answers."""
        return (await self.line(prompt) or "").lower() in YES

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


def fold_rows(console: Console, rows: Callable[[Layout], Iterator[str]], more: str) -> Layout:
    """Return the layout for rows that may not fit the terminal: long texts are then folded, and ``more`` says how much.

    ``rows`` draws them with a layout.
    """
    layout = console.layout
    # Folded at the height of the terminal, so that finding out takes no longer than drawing.
    high = msgspec.structs.replace(layout, fold=console.tty.rows)
    if next(islice(rows(high), console.tty.rows, None), None) is None:
        return layout
    return msgspec.structs.replace(layout, fold=_FOLDED, more=more)


_LABEL = 9
"""Width of the labels at the left."""
_CONTINUED = "┊ "
"""Begins a row that continues the one above."""
_LEAST = 2
"""Least columns of text even if the terminal claims to be narrower: one wide character."""
_NARROW = 40
"""Columns below which a label stands above its text, since beside it there would be no room for a word."""
_PER_CELL = 4
"""Characters examined for each cell of a folded text, so that the work is limited however long the text is."""
_RULE = 100
"""Most columns of a rule."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The width, and whether to use colour."""

    columns: int = 80
    """0 wraps nothing: each line of a text is one row, for a pipe or a file."""
    color: bool = False
    fold: int = 0
    """Most rows shown of a server's text; 0 shows all. The rest is announced by ``more``."""
    more: str = ""
    """Text for what was folded, with a place for ``{characters}``."""

    def title(self, text: str) -> str:
        """Draw a rule with a text of ours in it."""
        return self.paint("1", f"── {text} ".ljust(min(self.columns or _RULE, _RULE) - 1, "─"))

    def labelled(self, label: str, text: str, paint: str = "") -> Iterator[str]:
        """Show a one-line fact, wrapped beside its label."""
        narrow = 0 < self.columns < _NARROW
        if narrow and label:
            yield self.paint("2", f" {label}")
            label = ""
        width = 0 if narrow else _LABEL
        rows = self.wrapped(inert_line(text), width + 5)
        for at, row in enumerate(rows):
            beside = label if at == 0 else ""
            room = " " * (width - cells_of(beside))
            head = self.paint("2", f" {beside}{room} {_CONTINUED if at or narrow else ''}")
            yield head + self.paint(paint, row)

    def quoted(self, text: str, indent: int = 0) -> Iterator[str]:
        """Show a server's text completely, each row behind a gutter."""
        if not self.fold:
            yield from (self._behind(row, indent) for row in self._rows(text, indent + 5))
            return
        shown = at = 0
        most = self.fold * (self.columns or _RULE) * _PER_CELL
        made = make_inert(text[:most])
        unseen = max(0, len(text) - most)
        for line in made.split("\n"):
            for row in self.wrapped(line, indent + 5):
                if shown == self.fold:
                    yield self._folded(len(made) - at + unseen, indent)
                    return
                yield self._behind(row, indent)
                shown, at = shown + 1, at + len(row)
            at += 1
        if unseen:
            yield self._folded(unseen, indent)

    def _behind(self, row: str, indent: int) -> str:
        return " " * (indent + 1) + self.paint("2", gutter_of(row)) + row

    def _rows(self, text: str, taken: int) -> Iterator[str]:
        """Make a text inert and wrap it, a part at a time as its rows are drawn."""
        # A line is not wrapped for a pipe, so it cannot be cut into parts.
        parts = inert_parts(text) if self.columns else iter((make_inert(text),))
        open_line = next(parts)
        for part in parts:
            *lines, last = open_line.split("\n")
            for line in lines:
                yield from self.wrapped(line, taken)
            *rows, rest = self.wrapped(last, taken)
            yield from rows
            # The row in which the text was cut goes on.
            open_line = rest + part
        for line in open_line.split("\n"):
            yield from self.wrapped(line, taken)

    def _folded(self, characters: int, indent: int) -> str:
        return " " * (indent + 1) + self.paint("33", "┆ " + self.more.format(characters=characters))

    def remark(self, text: str, indent: int = 0) -> Iterator[str]:
        """Show a remark of ours about a block; quotations of the server's text become one inert line."""
        rows = self.wrapped(inert_line(text), indent + 5)
        for at, row in enumerate(rows):
            yield " " * (indent + 1) + self.paint("" if at else "1", (_CONTINUED if at else "▪ ") + row)

    def wrapped(self, line: str, taken: int) -> Iterator[str]:
        """Break a line into rows that leave ``taken`` columns free for a prefix."""
        return wrap_line(line, max(_LEAST, self.columns - taken)) if self.columns else iter((line,))

    def paint(self, code: str, text: str) -> str:
        """Colour a text of ours (SGR codes), if colour is used."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and code else text
