"""Forms and addresses at the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Any

import pytest

from antiphon.host.review.texts import Texts, texts
from antiphon.host.terminal.console import PROMPT, Console
from antiphon.host.terminal.form import fill_in, may_open, open_address, read_address
from antiphon.host.terminal.request_text import ENGLISH
from antiphon.host.terminal.tty import Tty
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from tests.host.terminal.screenful import screenful

FORM = ElicitRequestParams.form(
    "Who?",
    {
        "type": "object",
        "required": ["name", "color"],
        "properties": {
            "name": {"type": "string", "title": "Your name", "minLength": 2, "description": "As\x1b[2J on paper"},
            "age": {"type": "integer", "default": 30},
            "ok": {"type": "boolean", "default": True},
            "color": {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]},
        },
    },
)


async def played(asking, *moves: tuple[str, str], words: Texts = ENGLISH) -> tuple[Any, str]:
    """Sit at a terminal and type each text when its prompt appears."""
    with screenful() as person, contextlib.closing(Tty(person.path)) as terminal:
        task = asyncio.create_task(asking(Console(terminal, color=False, pause=0, words=words)))
        for prompt, typed in moves:
            await person.expect(prompt)
            person.type(typed)
        result = await task
        person.read_rest()
        return result, person.seen


async def test_fields_are_asked_one_after_another():
    """With types, choices and defaults; what does not fit is asked again; the whole is shown before it goes."""
    result, seen = await played(
        lambda at: fill_in(at, FORM),
        ("value> ", "x\n"),
        ("value> ", "Ada\n"),
        ("value> ", "=\n"),
        ("value> ", "-\n"),
        ("value> ", "2\n"),
        (PROMPT, "a\n"),
    )
    assert result == ElicitResult(action="accept", content={"name": "Ada", "age": 30, "color": "b"})
    assert "Not taken: at least 2 characters." in seen
    assert "As⟦U+001B⟧[2J on paper" in seen
    assert "the server suggests: 30 (= takes it)" in seen
    assert "Blue (b)" in seen
    assert seen.index("This will be sent:") > seen.index("Blue (b)")


@pytest.mark.parametrize(
    ("typed", "taken"),
    [(["Ada", "", "", "2"], {}), (["Ada", "==", "2"], {"age": 30, "ok": True}), (["Ada", "", "=", "2"], {"ok": True})],
)
async def test_nothing_that_a_server_suggests_is_taken_by_an_empty_line(typed: list[str], taken: dict[str, object]):
    """One key takes a suggestion, another one all of them; what is taken is shown before it is sent."""
    result, seen = await played(
        lambda at: fill_in(at, FORM), *(("value> ", f"{line}\n") for line in typed), (PROMPT, "a\n")
    )
    assert result.content == {"name": "Ada", "color": "b", **taken}
    sent = seen[seen.index("This will be sent:") :]
    assert ("age = 30" in sent, "ok = yes" in sent) == ("age" in taken, "ok" in taken)


async def test_a_form_is_asked_in_the_person_s_language():
    """Only what the server wrote stays as it is."""
    chinese = texts("zh")
    result, seen = await played(
        lambda at: fill_in(at, FORM, chinese),
        ("值> ", "x\n"),
        ("值> ", "Ada\n"),
        ("值> ", "=\n"),
        ("值> ", "-\n"),
        ("值> ", "2\n"),
        ("决定> ", "a\n"),
        words=chinese,
    )
    assert result == ElicitResult(action="accept", content={"name": "Ada", "age": 30, "color": "b"})
    words = re.sub("name|age|ok|color|Name|Ada|Red|Blue|As|on paper|Enter|U|B|J|r|b", "", seen)
    assert not re.search("[A-Za-z]{4,}", words), words


@pytest.mark.parametrize("moves", [[("value> ", "\x04")], [("value> ", "Ada\n"), ("value> ", "\x04")]])
async def test_a_form_can_be_broken_off(moves: list[tuple[str, str]]):
    """Ctrl-D in a field decides nothing."""
    result, _ = await played(lambda at: fill_in(at, FORM), *moves)
    assert result is None


async def test_a_form_is_filled_in_again():
    """Before it is sent; or it is left."""
    name = ElicitRequestParams.form("Who?", {"properties": {"name": {"type": "string"}}, "required": ["name"]})
    again = (("value> ", "Ada\n"), (PROMPT, "e\n"), ("value> ", "Eve\n"))
    result, _ = await played(lambda at: fill_in(at, name), *again, (PROMPT, "a\n"))
    assert result == ElicitResult(action="accept", content={"name": "Eve"})
    result, _ = await played(lambda at: fill_in(at, name), *again, (PROMPT, "c\n"))
    assert result is None


async def test_a_form_without_fields_is_a_confirmation():
    """One key and it is sent."""
    empty = ElicitRequestParams.form("Sure?", {"type": "object", "properties": {}})
    result, _ = await played(lambda at: fill_in(at, empty), (PROMPT, "a\n"))
    assert result == ElicitResult(action="accept", content={})


@pytest.mark.parametrize(
    ("url", "opened", "seen"),
    [
        ("https://shop.example/pay", True, ""),
        ("https://shop.example/pay", False, "No browser could be opened"),
        ("vscode://run?command=rm", True, "No browser could be opened"),
    ],
)
async def test_only_web_pages_are_opened(url: str, opened: bool, seen: str):
    """Other schemes start programs; where no browser opens, the person can still go there."""
    asked: list[str] = []

    async def opener(address: str) -> bool:
        asked.append(address)
        return opened

    _, said = await played(lambda at: open_address(at, url, opener))
    assert seen in said
    assert asked == ([url] if may_open(url) else [])


async def test_a_long_address_is_shown_a_screen_at_a_time():
    """To its end, or until the person turns away."""
    url = "https://shop.example/" + "x" * 3000
    read, seen = await played(lambda at: read_address(at, url), *[("more> ", "\n")] * 2)
    assert read and seen.count("x") >= 3000
    read, _ = await played(lambda at: read_address(at, url), ("more> ", "\x04"))
    assert not read
