"""Forms and addresses at the terminal."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from antiphon.host.terminal.console import PROMPT, Console
from antiphon.host.terminal.form import fill_in, visit
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
URL = ElicitRequestParams.visit("Pay", "https://shop.example/pay")


async def played(asking, *moves: tuple[str, str]) -> tuple[ElicitResult, str]:
    """Sit at a terminal and type each text when its prompt appears."""
    with screenful() as person, contextlib.closing(Tty(person.path)) as terminal:
        task = asyncio.create_task(asking(Console(terminal, color=False, pause=0)))
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
        (PROMPT, "f\n"),
        ("value> ", "x\n"),
        ("value> ", "Ada\n"),
        ("value> ", "\n"),
        ("value> ", "-\n"),
        ("value> ", "2\n"),
        (PROMPT, "s\n"),
    )
    assert result == ElicitResult(action="accept", content={"name": "Ada", "age": 30, "color": "b"})
    assert "Not taken: at least 2 characters." in seen
    assert "As⟦U+001B⟧[2J on paper" in seen
    assert "takes 30" in seen
    assert "Blue (b)" in seen
    assert seen.index("This will be sent:") > seen.index("Blue (b)")


@pytest.mark.parametrize(("key", "action"), [("d\n", "decline"), ("c\n", "cancel"), ("\x04", "cancel")])
async def test_a_form_can_be_refused(key: str, action: str):
    """Declined on purpose, or left for later."""
    result, _ = await played(lambda at: fill_in(at, FORM), (PROMPT, key))
    assert result == ElicitResult(action=action)


async def test_a_form_can_be_broken_off_and_begun_again():
    """Ctrl-D in a field goes back to the question."""
    result, _ = await played(lambda at: fill_in(at, FORM), (PROMPT, "f\n"), ("value> ", "\x04"), (PROMPT, "d\n"))
    assert result == ElicitResult(action="decline")


async def test_a_form_without_fields_is_a_confirmation():
    """One key and it is sent."""
    empty = ElicitRequestParams.form("Sure?", {"type": "object", "properties": {}})
    result, seen = await played(lambda at: fill_in(at, empty), (PROMPT, "f\n"))
    assert result == ElicitResult(action="accept", content={})
    assert "[f] confirm" in seen


@pytest.mark.parametrize(
    ("key", "action", "visited"),
    [
        ("o\n", "accept", [URL.url]),
        ("y\n", "accept", []),
        ("d\n", "decline", []),
        ("c\n", "cancel", []),
        ("\x04", "cancel", []),
    ],
)
async def test_an_address_is_opened_only_on_request(key: str, action: str, visited: list[str]):
    """Every other answer opens nothing."""
    opened: list[str] = []

    async def opener(url: str) -> bool:
        opened.append(url)
        return True

    result, _ = await played(lambda at: visit(at, URL, opener), (PROMPT, key))
    assert result == ElicitResult(action=action)
    assert opened == visited


async def test_an_address_that_is_no_web_page_is_not_ours_to_open():
    """Other schemes start programs."""
    mail = ElicitRequestParams.visit("Open", "vscode://run?command=rm")
    result, seen = await played(lambda at: visit(at, mail, lambda url: pytest.fail("opened")), (PROMPT, "d\n"))
    assert result == ElicitResult(action="decline")
    assert "[o]" not in seen


async def test_a_browser_that_does_not_open_is_said():
    """The person can still go there."""

    async def opener(url: str) -> bool:
        return False

    result, seen = await played(lambda at: visit(at, URL, opener), (PROMPT, "o\n"))
    assert result.action == "accept"
    assert "No browser could be opened" in seen
