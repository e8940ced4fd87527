"""The program around the screen."""

from __future__ import annotations

import asyncio
import io

import pytest
from textual.worker import WorkerFailed

from antiphon.cli.screen.program import ReviewApp
from antiphon.cli.screen.stage import Setting
from antiphon.host import MemoryStore
from tests.cli.screen.reviewing import asking, reviewing


async def test_a_mistake_of_ours_ends_it_without_the_prompts(monkeypatch):
    """Textual would print the variables of every frame; whoever started it says what went wrong."""
    printed = io.StringIO()
    async with asking() as desk:
        await desk.ask("a secret prompt")
        app = ReviewApp(Setting(store=desk.store, by="ada"))
        monkeypatch.setattr(app.error_console, "file", printed)
        with pytest.raises(WorkerFailed, match="ZeroDivisionError"):
            await broken(app)
    assert isinstance(app.failure, WorkerFailed)
    assert app.return_code == 1
    assert printed.getvalue() == ""


async def broken(app: ReviewApp) -> None:
    """Make a mistake."""

    async def fail(id: str) -> None:
        raise ZeroDivisionError

    app.stage.queue.get = fail
    async with app.run_test() as pilot, asyncio.timeout(30):
        while app.failure is None:
            await pilot.pause(0.01)


def test_it_uses_the_terminal_s_own_colours(monkeypatch):
    """On a light background as on a dark one; none where NO_COLOR says so."""
    setting = Setting(store=MemoryStore(), by="ada")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert ReviewApp(setting).native_ansi_color
    assert not ReviewApp(setting).no_color
    monkeypatch.setenv("NO_COLOR", "1")
    assert ReviewApp(setting).no_color


async def test_without_colours_everything_is_still_said(monkeypatch):
    """By signs and places: what is shown, what to look at, what was changed, what is chosen."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with asking() as desk:
        await desk.ask("hidden \u202e text")
        async with reviewing(desk.store) as review:
            await review.sees("▸ !")
            assert "! characters that cannot be seen" in review.text
            strips = review.app.screen._compositor.render_strips()
            styles = [segment.style for strip in strips for segment in strip if segment.style]
            assert all(style.color is None or style.color.is_default for style in styles)
            await review.press("g", sees="(•) this call")
            await review.press("down", sees="(•) this session")


async def test_nothing_of_textual_s_own_is_in_the_way():
    """No palette of commands."""
    async with asking() as desk, reviewing(desk.store) as review:
        await review.pilot.press("ctrl+p")
        assert review.app.screen is review.stage
