"""Elicitation: a server asks the client's user to fill in a form or to visit an address (from 2025-06-18)."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any, Literal, Self, cast

from msgspec import field
from msgspec.structs import replace

from antiphon.wire.common import Meta, NotificationParams, RequestParams, Wire

ElicitAction = Literal["accept", "decline", "cancel"]
ElicitValue = str | int | float | bool | list[str]

CONFIRM_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Yes, do it"}},
    "required": ["confirm"],
}
"""The form by which a tool asks whether its call may run."""
_LONGEST_VALUE = 200


def shorten_value(value: object) -> str:
    """Write an argument as it stands in the question whether a call may run."""
    text = str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def write_question(question: str, values: Mapping[str, Any]) -> str | None:
    """Fill in the question whether a call may run, as its server declares it: with names of arguments in braces.

    Returns ``None`` if it has anything else in braces, or a name without a value.
    """
    parts = list[str]()
    try:
        for text, name, layout, conversion in string.Formatter().parse(question):
            parts.append(text)
            if name is not None:
                if layout or conversion:
                    return None
                parts.append(shorten_value(values[name]))
    except (KeyError, ValueError):
        return None
    return "".join(parts)


class ElicitRequestParams(RequestParams, frozen=True, kw_only=True):
    """Params of ``elicitation/create``.

    This is ``ElicitRequestFormParams`` and ``ElicitRequestURLParams`` of the schema in one type, because "a missing
    mode means form". A form has ``requested_schema``, an object with flat properties. A visit has ``url`` and, at
    2025-11-25 only, ``elicitation_id``.
    """

    message: str
    mode: Literal["form", "url"] = "form"
    requested_schema: dict[str, Any] | None = None
    url: str | None = None
    elicitation_id: str | None = None

    def __post_init__(self) -> None:
        if self.mode == "form" and self.requested_schema is None:
            raise ValueError("Object missing required field `requestedSchema`")
        if self.mode == "url" and self.url is None:
            raise ValueError("Object missing required field `url`")

    @classmethod
    def form(cls, message: str, requested_schema: dict[str, Any]) -> Self:
        """Make a form.

        Args:
            message: what is asked and why, for the user.
            requested_schema: JSON Schema of an object with flat properties.
        """
        return cls(message=message, requested_schema=requested_schema)

    @classmethod
    def visit(cls, message: str, url: str, *, elicitation_id: str | None = None) -> Self:
        """Make a request to visit an address; what happens there does not pass through the client.

        Args:
            message: what the visit is for, for the user.
            url: the address.
            elicitation_id: names the visit (2025-11-25 only).
        """
        return cls(message=message, mode="url", url=url, elicitation_id=elicitation_id)


class ElicitResult(Wire, frozen=True, kw_only=True):
    """What the user did. ``content`` has the values of a form that was accepted."""

    action: ElicitAction
    content: dict[str, ElicitValue] | None = None
    meta: Meta | None = field(name="_meta", default=None)


def drop_refused(result: ElicitResult) -> ElicitResult:
    """Return a result without the values of a form that was not accepted, and without members that are ``None``."""
    content = cast("dict[str, Any]", result.content or {})
    if result.action == "accept" and None not in content.values():
        return result
    given = {name: value for name, value in content.items() if value is not None}
    return replace(result, content=given if result.action == "accept" else None)


class ElicitationCompleteNotificationParams(NotificationParams, frozen=True, kw_only=True):
    """Params of ``notifications/elicitation/complete`` (2025-11-25 only)."""

    elicitation_id: str
