"""What looks like a secret: find it, and mask it, in a text or in everything that travels.

Owns the patterns, and what masking means. Whether a direction is masked, blocked or allowed, the ``sampling`` asks.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple, TypeVar, cast

import msgspec

from antiphon.host.checks.contents import texts
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


class _Form(NamedTuple):
    kind: str
    signs: tuple[str, ...]
    """In lower case; a text without any of them cannot match, and that is found out much faster."""
    pattern: re.Pattern[str]


# Each from the vendor's public description of its key format; lengths are minima, so that a cut key is still found.
_FORMS = (
    _Form(
        "private key",
        ("private key",),
        re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY-----(?:[^-]{0,20000}-----END)?"),
    ),
    _Form("AWS access key", ("akia", "asia"), re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    _Form("API key", ("sk-",), re.compile(r"\bsk-[A-Za-z0-9_-]{16,}")),
    _Form("Google API key", ("aiza",), re.compile(r"\bAIza[0-9A-Za-z_-]{35}")),
    _Form(
        "GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    ),
    _Form("Slack token", ("xox",), re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),
    _Form(
        "JSON web token",
        (".eyj",),
        re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ),
    _Form("bearer token", ("bearer",), re.compile(r"\b[Bb]earer\s{1,4}[A-Za-z0-9._~+/=-]{16,}")),
    _Form(
        "password in a URL",
        ("://",),
        re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,100}:[^\s/@]{1,200}@"),
    ),
    _Form(
        "key in a URL",
        ("key=", "token=", "secret=", "password="),
        re.compile(r"(?i)[?&](?:api_?key|access_token|token|key|secret|password)=[^\s&#]{8,}"),
    ),
    _Form(
        "password",
        ("passw", "secret", "key"),
        re.compile(r"(?i)\b(?:password|passwd|secret|api[_-]?key)\b[\"']?\s{0,4}[:=]\s{0,4}[\"']?[^\s\"']{6,}"),
    ),
)


def find_secrets(text: str) -> list[Finding]:
    """Return the places that look like secrets, in order, without overlaps (the one that starts first wins)."""
    lowered = text.lower()
    possible = [form for form in _FORMS if any(sign in lowered for sign in form.signs)]
    matches = [Finding(form.kind, *match.span()) for form in possible for match in form.pattern.finditer(text)]
    found: list[Finding] = []
    # The sort is stable: of two that start together, the earlier pattern, which is the more particular, is kept.
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
