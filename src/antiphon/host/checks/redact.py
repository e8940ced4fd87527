"""Finding and masking secrets, in a text or in a whole message.

``secret_forms`` has the patterns; ``pipeline.sampling`` applies the user's choice to mask, block or allow.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from antiphon.host.checks.contents import Leaf, leaves, rewritten
from antiphon.host.checks.option_types import check_options
from antiphon.host.checks.secret_forms import FORMS, is_password, names_password
from antiphon.host.checks.visible import bare
from antiphon.host.providers.embeddings import EmbeddingParams
from antiphon.wire.envelope import encode
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = [
    "Finding", "Redaction", "RedactionMode", "Secret", "find_secrets", "has_secrets", "mask", "masked", "masked_json",
    "secrets_of",
]  # fmt: skip

Asked = TypeVar("Asked", CreateMessageRequestParams, EmbeddingParams, CreateMessageResult)
RedactionMode = Literal["allow", "mask", "block"]
_SIGNS = tuple((sign, form) for form in FORMS for sign in form.signs)
_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_NUMBER = re.compile(r"(.*)\[(\d{1,9})\]\.text", re.DOTALL)


class Redaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to secrets in each direction. With "allow" they are only pointed out to the reviewer."""

    request: RedactionMode = "allow"
    response: RedactionMode = "allow"

    def __post_init__(self) -> None:
        check_options(self)


class Finding(NamedTuple):
    """One place in a text that looks like a secret, without the secret itself."""

    kind: str
    """What it looks like, for people: ``"AWS access key"``."""
    start: int
    end: int


class Secret(NamedTuple):
    """One place in a message that looks like a secret."""

    leaf: Leaf
    finding: Finding


def find_secrets(text: str) -> list[Finding]:
    """Return the places that look like secrets, in order, without overlaps (the one that starts first wins).

    A text is examined unchanged, with its escapes replaced by what they stand for, and without invisible characters, so
    that none of these can hide a secret or join one to its neighbour.
    """
    found = _matches(text)
    if "\\" in text:
        # Of the same length, so that places stay the same.
        found += _matches(_ESCAPE.sub(lambda escape: " " * len(escape[0]), text))
    seen = bare(text)
    if seen is not None:
        plain, place = seen
        found += [Finding(kind, place(start), place(end - 1) + 1) for kind, start, end in _matches(plain)]
    return _apart(found)


def secrets_of(value: msgspec.Struct | msgspec.Raw) -> list[Secret]:
    """Return what looks like a secret anywhere in a message: in each text, and across neighbouring blocks of text."""
    found: list[Secret] = []
    beside: list[Leaf] = []
    for leaf in leaves(value):
        if not leaf.is_name and leaf.name != "type":
            if leaf.name == "text" and _is_beside(beside, leaf):
                beside.append(leaf)
            elif leaf.name == "text":
                found += _across(beside)
                beside = [leaf]
        found += [Secret(leaf, finding) for finding in _in_leaf(leaf)]
    return found + _across(beside)


def mask(text: str) -> str:
    """Replace everything that looks like a secret by its kind in brackets."""
    return _replaced(text, find_secrets(text))


def has_secrets(asked: CreateMessageRequestParams | CreateMessageResult) -> bool:
    """Tell whether any text in it looks like a secret."""
    return bool(secrets_of(asked))


def masked(asked: Asked) -> Asked:
    """Return a request or an answer with all secrets in its texts masked."""
    return msgspec.json.decode(encode(_masked(asked)), type=type(asked))


def masked_json(value: msgspec.Struct | msgspec.Raw) -> str:
    """Return a message as JSON with all secrets in its texts masked."""
    return encode(_masked(value)).decode()


def _masked(value: msgspec.Struct | msgspec.Raw) -> Any:
    found: dict[tuple[str, bool], list[Finding]] = {}
    for leaf, finding in secrets_of(value):
        found.setdefault((leaf.place, leaf.is_name), []).append(finding)
    return rewritten(value, lambda leaf: _replaced(leaf.text, _apart(found.get((leaf.place, leaf.is_name), []))))


def _replaced(text: str, findings: list[Finding]) -> str:
    parts: list[str] = []
    at = 0
    for finding in findings:
        parts += [text[at : finding.start], f"[{finding.kind}]"]
        at = finding.end
    return "".join(parts) + text[at:]


def _matches(text: str) -> list[Finding]:
    lowered = text.lower()
    # A flat list in one comprehension: most texts are short, and have none of the signs.
    possible = [form for sign, form in _SIGNS if sign in lowered]
    return [
        Finding(form.kind, *match.span())
        for form in dict.fromkeys(possible)
        for match in form.pattern.finditer(text)
        if form.fits is None or form.fits(match.groupdict().get("value") or match[0])
    ]


def _apart(findings: list[Finding]) -> list[Finding]:
    """Sort findings, and leave out those that overlap with one that begins earlier."""
    kept: list[Finding] = []
    # The sort is stable: of two that start together the earlier form, which is more specific, is kept.
    for finding in sorted(findings, key=lambda each: each.start):
        if not kept or finding.start >= kept[-1].end:
            kept.append(finding)
        elif finding.end > kept[-1].end:
            kept[-1] = kept[-1]._replace(end=finding.end)
    return kept


def _in_leaf(leaf: Leaf) -> list[Finding]:
    # {"password": "..."}: the value looks like a secret only together with the name.
    if not leaf.is_name and leaf.name and names_password(leaf.name) and is_password(leaf.text):
        return [Finding("password", 0, len(leaf.text))]
    return find_secrets(leaf.text)


def _is_beside(beside: list[Leaf], leaf: Leaf) -> bool:
    """Tell whether a text is in the next block of the same list."""
    if not beside:
        return False
    before, after = _NUMBER.fullmatch(beside[-1].place), _NUMBER.fullmatch(leaf.place)
    return before is not None and after is not None and before[1] == after[1] and int(before[2]) + 1 == int(after[2])


def _across(beside: list[Leaf]) -> list[Secret]:
    """Find secrets that appear only when the texts of neighbouring blocks are read together, as a model does."""
    if len(beside) < 2:
        return []
    begins = list(accumulate((len(leaf.text) for leaf in beside), initial=0))
    found: list[Secret] = []
    for kind, start, end in find_secrets("".join(leaf.text for leaf in beside)):
        first, last = bisect_right(begins, start) - 1, bisect_left(begins, end) - 1
        if first < last:
            found += [
                Secret(leaf, Finding(kind, max(start - begins[at], 0), min(end - begins[at], len(leaf.text))))
                for at, leaf in enumerate(beside[first : last + 1], first)
            ]
    return found
