"""Messages formatted for people. ``transports.recording`` records them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from antiphon.transports.recording import Message

LEGEND = "→ from us to the server   ← from the server to us"

_LONGEST_TEXT = 100
"""Most characters of one text in a line."""
_LONGEST_BODY = 360
"""Most characters of a body: four rows of a terminal."""


def format_message(message: Message) -> str:
    """Format a message as one line: an arrow, its kind, its id, a short body."""
    arrow = "→" if message.direction == "sent" else "←"
    what = {"result": "result of ", "error": "error for ", "unreadable": "unreadable"}.get(message.kind, "")
    number = "" if message.id is None else f" #{message.id}"
    name = message.method or ("an unknown request" if message.kind in ("result", "error") else "")
    return f"{arrow} {what}{name}{number}  {_shorten_body(message.body)}".rstrip()


def _shorten_body(body: object) -> str:
    if body is None:
        return ""
    if isinstance(body, str):
        return _cut_text(body, _LONGEST_BODY)
    return _cut_text(msgspec.json.encode(_abridge_value(body)).decode(), _LONGEST_BODY)


def _abridge_value(value: object) -> object:
    """Shorten long texts, and leave out what every message of the newest revision repeats."""
    if isinstance(value, str):
        return _cut_text(value, _LONGEST_TEXT)
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        # Anyone who has the state of a request can continue the call, so it is not shown.
        return {
            key: f"<{len(member)} characters>"
            if key == "requestState" and isinstance(member, str)
            else _abridge_value(member)
            for key, member in members.items()
            if key != "_meta"
        }
    if isinstance(value, list):
        return [_abridge_value(member) for member in cast("list[object]", value)]
    return value


def _cut_text(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
