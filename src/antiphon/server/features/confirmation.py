"""Confirmation of a call by the user before its tool runs: ``@server.tool(confirm="Delete {count} drafts?")``.

The question is an elicitation of the call itself. So it is bound to the call's tool, arguments and principal, at
2026-07-28 by the sealed state, and its answer counts once. Whatever is not a clear yes refuses the call.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from antiphon.errors import AntiphonError, ConfigError, ToolError
from antiphon.wire.common import CONFIRMS, Meta
from antiphon.wire.elicitation import CONFIRM_FORM, shorten_value
from antiphon.wire.tools import ToolAnnotations

Confirm = str | Callable[..., Any]
"""The question, with the names of arguments in braces; or a function of arguments that returns it, or ``None`` if this
call needs no confirmation. It may be async."""


class Confirmation:
    """The question about each call of one tool.

    Raises:
        ConfigError: the question names an argument that the tool does not have.
    """

    def __init__(self, question: Confirm, parameters: Mapping[str, Any], place: str) -> None:
        self._question = question
        if isinstance(question, str):
            named = {field for _, field, _, _ in string.Formatter().parse(question) if field is not None}
        elif callable(question):
            named = set(inspect.signature(question).parameters)
        else:
            raise ConfigError(f"{place}: confirm= is a question or a function of arguments, not {question!r}")
        if unknown := sorted(named.difference(parameters)):
            raise ConfigError(f"{place}: confirm= names {unknown[0]!r}, which is no argument of the tool")
        self._usual = {name: parameters[name] for name in named}

    async def ask(self, values: Mapping[str, Any], context: Any) -> None:
        """Ask the user of a call.

        Raises:
            ToolError: the user did not confirm it, or cannot be asked.
        """
        if (question := await self._write_question(values)) is None:
            return
        try:
            answer = await context.elicit(question, CONFIRM_FORM)
        except AntiphonError as error:
            raise ToolError(
                f"This tool needs the user's confirmation, and the user could not be asked ({error}). Nothing was done."
            ) from None
        if not answer.accepted or answer.value != {"confirm": True}:
            raise ToolError("The user did not confirm this call. Nothing was done.")

    async def _write_question(self, values: Mapping[str, Any]) -> str | None:
        given = {name: values.get(name, usual) for name, usual in self._usual.items()}
        if isinstance(self._question, str):
            return self._question.format_map({name: shorten_value(value) for name, value in given.items()})
        question = self._question(**given)
        question = await question if inspect.isawaitable(question) else question
        if question is not None and not isinstance(question, str):
            raise ConfigError(f"confirm= returned {type(question).__name__}: return the question, or None")
        return question


def declare_confirmation(
    question: Confirm, annotations: ToolAnnotations | None, meta: Meta | None
) -> tuple[ToolAnnotations, dict[str, Any]]:
    """Return the members of a tool's definition that say that it asks before it runs."""
    hints = annotations or ToolAnnotations()
    if hints.destructive_hint is None and not hints.read_only_hint:
        hints = replace(hints, destructive_hint=True)
    return hints, {**(meta or {}), CONFIRMS: question if isinstance(question, str) else True}
