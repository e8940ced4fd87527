"""Editing a request, or an answer, in the person's editor, while the screen is suspended.

After an error the editor opens again, with the message at the top. The host's ``terminal.edit_form`` has the form,
``terminal.editor`` runs the editor.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from textual.app import App, SuspendNotSupported

from antiphon.errors import InvalidParams
from antiphon.host.checks.validate import validate
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.diff import editable, edited_text
from antiphon.host.terminal.edit_form import from_form, to_form
from antiphon.host.terminal.editor import edit, find_editor
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["Editor", "edit_answer", "edit_request", "in_editor"]

Editor = Callable[[str], Awaitable[str]]
"""Lets a person edit a text, and returns it. Raises ``ValueError`` if that is not possible; the text says why."""
T = TypeVar("T")
_MISTAKE = "# Mistake: "


async def edit_request(
    params: CreateMessageRequestParams, original: CreateMessageRequestParams, editor: Editor
) -> CreateMessageRequestParams:
    """Let a person edit a request until it is valid. ``original`` limits what it may contain.

    Raises:
        ValueError: there is no editor, or the same error was left twice.
    """

    def read(text: str) -> CreateMessageRequestParams:
        made = from_form(text, original)
        try:
            validate(made)
        except InvalidParams as error:
            raise ValueError(error.message) from None
        return made

    return await _until_read(to_form(params), read, editor)


async def edit_answer(text: str, editor: Editor) -> str:
    """Let a person edit an answer. Raises like ``edit_request``."""
    return edited_text(await editor(editable(text))).removesuffix("\n")


def in_editor(app: App[None]) -> Editor:
    """Make the editor of a person at this screen: ``$VISUAL``, ``$EDITOR``, or one that is installed."""

    async def edit_in_person(text: str) -> str:
        command = find_editor()
        if command is None:
            raise ValueError("there is no editor: set $VISUAL or $EDITOR")
        try:
            # The event loop and the updates continue; nothing is drawn over the editor.
            with app.suspend(), app.batch_update():
                return await edit(text, command, None)
        except SuspendNotSupported:
            raise ValueError("this terminal cannot be given to an editor") from None

    return edit_in_person


async def _until_read(form: str, read: Callable[[str], T], editor: Editor) -> T:
    while True:
        text = _without_mistake(await editor(form))
        try:
            return read(text)
        except ValueError as error:
            if text == _without_mistake(form):
                # The same error again: the person has nothing to add.
                raise
            form = f"{_MISTAKE}{inert_line(str(error))}\n{text}"


def _without_mistake(form: str) -> str:
    return form.partition("\n")[2] if form.startswith(_MISTAKE) else form
