"""What looks like a secret: find it, and mask it, in a text or in everything that travels.

Owns the patterns, and what masking means. Whether a direction is masked, blocked or allowed, the ``sampling`` asks.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeVar, cast

import msgspec

from antiphon.host.checks.contents import texts
from antiphon.host.checks.secret_forms import FORMS
from antiphon.wire.envelope import encode
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Finding", "Redaction", "RedactionMode", "find_secrets", "has_secrets", "mask", "masked", "masked_json"]

Asked = TypeVar("Asked", CreateMessageRequestParams, CreateMessageResult)
RedactionMode = Literal["allow", "mask", "block"]
_BINARY = frozenset({"data", "blob"})
"""Members that hold base64: no text, and no vendor's key looks like it."""


class Redaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to what looks like a secret, in each direction. Allowed means: pointed out to whoever reviews."""

    request: RedactionMode = "allow"
    response: RedactionMode = "allow"


class Finding(NamedTuple):
    """One place in a text that looks like a secret; never the secret itself."""

    kind: str
    """What it looks like, for people: ``"AWS access key"``."""
    start: int
    end: int


def find_secrets(text: str) -> list[Finding]:
    """Return the places that look like secrets, in order, without overlaps (the one that starts first wins)."""
    lowered = text.lower()
    possible = [form for form in FORMS if any(sign in lowered for sign in form.signs)]
    matches = [
        Finding(form.kind, *match.span())
        for form in possible
        for match in form.pattern.finditer(text)
        if form.fits is None or form.fits(match.groupdict().get("value") or match[0])
    ]
    found: list[Finding] = []
    # The sort is stable: of two that start together, the earlier form, which is the more particular, is kept.
    for finding in sorted(matches, key=lambda match: match.start):
        if not found or finding.start >= found[-1].end:
            found.append(finding)
    return found


def mask(text: str) -> str:
    """Return the text with everything that looks like a secret replaced by its kind in brackets."""
    parts: list[str] = []
    at = 0
    for finding in find_secrets(text):
        parts += [text[at : finding.start], f"[{finding.kind}]"]
        at = finding.end
    return "".join(parts) + text[at:]


def has_secrets(asked: CreateMessageRequestParams | CreateMessageResult) -> bool:
    """Tell whether any text of it looks like a secret."""
    return any(find_secrets(text) for _, text in texts(asked))


def masked(asked: Asked) -> Asked:
    """Return a request or an answer with every secret in its texts masked."""
    plain = _masked_json(msgspec.json.decode(encode(asked)))
    return msgspec.json.decode(encode(plain), type=type(asked))


def masked_json(value: msgspec.Struct) -> str:
    """Return anything that travels as JSON, with every secret in its texts masked."""
    return encode(_masked_json(msgspec.json.decode(encode(value)))).decode()


def _masked_json(value: Any) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [_masked_json(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _masked_member(name, member) for name, member in members.items()}
    return value


def _masked_member(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return _masked_json(value)
    if name in _BINARY and len(value) > 100:
        return value
    # {"password": "..."}: only together with its name it looks like a secret.
    named = find_secrets(f'{name}: "{value}"')
    return f"[{named[0].kind}]" if named and named[0].start == 0 else mask(value)
