"""The layout of the screen: queue, request, and the lines that do not scroll.

Supports terminals of any size; ``stage`` has the content.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widgets import Static

from antiphon.cli.screen.drawn.queue_rows import entries
from antiphon.cli.screen.header import bar, plain, strip
from antiphon.cli.screen.partials import partial_lines
from antiphon.cli.screen.views import QueueView, RowsView
from antiphon.cli.screen.words import Words
from antiphon.host.review.partials import Partial
from antiphon.host.review.question import Question
from antiphon.host.review.rows import Group
from antiphon.host.review.shown import Shown

__all__ = ["Panes"]


class Panes(Container):
    """Queue and request side by side, one below the other, or only the one in use, depending on the room."""

    DEFAULT_CSS = """
    Panes {
        layout: vertical;
        #both { height: 1fr; layout: horizontal; }
        #side { width: 40; border-right: solid ansi_default; }
        #queue-title, #head { height: 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
        #queue { height: 1fr; }
        #detail { width: 1fr; }
        #strip { height: auto; max-height: 2; }
        #partial { height: auto; max-height: 3; display: none; }
        #notice { height: 1; text-style: bold; }
        #keys { height: auto; max-height: 3; }
    }
    Panes.narrow {
        #both { layout: vertical; }
        #side { width: 100%; height: 7; border-right: none; border-bottom: solid ansi_default; }
        #detail { width: 100%; height: 1fr; }
    }
    Panes.low {
        #keys, #strip, #partial { max-height: 1; }
    }
    Panes.narrow.low {
        #side { height: 0; border: none; }
        &.on-queue #side { height: 1fr; }
        &.on-queue #detail { height: 0; }
    }
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        # Kept as references, because something may be shown while the widgets are being removed.
        self.queue = QueueView("queue", clock)
        self.rows = RowsView("request")
        self._title, self._head, self._strip, self._partial, self._notice, self._keys = (
            Static(Content(""), id=name) for name in ("queue-title", "head", "strip", "partial", "notice", "keys")
        )

    def compose(self) -> ComposeResult:
        """Lay them out."""
        with Container(id="both"):
            with Vertical(id="side"):
                yield self._title
                yield self.queue
            with Vertical(id="detail"):
                yield self._head
                yield self._strip
                yield self.rows
        yield self._partial
        yield self._notice
        yield self._keys

    def fit(self, width: int, height: int) -> None:
        """Arrange them for a terminal of this size."""
        self.set_class(width < 100, "narrow")
        self.set_class(height < 20, "low")

    def say(self, text: str) -> None:
        """Show the person a line of text."""
        self._notice.update(plain(text))

    def grow(self, partials: Sequence[Partial], words: Words) -> None:
        """Show what has arrived of answers; hidden if there are none."""
        self._partial.update(partial_lines(partials, words, self.size.width))
        self._partial.display = bool(partials)

    def list(self, groups: Iterable[Group], count: int, words: Words, only: str = "") -> None:
        """Show the queue; ``only``: the text that all listed questions contain."""
        limited = f" · {words('filter.on', text=only)}" if only else ""
        self._title.update(plain(f"{words('queue.title', n=count)}{limited}"))
        self.queue.show(entries(groups, words), words)

    def head(
        self, question: Question | None, shown: Shown | None, now: float, words: Words, *, dead: Collection[str]
    ) -> None:
        """Show what is asked, the time left, and the keys; those in ``dead`` are dimmed."""
        asked, risks = strip(question, shown, now, words)
        self._head.update(asked)
        self._strip.update(risks)
        self._keys.update(bar(shown, words, width=self.size.width, dead=dead))
