"""An answer that is typed at the terminal: a text of several lines, or a form field by field.

Owns when a person is asked; how, is the host's ``terminal``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing

from antiphon.cli.commands.review.decide import answer_of
from antiphon.cli.commands.review.find import listed, named_as_listed
from antiphon.cli.commands.review.rows import draw
from antiphon.cli.failures import Failed
from antiphon.errors import ConfigError
from antiphon.host.review.queue import Question
from antiphon.host.review.review import Answer, ElicitItem
from antiphon.host.terminal.console import Console
from antiphon.host.terminal.form import fill_in
from antiphon.host.terminal.screen import ENGLISH
from antiphon.host.terminal.tty import Tty, find_terminal
from antiphon.wire.elicitation import ElicitResult

__all__ = ["agree_in_person", "fill_in_person"]


async def agree_in_person(questions: Sequence[Question], ids: Sequence[str]) -> None:
    """Show what servers want of the person before it is accepted: addresses, and forms with the server's answers.

    Nobody need be asked of a question whose id was typed together with the hash of what it shows: a list in a pipe and
    ``show`` print the two beside it.

    Raises:
        ConfigError: there is no terminal to show it at.
        Failed: the person does not accept it.
    """
    for question in questions:
        if isinstance(question.item, ElicitItem) and not named_as_listed(question, ids):
            await _agree(question)


async def _agree(question: Question) -> None:
    terminal = find_terminal() if sys.stdin.isatty() else None
    if terminal is None:
        raise ConfigError(
            f"{question.id}: is accepted as it was seen: antiphon review show {question.id}, and approve it as the "
            f"ID:HASH that it prints"
        )
    with closing(Tty(terminal)) as tty:
        console = Console(tty, color=None, pause=0.0)
        seen = await console.show_to_the_end(draw(question, console.layout, question.created), ENGLISH("form.more"))
        if not seen or await console.choose({"a": "accept", "c": ENGLISH("edit.back")}) != "a":
            raise Failed(f"{listed(question)}: nothing was decided")


async def fill_in_person(question: Question) -> Answer | ElicitResult:
    """Ask the person at the terminal for the answer.

    Raises:
        ConfigError: there is no terminal.
        Failed: the person put it off.
    """
    terminal = find_terminal()
    if terminal is None:
        raise ConfigError("there is no terminal to ask you at: give the answer, or - for standard input")
    with closing(Tty(terminal)) as tty:
        console = Console(tty, color=None, pause=0.0)
        await console.show(draw(question, console.layout, question.created))
        if isinstance(question.item, ElicitItem) and question.item.params.mode == "form":
            result = await fill_in(console, question.item.params)
            if result is None:
                raise Failed("nothing was decided")
            return result
        text = await console.text("Write the answer.")
    if not text.strip():
        raise Failed("an empty answer is none: nothing was decided")
    return answer_of(question, [text])
