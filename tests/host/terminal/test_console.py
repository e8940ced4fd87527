"""Questions and answers on a terminal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from antiphon.host.terminal import console as module
from antiphon.host.terminal.console import PROMPT, Console
from antiphon.host.terminal.tty import Tty
from tests.host.terminal.screenful import Screenful, screenful

KEYS = {"a": "approve", "d": "deny"}


@contextlib.contextmanager
def console(*, pause: float = 0, echo: bool = True) -> Iterator[tuple[Screenful, Console]]:
    """Sit down at a terminal."""
    with screenful(echo=echo) as person, contextlib.closing(Tty(person.path)) as terminal:
        yield person, Console(terminal, color=False, pause=pause)


async def test_a_choice_is_one_of_its_keys():
    """Anything else is asked again; capitals are keys of their own."""
    with console() as (person, at):
        asked = asyncio.create_task(at.choose(KEYS))
        await person.expect(" [a] approve  [d] deny ")
        await person.expect(PROMPT)
        person.type("A\n")
        await person.expect("Type one of a, d and Enter.")
        await person.expect(PROMPT)
        person.type(" d \n")
        assert await asked == "d"


async def test_ctrl_d_is_no_choice():
    """The caller decides what that means."""
    with console() as (person, at):
        asked = asyncio.create_task(at.choose(KEYS))
        await person.expect(PROMPT)
        person.type("\x04")
        assert await asked is None


@pytest.mark.parametrize("end", [".\n", "\x04"])
async def test_a_text_ends_with_a_dot_or_ctrl_d(end: str):
    """Empty lines within belong to it."""
    with console() as (person, at):
        asked = asyncio.create_task(at.text("Write."))
        await person.expect("Write. End with")
        person.type(f"one\n\n. two\n{end}")
        assert await asked == "one\n\n. two"


async def test_a_line_that_may_be_cut_is_pointed_out():
    """The terminal itself says nothing."""
    with console(echo=False) as (person, at):
        asked = asyncio.create_task(at.text("Write."))
        await person.expect("Ctrl-D.")
        person.type("x" * 4200 + "\n")
        await person.expect("may have cut it")
        person.type(".\n")
        assert len(await asked) == 4095


async def test_a_mistaken_paste_is_not_taken(monkeypatch: pytest.MonkeyPatch):
    """Whole or not at all."""
    monkeypatch.setattr(module, "_MAX_TYPED", 10)
    with console() as (person, at):
        asked = asyncio.create_task(at.text("Write."))
        await person.expect("Ctrl-D.")
        person.type("12345\n12345\n.\n")
        assert await asked == ""
        await person.expect("more than 10 characters: nothing was taken")


async def test_many_rows_let_others_run():
    """A long text is shown in pieces."""
    with console() as (person, at):
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        reading = asyncio.create_task(person.expect("row 1999\n"))
        await at.show(f"row {number}" for number in range(2000))
        await reading
        task.cancel()
        assert turns >= 9


async def test_keys_pressed_before_the_question_do_not_count():
    """What was typed for the last request must not decide the next one."""
    with console(pause=0.01) as (person, at):
        person.type("a\n")
        await at.arm()
        asked = asyncio.create_task(at.choose(KEYS))
        await person.expect(PROMPT)
        person.type("d\n")
        assert await asked == "d"


@pytest.mark.parametrize(
    ("environment", "color", "painted"),
    [
        ({"TERM": "xterm"}, None, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, None, False),
        ({"TERM": "dumb"}, None, False),
        ({"TERM": "dumb"}, True, True),
    ],
)
async def test_colour_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict, color: bool | None, painted: bool
):
    """Unless the caller knows better."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with screenful() as person, contextlib.closing(Tty(person.path)) as terminal:
        assert Console(terminal, color=color, pause=0).layout.color == painted
