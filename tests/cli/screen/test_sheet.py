"""A document over the screen."""

from __future__ import annotations

from typing import Any

from textual.app import App

from antiphon.cli.screen.drawn.pieces import quoted
from antiphon.cli.screen.key_bindings import Offer
from antiphon.cli.screen.sheet import Sheet, now


class Program(App[None]):
    """Shows a sheet, and keeps the key it ended with."""

    def __init__(self, dead: float) -> None:
        super().__init__(ansi_color=True)
        pieces = [quoted(f"[red]line[/] {number}") for number in range(100)]
        offers = [Offer("a", "Approve"), Offer("e", "Edit on")]
        self.sheet = Sheet("[b]Title[/b]", pieces, offers, back="Back", armed="a", dead=dead)
        self.ended: list[Any] = []

    def on_mount(self) -> None:
        """Show it."""
        self.push_screen(self.sheet, self.ended.append)

    @property
    def text(self) -> str:
        """All that is on the terminal."""
        return "\n".join(strip.text for strip in self.screen._compositor.render_strips())


async def test_it_is_shown_and_scrolled_as_text():
    """Title, rows and keys."""
    app = Program(0.0)
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        assert "[b]Title[/b]" in app.text
        assert "│ [red]line[/] 0" in app.text
        assert "a Approve  e Edit on  Esc Back" in app.text
        await pilot.press("space")
        await pilot.pause()
        assert "│ [red]line[/] 0 " not in app.text


async def test_it_ends_with_a_key_that_is_offered():
    """Or with nothing; other keys do nothing."""
    for key, ended in (("a", "a"), ("e", "e"), ("escape", "")):
        app = Program(0.0)
        async with app.run_test(size=(60, 20)) as pilot:
            await pilot.pause()
            await pilot.press("q", "x", key)
            await pilot.pause()
        assert app.ended == [ended]


async def test_what_lets_something_pass_is_dead_at_first():
    """The rest is not."""
    app = Program(3600.0)
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        await pilot.press("a")
        assert app.ended == []
        await pilot.press("e")
        await pilot.pause()
    assert app.ended == ["e"]


def test_the_clock_is_that_of_the_keys():
    """It goes forward."""
    assert now() <= now()
