"""Questions to the person at the terminal: shows what a command would allow, and reads answers.

Owns when a person is asked; the host's ``terminal`` asks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from antiphon.cli.commands.review.decide import answer_of
from antiphon.cli.commands.review.find import listed, named_as_listed
from antiphon.cli.commands.review.rows import draw
from antiphon.cli.failures import Failed
from antiphon.errors import ConfigError
from antiphon.host.review.keymap import key_for, label
from antiphon.host.review.question import Question
from antiphon.host.review.review import Answer, ElicitItem
from antiphon.host.terminal.console import Console, folded
from antiphon.host.terminal.form import fill_in
from antiphon.host.terminal.layout import Layout
from antiphon.host.terminal.request_text import ENGLISH
from antiphon.host.terminal.tty import find_terminal, open_terminal
from antiphon.wire.elicitation import ElicitResult

__all__ = ["agree_in_person", "check_named", "fill_in_person", "show_in_person"]


async def agree_in_person(questions: Sequence[Question], ids: Sequence[str], verb: str) -> None:
    """Show what would be allowed, and ask for each question whether it may be; ``verb`` names the action.

    No confirmation is needed for a question whose id was typed together with the hash of its content, which a list in a
    pipe and ``show`` print.

    Raises:
        ConfigError: there is no terminal to show it at.
        Failed: the person does not agree.
    """
    for question in questions:
        if not named_as_listed(question, ids):
            await _agree(question, verb)


async def show_in_person(question: Question) -> None:
    """Show a question at the terminal before it is worked on.

    Raises:
        ConfigError: there is no terminal to show it at.
    """
    with _conversation(question) as console:
        await console.show(draw(question, console.layout, question.created))


def check_named(question: Question, ids: Sequence[str]) -> None:
    """Check that a question was named together with the hash of its content, since nobody will be asked.

    Raises:
        ConfigError: it was not.
    """
    if not named_as_listed(question, ids):
        raise ConfigError(_REMEDY.format(id=question.id))


async def _agree(question: Question, verb: str) -> None:
    with _conversation(question) as console:
        keys = {"a": verb, "c": ENGLISH("edit.back")}
        if isinstance(question.item, ElicitItem):
            # The end of an address is where it can deceive.
            seen = await console.show_to_the_end(_rows(question, console.layout), ENGLISH("form.more"))
            agreed = seen and await console.choose(keys) == "a"
        else:
            agreed = await _agreed(question, console, keys)
    if not agreed:
        raise Failed(f"{listed(question)}: nothing was decided")


async def _agreed(question: Question, console: Console, keys: Mapping[str, str]) -> bool:
    """Show a request, with long texts folded if it does not fit, and ask."""
    fold = key_for("fold", "inline")
    layout = folded(console, lambda layout: _rows(question, layout), ENGLISH("fold.inline", press=fold.keys[0]))
    await console.show(_rows(question, layout))
    if layout.fold:
        keys = {**keys, fold.keys[0]: label(fold, ENGLISH)}
    unopened = {"a"} if layout.fold else set[str]()
    while (key := await console.choose(keys, unopened)) == fold.keys[0]:
        unopened.clear()
        await console.show(_rows(question, console.layout))
    return key == "a"


def _rows(question: Question, layout: Layout) -> Iterator[str]:
    return draw(question, layout, time.time())


_REMEDY = (
    "{id}: what passes is what was seen: antiphon review show {id} prints it together with its ID:HASH; give that "
    "instead of the id"
)


@contextmanager
def _conversation(question: Question) -> Generator[Console]:
    terminal = find_terminal() if sys.stdin.isatty() else None
    if terminal is None:
        raise ConfigError(_REMEDY.format(id=question.id))
    with closing(open_terminal(terminal)) as tty:
        yield Console(tty, color=None, pause=0.0)


async def fill_in_person(question: Question) -> Answer | ElicitResult:
    """Ask the person at the terminal for the answer.

    Raises:
        ConfigError: there is no terminal.
        Failed: the person broke off.
    """
    terminal = find_terminal()
    if terminal is None:
        raise ConfigError("there is no terminal to ask you at: give the answer, or - for standard input")
    with closing(open_terminal(terminal)) as tty:
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
