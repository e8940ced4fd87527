"""An answer that is typed at the terminal: a text of several lines, or a form field by field.

Owns when a person is asked; how, is the host's ``terminal``.
"""

from __future__ import annotations

from contextlib import closing

from antiphon.cli.commands.review.decide import answer_of
from antiphon.cli.commands.review.rows import draw
from antiphon.cli.failures import Failed
from antiphon.errors import ConfigError
from antiphon.host.review.queue import Question
from antiphon.host.review.review import Answer, ElicitItem
from antiphon.host.terminal.console import Console
from antiphon.host.terminal.form import fill_in
from antiphon.host.terminal.tty import Tty, find_terminal
from antiphon.wire.elicitation import ElicitResult

__all__ = ["fill_in_person"]


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
