"""Where everything is on the screen."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from antiphon.cli.screen.panes import Panes
from antiphon.cli.screen.words import words


class Program(App[None]):
    """The panes alone."""

    def __init__(self) -> None:
        super().__init__(ansi_color=True)
        self.panes = Panes(lambda: 0.0)

    def compose(self) -> ComposeResult:
        """Lay them out."""
        yield self.panes


@pytest.mark.parametrize(
    ("size", "queue", "request_pane"),
    [
        ((120, 40), (38, 37), (79, 35)),
        ((80, 24), (80, 5), (80, 13)),
        ((40, 12), (40, 0), (40, 8)),
        ((120, 12), (38, 9), (79, 7)),
    ],
)
async def test_the_room_is_shared_by_how_much_there_is(size, queue, request_pane):
    """Beside each other, one below the other, or one alone."""
    app = Program()
    async with app.run_test(size=size) as pilot:
        app.panes.fit(*size)
        app.panes.list([], 7, words("en"))
        app.panes.say("[b]told[/b]")
        app.panes.head(None, None, 0.0, words("en"), dead=())
        await pilot.pause()
        text = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert "[b]told[/b]" in text
        assert ("Queue: 7" in text) == (queue[1] > 0)
        assert "? Keys  q Quit" in text
        outer = app.panes.queue.outer_size, app.panes.rows.outer_size
        assert abs(outer[0].width - queue[0]) <= 2 and abs(outer[0].height - queue[1]) <= 2
        assert abs(outer[1].width - request_pane[0]) <= 2 and abs(outer[1].height - request_pane[1]) <= 2
        app.panes.add_class("on-queue")
        await pilot.pause()
        assert app.panes.queue.outer_size.height > 0
