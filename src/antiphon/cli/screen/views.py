"""The two panes: rows of a document, and the queue. Both draw only what is visible.

Owns colours, scrolling and the position in the queue. No text is parsed as markup of Rich or Textual: every row is a
segment of plain text, which was made inert before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as Look
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from antiphon.cli.screen.drawn.document import Document
from antiphon.cli.screen.drawn.pieces import Piece, Style
from antiphon.cli.screen.drawn.queue_rows import Entry, line
from antiphon.cli.screen.words import Words, words
from antiphon.host.checks.cells import cells, cells_of

__all__ = ["QueueView", "RowsView", "fitted"]

_LARGE = 200_000
"""Characters that are wrapped at once; longer texts are wrapped in a thread, while keys still work."""
_LOOKS: dict[Style, Look] = {
    "": Look(),
    "title": Look(bold=True),
    "strong": Look(bold=True),
    "dim": Look(dim=True),
    "warning": Look(bold=True, color="yellow"),
    "added": Look(color="green"),
    "removed": Look(color="red"),
    "chosen": Look(reverse=True),
    "state": Look(bold=True, reverse=True),
}
"""Colour is never the only sign: a symbol or a position says the same."""


class RowsView(ScrollView, can_focus=True):
    """A document of any length, scrolled."""

    DEFAULT_CSS = """
    RowsView { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "page_down")]

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._pieces: list[Piece] = []
        self._document = Document((), 80)
        self._seen = 0
        self._marked: int | None = None
        """The row that a person jumped to."""

    @property
    def seen_to(self) -> int:
        """The number of rows that have been visible, or are above a visible one."""
        return self._seen

    @property
    def document(self) -> Document:
        """The document that is shown."""
        return self._document

    async def show(self, pieces: Iterable[Piece], *, keep_place: bool = False) -> None:
        """Show another document, from its beginning or at the same position."""
        self._pieces = list(pieces)
        self._marked = None
        if not keep_place:
            self._seen = 0
        await self._wrap()
        if not keep_place:
            self.scroll_to(y=0, animate=False)

    def jump(self, title: str) -> None:
        """Scroll to a title."""
        self.scroll_to(y=self._document.find(title), animate=False)

    def mark(self, row: int) -> None:
        """Mark a row, and scroll to it."""
        self._marked = row
        self.scroll_to(y=max(0, row - self.size.height // 3), animate=False)
        self.refresh()

    @property
    def marked(self) -> int:
        """The marked row; -1 if there is none."""
        return -1 if self._marked is None else self._marked

    async def on_resize(self, event: events.Resize) -> None:
        """Wrap again if the width has changed."""
        if self._width() != self._document.width:
            await self._wrap()

    def render_line(self, y: int) -> Strip:
        """Draw one row of the pane."""
        width, at = self.size.width, y + self.scroll_offset.y
        if at >= len(self._document):
            return Strip.blank(width)
        self._seen = max(self._seen, at + 1)
        row = self._document.row(at)
        if at == self._marked:
            return Strip([Segment(fitted(f"▶{row.lead[1:]}{row.text}", width), _LOOKS["chosen"])], width)
        lead = _LOOKS["title" if row.style == "title" else "dim"]
        room = max(0, width - cells_of(row.lead))
        return Strip([Segment(row.lead, lead), Segment(fitted(row.text, room), _LOOKS[row.style])], width)

    def _width(self) -> int:
        return max(1, self.scrollable_content_region.width)

    async def _wrap(self) -> None:
        pieces, width = self._pieces, self._width()
        if sum(len(piece.text) for piece in pieces) > _LARGE:
            document = await asyncio.to_thread(Document, pieces, width)
        else:
            document = Document(pieces, width)
        if pieces is not self._pieces or not self.is_attached:
            # Another document was requested meanwhile, which is wrapped separately; or the view was
            # removed.
            return
        self._document = document
        self.virtual_size = Size(width, len(document))
        self.refresh()


class QueueView(ScrollView, can_focus=True):
    """The queue, with a mark at the question that is shown."""

    DEFAULT_CSS = """
    QueueView { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("up", "move(-1)"), Binding("down", "move(1)")]

    class Chosen(Message):
        """A line was clicked."""

        def __init__(self, id: str) -> None:
            super().__init__()
            self.chosen = id

    class Moved(Message):
        """The next or previous line was requested."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self, id: str, clock: Callable[[], float]) -> None:
        super().__init__(id=id)
        self._entries: list[Entry] = []
        self._words = words("en")
        self._current = ""
        self._chosen: frozenset[str] = frozenset()
        self._clock = clock

    @property
    def ids(self) -> list[str]:
        """The questions, in the order of display."""
        return [entry.id for entry in self._entries if entry.id]

    def show(self, entries: Iterable[Entry], words: Words) -> None:
        """Show other questions."""
        self._entries, self._words = list(entries), words
        self.virtual_size = Size(max(1, self.scrollable_content_region.width), len(self._entries))
        self.refresh()

    def select(self, ids: Iterable[str]) -> None:
        """Mark the questions that are to be decided together."""
        self._chosen = frozenset(ids)
        self.refresh()

    def choose(self, id: str) -> None:
        """Mark the question that is shown, and scroll to it."""
        self._current = id
        at = next((at for at, entry in enumerate(self._entries) if entry.id == id), None)
        if at is not None and not self.scroll_offset.y <= at < self.scroll_offset.y + self.size.height:
            self.scroll_to(y=max(0, at - self.size.height // 2), animate=False)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Request the line that many lines away."""
        self.post_message(self.Moved(by))

    def on_click(self, event: events.Click) -> None:
        """Choose a line with the mouse."""
        at = event.y + self.scroll_offset.y
        if at < len(self._entries) and self._entries[at].id:
            self.post_message(self.Chosen(self._entries[at].id))

    def render_line(self, y: int) -> Strip:
        """Draw one line of the queue."""
        width, at = self.size.width, y + self.scroll_offset.y
        if at >= len(self._entries):
            return Strip.blank(width)
        entry = self._entries[at]
        current = bool(entry.id) and entry.id == self._current
        text = fitted(line(entry, self._clock(), self._words, current=current, marked=entry.id in self._chosen), width)
        style: Style = "chosen" if current else "warning" if entry.warnings else "" if entry.id else "dim"
        return Strip([Segment(text, _LOOKS[style])], width)


def fitted(text: str, width: int) -> str:
    """Cut or pad a row to a number of cells as terminals count them; a wider row would displace the next column."""
    if text.isascii():
        return text[:width].ljust(width)
    used = at = 0
    for char in text:
        if used + cells(char) > width:
            break
        used += cells(char)
        at += 1
    # A joiner at the end would join the blank after it to its emoji.
    cut = text[:at].rstrip("\u200d")
    return cut + " " * max(0, width - cells_of(cut))
