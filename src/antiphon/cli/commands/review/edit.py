"""Editing a request in the person's editor, until it can be sent, is unchanged, or is given up.

Owns the order of editing, errors, differences and consent. The host's ``terminal.edit_form`` has the form.
"""

from __future__ import annotations

import sys
from contextlib import closing

from antiphon.cli.commands.review.answer import show_in_person
from antiphon.cli.commands.review.list import layout
from antiphon.cli.commands.review.rows import changes
from antiphon.cli.failures import Failed
from antiphon.cli.output.formats import write_line
from antiphon.errors import ConfigError, InvalidParams
from antiphon.host.checks.validate import validate
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.question import Question
from antiphon.host.review.review import Edit, ReviewItem, digest
from antiphon.host.terminal.console import Console
from antiphon.host.terminal.edit_form import edit, find_editor, from_form, to_form
from antiphon.host.terminal.tty import find_terminal, open_terminal
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["edited"]

_MISTAKE = "# Mistake: "


async def edited(question: Question, item: ReviewItem, *, yes: bool, model: str | None = None) -> Edit:
    """Let the person edit a request, and return the decision to send the result.

    ``yes``: send it without asking again. ``model``: another one of those that may answer.

    Raises:
        ConfigError: there is no editor, or nobody to ask whether it may be sent.
        Failed: nothing was changed, or the person gave up.
    """
    editor, terminal = find_editor(), find_terminal()
    if editor is None:
        raise ConfigError("there is no editor: set $VISUAL or $EDITOR")
    if terminal is None and not yes:
        raise ConfigError("there is no terminal to ask you at; --yes sends what the editor leaves, of an ID:HASH")
    if terminal is not None and not yes:
        await show_in_person(question)
    params = item.params
    while True:
        params = await _session(params, item.params, editor, terminal)
        if params == item.params:
            raise Failed("nothing was changed, and nothing was decided")
        # On standard error, because only the outcome goes into a pipe.
        for row in changes(item.params, params, layout()):
            write_line(row, sys.stderr)
        if yes or (terminal and await _agreed(terminal)):
            return Edit(params=params, digest=digest(params), model=model)


async def _session(
    params: CreateMessageRequestParams, original: CreateMessageRequestParams, editor: str, terminal: str | None
) -> CreateMessageRequestParams:
    """Open the editor, again with the error at the top as long as there is one."""
    form = to_form(params)
    while True:
        try:
            text = _without_mistake(await edit(form, editor, terminal))
        except ValueError as error:
            raise Failed(f"nothing was decided: {error}") from None
        try:
            read = from_form(text, original)
            validate(read)
        except (ValueError, InvalidParams) as error:
            if text == _without_mistake(form):
                # The same text again: the person, or the script, has nothing to add.
                raise Failed(f"nothing was decided: {error}") from None
            write_line(f"not taken: {inert_line(str(error))}", sys.stderr)
            form = f"{_MISTAKE}{inert_line(str(error))}\n{text}"
        else:
            return read


async def _agreed(terminal: str) -> bool:
    """Ask whether it may be sent; ``False`` to continue editing.

    Raises:
        Failed: the person gave up.
    """
    with closing(open_terminal(terminal)) as tty:
        console = Console(tty, color=None, pause=0.0)
        key = await console.choose({"s": "send this", "e": "edit again", "q": "quit: decide nothing"})
    if key in ("q", None):
        raise Failed("nothing was decided")
    return key == "s"


def _without_mistake(form: str) -> str:
    return form.partition("\n")[2] if form.startswith(_MISTAKE) else form
