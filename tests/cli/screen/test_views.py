"""The two panes."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App, ComposeResult

from antiphon.cli.screen.drawn.pieces import quoted, title
from antiphon.cli.screen.drawn.queue_rows import Entry
from antiphon.cli.screen.views import QueueView, RowsView, fitted
from antiphon.cli.screen.words import words
from antiphon.host.checks.cells import cells_of
from tests.cli.screen.reviewing import asking, lines, reviewing


class Program(App[None]):
    """Both panes, one below the other."""

    def __init__(self) -> None:
        super().__init__(ansi_color=True)
        self.rows = RowsView("rows")
        self.view = QueueView("queue", lambda: 40.0)
        self.view.styles.height = 5
        self.told: list[str | int] = []

    def compose(self) -> ComposeResult:
        """Lay them out."""
        yield self.view
        yield self.rows

    def on_queue_view_chosen(self, event: QueueView.Chosen) -> None:
        """Note what was clicked."""
        self.told.append(event.chosen)

    def on_queue_view_moved(self, event: QueueView.Moved) -> None:
        """Note where to go."""
        self.told.append(event.by)

    @property
    def text(self) -> str:
        """All that is on the terminal."""
        return "\n".join(strip.text for strip in self.screen._compositor.render_strips())


async def test_rows_are_drawn_where_they_are_in_sight():
    """And wrapped anew when the width changes."""
    app = Program()
    async with app.run_test(size=(40, 15)) as pilot:
        await app.rows.show([quoted("word " * 200), title("Model"), quoted("end")])
        await pilot.pause()
        assert "│ word word" in app.text
        assert "Model" not in app.text
        app.rows.jump("Model")
        await pilot.pause()
        assert "── Model" in app.text
        before = len(app.rows.document)
        await pilot.resize_terminal(80, 15)
        await pilot.pause()
        assert len(app.rows.document) < before
        await app.rows.show([quoted("short")])
        await pilot.pause()
        assert app.rows.scroll_offset.y == 0


async def test_what_was_shown_last_is_shown():
    """Even where an earlier one takes longer to wrap."""
    app = Program()
    async with app.run_test(size=(40, 15)) as pilot:
        slow = asyncio.create_task(app.rows.show([quoted("slow " * 100_000)]))
        await asyncio.sleep(0)
        await app.rows.show([quoted("quick")])
        await slow
        await pilot.pause()
        assert "quick" in app.text
        assert len(app.rows.document) == 1


async def test_the_queue_shows_where_one_is():
    """However long it is."""
    app = Program()
    async with app.run_test(size=(40, 15)) as pilot:
        app.view.show([Entry("", "head"), *(Entry(str(at), f"ask {at}", at, 100.0) for at in range(200))], words("en"))
        assert app.view.ids[:2] == ["0", "1"]
        app.view.choose("150")
        await pilot.pause()
        assert "▸ !150    0 s ask 150" in app.text
        app.view.choose("nothing")
        await pilot.pause()
        assert "▸" not in app.text


async def test_the_queue_tells_what_is_wanted():
    """By arrows and by the mouse; the head of a group is nothing to choose."""
    app = Program()
    async with app.run_test(size=(40, 15)) as pilot:
        app.view.show([Entry("", "head"), Entry("1", "ask")], words("en"))
        app.view.focus()
        await pilot.press("up", "down")
        for line in (0, 1, 3):
            await pilot.click("#queue", offset=(3, line))
        assert app.told == [-1, 1, "1"]


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


@pytest.mark.parametrize("text", ["plain", "\u4dc0" * 60, f"\u6c49\u5b57 {FAMILY}" * 9, "e\u0301" * 60, ""])
@pytest.mark.parametrize("width", [0, 7, 40])
def test_a_row_takes_the_cells_it_has(text: str, width: int):
    """As terminals count them, hexagrams and emoji included: what stands beside it keeps its place."""
    assert cells_of(fitted(text, width)) == width


async def test_hexagrams_do_not_push_the_frame():
    """In the list and in the request."""
    async with asking() as desk:
        await desk.ask("\u4dc0" * 300)
        async with reviewing(desk.store, size=(110, 24)) as review:
            await review.sees("\u2502 \u4dc0")
            for row in lines(review.app):
                before, border, _ = row.partition("\u2502")
                assert not border or cells_of(before) == 39, row
