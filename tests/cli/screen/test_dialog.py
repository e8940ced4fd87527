"""A form over the screen."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.widgets import Input, OptionList, TextArea

from antiphon.cli.screen.dialog import Asked, Choice, Dialog
from antiphon.cli.screen.words import words
from antiphon.host.review.decisions import Form, Refused

EVIL = "[red]x[/red] [@click=app.quit]y[/] \x1b[2J"
INERT = "[red]x[/red] [@click=app.quit]y[/] \u27e6U+001B\u27e7[2J"
FIELDS = [
    Asked("note", "note", f"Mind: {EVIL}"),
    Asked("line", "line", EVIL, "first"),
    Asked("text", "text", "Text", "two\nlines"),
    Asked("one", "one", "One", "b", [Choice("a", EVIL), Choice("b", "B")]),
    Asked("many", "many", "Many", "", [Choice(EVIL, EVIL), Choice("y", "Y")], ["y"]),
]


def check(form: Form) -> dict[str, list[str]]:
    """Take anything but nothing."""
    if not form("line"):
        raise Refused("problem.field", "line: [bold]empty[/bold]")
    return {name: form.all(name) for name in ("line", "text", "one", "many")}


class Program(App[None]):
    """Asks, and keeps the answer."""

    def __init__(self, fields=FIELDS) -> None:
        super().__init__(ansi_color=True)
        self.dialog = Dialog(EVIL, fields, check, words("en"), send="Send [b]it[/b]")
        self.ended: list[Any] = []

    def on_mount(self) -> None:
        """Ask."""
        self.push_screen(self.dialog, self.ended.append)

    @property
    def text(self) -> str:
        """All that is on the terminal."""
        return "\n".join(strip.text for strip in self.screen._compositor.render_strips())


async def test_no_word_is_taken_for_markup():
    """Title, labels, notes, choices, buttons, problems: all is text, and inert."""
    app = Program()
    async with app.run_test(size=(80, 60)) as pilot:
        await pilot.pause()
        assert app.text.count(INERT) == 5
        assert "Send [b]it[/b]" in app.text
        app.screen.query_one(Input).value = ""
        await pilot.press("ctrl+s")
        assert "This does not fit: line: [bold]empty[/bold]" in app.text
        assert app.ended == []


async def test_what_was_there_is_sent_as_it_was():
    """Where nothing was changed."""
    app = Program()
    async with app.run_test(size=(80, 60)) as pilot:
        await pilot.press("ctrl+s")
        await pilot.pause()
    assert app.ended == [{"line": ["first"], "text": ["two\nlines"], "one": ["b"], "many": ["y"]}]


async def test_keys_go_through_the_fields():
    """Enter to the next field, Tab as well; space or Enter ticks; the end is a button, or ^S."""
    app = Program()
    async with app.run_test(size=(80, 60)) as pilot:
        await pilot.pause()
        assert app.focused is app.screen.query_one(Input)
        await pilot.press("X", "enter")
        assert app.focused is app.screen.query_one(TextArea)
        await pilot.press("tab", "up")
        assert f"(•) {INERT}" in app.text
        await pilot.press("enter", "enter")
        assert f"▸ [x] {INERT}" in app.text
        await pilot.press("down", "space")
        assert "▸ [ ] Y" in app.text
        await pilot.press("tab", "enter")
        await pilot.pause()
    assert app.ended == [{"line": ["firstX"], "text": ["two\nlines"], "one": ["a"], "many": [EVIL]}]


async def test_escape_and_the_button_beside_it_go_back():
    """And nothing is sent."""
    for click in (False, True):
        app = Program()
        async with app.run_test(size=(80, 60)) as pilot:
            await pilot.pause()
            await (pilot.click("#back") if click else pilot.press("escape"))
            await pilot.pause()
        assert app.ended == [None]


async def test_a_single_choice_is_taken_with_enter():
    """As there is nothing else to ask."""
    app = Program([Asked("line", "one", "", "b", [Choice("a", "A"), Choice("b", "B")])])
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        assert isinstance(app.focused, OptionList)
        await pilot.press("up", "enter")
        await pilot.pause()
    assert app.ended == [{"line": ["a"], "text": [], "one": [], "many": []}]


async def test_a_long_form_fits_a_small_terminal():
    """It scrolls with what is being filled in."""
    app = Program()
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        assert "first" in app.text
        for _ in range(4):
            await pilot.press("tab")
        await pilot.pause()
        assert "Send [b]it[/b]" in app.text


async def test_a_thousand_choices_are_no_burden():
    """As many as a form may have."""
    many = [Choice(str(at), f"Country {at}") for at in range(1000)]
    app = Program([Asked("line", "one", "Where", "999", many)])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "(•) Country 999" in app.text
        await pilot.press("ctrl+s")
        await pilot.pause()
    assert app.ended[0]["line"] == ["999"]
