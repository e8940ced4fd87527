"""The person's editor, as the screen uses it."""

from __future__ import annotations

import pytest
from textual.app import App

from antiphon.cli.screen.editor import edit_answer, edit_request, in_editor
from tests.host.asks import request


def editor(*outcomes):
    """Make an editor that leaves these, one after the other, and its list of what it was given."""
    seen: list[str] = []

    async def edit(text: str) -> str:
        seen.append(text)
        outcome = outcomes[len(seen) - 1]
        return outcome(text) if callable(outcome) else outcome

    return edit, seen


async def test_a_mistake_opens_the_editor_again():
    """With the mistake at the top, until it is a request."""
    edit, seen = editor("nonsense", lambda text: text.replace("nonsense", "more nonsense"), lambda text: seen[0])
    params = request("x")
    assert await edit_request(params, params, edit) == params
    assert seen[1].startswith("# Mistake: not a valid form")
    assert "more nonsense" in seen[2]


async def test_the_same_mistake_twice_is_given_up():
    """With the mistake named."""
    edit, seen = editor("nonsense", lambda text: text)
    params = request("x")
    with pytest.raises(ValueError, match="not a valid form"):
        await edit_request(params, params, edit)
    assert len(seen) == 2


async def test_a_request_that_is_none_is_a_mistake():
    """By the rules that hold for servers."""
    edit, _ = editor(lambda text: text.replace('role = "user"', 'role = "system"'), lambda text: text)
    params = request("x")
    with pytest.raises(ValueError, match="role"):
        await edit_request(params, params, edit)


async def test_an_answer_has_marks_for_what_nobody_sees():
    """Which are characters again; the editor's last line end does not count."""
    edit, seen = editor(lambda text: f"{text}!\n")
    assert await edit_answer("a\u202eb", edit) == "a\u202eb!"
    assert seen == ["a\u27e6U+202E\u27e7b"]


async def test_where_there_is_no_editor_that_is_said(monkeypatch):
    """Or where the terminal cannot be given away."""
    monkeypatch.setattr("antiphon.cli.screen.editor.find_editor", lambda: None)
    app: App[None] = App()
    with pytest.raises(ValueError, match=r"set \$VISUAL or \$EDITOR"):
        await in_editor(app)("x")
    monkeypatch.setattr("antiphon.cli.screen.editor.find_editor", lambda: "true")
    async with app.run_test():
        with pytest.raises(ValueError, match="cannot be given"):
            await in_editor(app)("x")
