"""A document over the screen with keys of its own: an edited request, similar requests, the list of keys.

Owns when such a key is accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from antiphon.cli.screen.decision_guard import Arming
from antiphon.cli.screen.drawn.pieces import Piece
from antiphon.cli.screen.key_bindings import Offer
from antiphon.cli.screen.views import RowsView
from antiphon.host.checks.visible import inert_line

__all__ = ["Sheet", "key_line", "now"]


class Sheet(ModalScreen[str]):
    """Shows pieces, and returns the key that was pressed; nothing if the person goes back."""

    DEFAULT_CSS = """
    Sheet { align: center middle; }
    Sheet > Vertical { width: 96%; height: 96%; border: round ansi_default; }
    Sheet #title { text-style: bold; height: 1; padding: 0 1; }
    Sheet #keys { height: auto; max-height: 2; padding: 0 1; }
    """

    def __init__(
        self,
        title: str,
        pieces: Iterable[Piece],
        offers: Sequence[Offer],
        *,
        back: str,
        armed: Collection[str] = (),
        dead: float,
    ) -> None:
        """Prepare it. ``armed`` are the keys that are accepted only after ``dead`` seconds.

        ``back`` is the label of Esc.
        """
        super().__init__()
        self._title = title
        self._pieces = list(pieces)
        self._offers = offers
        self._back = back
        self._armed = armed
        self._arming = Arming(dead)

    def compose(self) -> ComposeResult:
        """Lay out title, document and keys."""
        with Vertical():
            yield Static(Content(inert_line(self._title)), id="title")
            yield RowsView("sheet")
            yield Static(Content(""), id="keys")

    async def on_mount(self) -> None:
        """Show the document."""
        rows = self.query_one(RowsView)
        await rows.show(self._pieces)
        rows.focus()
        self.call_after_refresh(lambda: self._arming.shown(now()))

    def on_resize(self, event: events.Resize) -> None:
        """Arrange the keys for the width."""
        offers = [*self._offers, Offer("Esc", self._back)]
        self.query_one("#keys", Static).update(key_line(offers, event.size.width * 96 // 100 - 4))

    def on_key(self, event: events.Key) -> None:
        """Return a key that is offered."""
        name = event.character or event.key
        if event.key == "escape":
            event.stop()
            self.dismiss("")
        elif any(offer.key == name for offer in self._offers):
            event.stop()
            if name not in self._armed or self._arming.armed(event.time):
                self.dismiss(name)


def key_line(offers: Iterable[Offer], width: int, dead: Collection[str] = ()) -> Content:
    """Return keys and their labels in rows of this width; those in ``dead`` are dimmed."""
    parts: list[tuple[str, str]] = []
    used = 0
    for offer in offers:
        label = f" {inert_line(offer.label)}  "
        cells = cell_len(offer.key + label)
        if used and used + cells - 2 > width:
            parts.append(("\n", ""))
            used = 0
        used += cells
        is_dead = offer.key in dead
        parts += [(offer.key, "dim" if is_dead else "bold"), (label, "dim" if is_dead else "")]
    return Content.assemble(*parts)


def now() -> float:
    """Return the time of the clock that stamps keys."""
    return Message().time
