"""Finding and masking secrets, in a text or in a whole message.

Owns the forms of secrets; ``pipeline.sampling_stages`` applies the user's choice to mask, block or allow.
"""

from __future__ import annotations

import base64
import binascii
import re
import tomllib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from antiphon.host.checks.ask_limits import check_options
from antiphon.host.checks.message_parts import Leaf, list_leaves, rewrite_texts
from antiphon.host.checks.visible import strip_invisible
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

Asked = TypeVar("Asked", bound=CreateMessageRequestParams | CreateMessageResult)
RedactionMode = Literal["allow", "mask", "block"]


class SecretForm(NamedTuple):
    """One kind of secret."""

    kind: str
    """Its name, for people."""
    signs: tuple[str, ...]
    """In lower case. A text without any of them cannot match, which is much faster to check."""
    pattern: str
    """Compiled where it is first needed. ``fits`` examines the group named ``value``, if there is one."""
    fits: Callable[[str], bool] | None = None
    """Examines a match, since not everything of this form is a secret."""


_PASSWORD_NAMES = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|credentials?"
    r"|(?:api|access|account|auth|client|encryption|master|private|secret|service|shared|signing|storage)[_-]?key"
    r"|(?:access|api|auth|bearer|bot|id|oauth|refresh|session|user)[_-]?token"
)
_PASSWORD_NAME = re.compile(
    rf"(?i)(?:{_PASSWORD_NAMES})(?:[_-]?(?:\d{{1,3}}|id|key|value|text|hash|old|new))?$|^token$"
)
# Placeholders: a variable, a gap to fill in, the name of a type, a meaningless word.
_NO_PASSWORD = re.compile(
    r"(?i)[$<{%*\[(]|(?:your|my|the|an?|some|new|old|example|insert|enter)[_ -]|x{4,}|\.{3}"
    r"|[\w.]+[(\[]|[\w]+\.\w+\.\w+$"
    r"|(?:string|str|number|integer|boolean|bool|bytes|required|optional|nullable|undefined|unknown|change_?me|redacted|hidden"
    r"|masked|secret|password|expired|invalid|missing|incorrect|correct|disabled|enabled|protected|placeholder|process|environ)"
    r"[.!?)\]}]{0,3}$"
)


def names_password(name: str) -> bool:
    """Return whether a member of this name holds a password or a key: ``password``, ``dbPassword``, ``X_API_KEY``."""
    return _PASSWORD_NAME.search(name[-100:]) is not None


def is_password(value: str) -> bool:
    """Return whether a text may be a password, and is no placeholder for one."""
    return 6 <= len(value) <= 1_000 and "\n" not in value and _NO_PASSWORD.match(value) is None


def _is_token(value: str) -> bool:
    """Distinguish a token from a word: tokens have digits, or capitals in the middle."""
    return any(char.isdigit() for char in value) or any(char.isupper() for char in value[1:])


def _is_pair(value: str) -> bool:
    """Return whether it is base64 of a name, a colon and a password (RFC 7617)."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded[1:-1] and decoded.isascii()


_FITS: Mapping[str, Callable[[str], bool]] = {
    "token": _is_token,
    "pair": _is_pair,
    "url": lambda value: value[0] not in "$<{*[",
    "password": is_password,
    "secret": lambda value: is_password(value) and (_is_token(value) or not value.isalpha()),
}


# Of two that begin at the same place the earlier form is reported, so more specific ones come first.
FORMS: tuple[SecretForm, ...] = tuple(
    SecretForm(form["kind"], tuple(form["signs"]), form["pattern"], _FITS.get(form.get("fits")))
    for form in tomllib.loads(Path(__file__).with_name("secret_forms.toml").read_text("utf-8"))["form"]
)
_SIGNS = tuple((sign, form) for form in FORMS for sign in form.signs)
_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_NUMBER = re.compile(r"(.*)\[(\d{1,9})\]\.text", re.DOTALL)


class Redaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to secrets in each direction. With "allow" they are only pointed out to the reviewer."""

    request: RedactionMode = "allow"
    response: RedactionMode = "allow"

    def __post_init__(self) -> None:
        check_options(self)


class SecretFinding(NamedTuple):
    """One place in a text that looks like a secret, without the secret itself."""

    kind: str
    """What it looks like, for people: ``"AWS access key"``."""
    start: int
    end: int


class Secret(NamedTuple):
    """One place in a message that looks like a secret."""

    leaf: Leaf
    finding: SecretFinding


def find_secrets(text: str) -> list[SecretFinding]:
    """Return the places that look like secrets, in order, without overlaps (the one that starts first wins).

    A text is examined unchanged, with its escapes replaced by what they stand for, and without invisible characters, so
    that none of these can hide a secret or join one to its neighbour.
    """
    found = _find_matches(text)
    if "\\" in text:
        # Of the same length, so that places stay the same.
        found += _find_matches(_ESCAPE.sub(lambda escape: " " * len(escape[0]), text))
    seen = strip_invisible(text)
    if seen is not None:
        plain, place = seen
        found += [SecretFinding(kind, place(start), place(end - 1) + 1) for kind, start, end in _find_matches(plain)]
    return _drop_overlaps(found)


def secrets_of(value: msgspec.Struct | msgspec.Raw) -> list[Secret]:
    """Return what looks like a secret anywhere in a message: in each text, and across neighbouring blocks of text."""
    found: list[Secret] = []
    beside: list[Leaf] = []
    for leaf in list_leaves(value):
        if not leaf.is_name and leaf.name != "type":
            if leaf.name == "text" and _is_beside(beside, leaf):
                beside.append(leaf)
            elif leaf.name == "text":
                found += _find_across_blocks(beside)
                beside = [leaf]
        # {"password": "..."}: the value looks like a secret only together with the name.
        if not leaf.is_name and leaf.name and names_password(leaf.name) and is_password(leaf.text):
            found.append(Secret(leaf, SecretFinding("password", 0, len(leaf.text))))
        else:
            found += [Secret(leaf, finding) for finding in find_secrets(leaf.text)]
    return found + _find_across_blocks(beside)


def mask_text(text: str) -> str:
    """Replace everything that looks like a secret by its kind in brackets."""
    return replace_findings(text, find_secrets(text))


def mask_content(asked: Asked) -> Asked:
    """Return a request or an answer with all secrets in its texts masked."""
    return msgspec.json.decode(encode_value(_mask_value(asked)), type=type(asked))


def make_masked_json(value: msgspec.Struct | msgspec.Raw) -> str:
    """Return a message as JSON with all secrets in its texts masked."""
    return encode_value(_mask_value(value)).decode()


def _mask_value(value: msgspec.Struct | msgspec.Raw) -> Any:
    found: dict[tuple[str, bool], list[SecretFinding]] = {}
    for leaf, finding in secrets_of(value):
        found.setdefault((leaf.place, leaf.is_name), []).append(finding)
    return rewrite_texts(
        value, lambda leaf: replace_findings(leaf.text, _drop_overlaps(found.get((leaf.place, leaf.is_name), [])))
    )


def replace_findings(text: str, findings: Iterable[SecretFinding], begin: int = 0, end: int | None = None) -> str:
    """Return a text, or the part of it between two positions, with its secrets replaced by their kinds in brackets."""
    parts, at, end = list[str](), begin, len(text) if end is None else end
    for kind, start, stop in findings:
        if stop > at and start < end:
            parts += [text[at : max(at, start)], f"[{kind}]"]
            at = stop
    return "".join(parts) + text[at:end]


def _find_matches(text: str) -> list[SecretFinding]:
    lowered = text.lower()
    # A flat list in one comprehension: most texts are short, and have none of the signs.
    possible = [form for sign, form in _SIGNS if sign in lowered]
    return [
        SecretFinding(form.kind, *match.span())
        for form in dict.fromkeys(possible)
        for match in re.finditer(form.pattern, text)
        if form.fits is None or form.fits(match.groupdict().get("value") or match[0])
    ]


def _drop_overlaps(findings: list[SecretFinding]) -> list[SecretFinding]:
    """Sort findings, and leave out those that overlap with one that begins earlier."""
    kept: list[SecretFinding] = []
    # The sort is stable: of two that start together the earlier form, which is more specific, is kept.
    for finding in sorted(findings, key=lambda each: each.start):
        if not kept or finding.start >= kept[-1].end:
            kept.append(finding)
        elif finding.end > kept[-1].end:
            kept[-1] = kept[-1]._replace(end=finding.end)
    return kept


def _is_beside(beside: list[Leaf], leaf: Leaf) -> bool:
    """Return whether a text is in a later block of the same list: images may stand between."""
    if not beside:
        return False
    before, after = _NUMBER.fullmatch(beside[-1].place), _NUMBER.fullmatch(leaf.place)
    return before is not None and after is not None and before[1] == after[1] and int(before[2]) < int(after[2])


def _find_across_blocks(beside: list[Leaf]) -> list[Secret]:
    """Find secrets that appear only when the texts of neighbouring blocks are read together, as a model does."""
    if len(beside) < 2:
        return []
    begins = list(accumulate((len(leaf.text) for leaf in beside), initial=0))
    found: list[Secret] = []
    for kind, start, end in find_secrets("".join(leaf.text for leaf in beside)):
        first, last = bisect_right(begins, start) - 1, bisect_left(begins, end) - 1
        if first < last:
            found += [
                Secret(leaf, SecretFinding(kind, max(start - begins[at], 0), min(end - begins[at], len(leaf.text))))
                for at, leaf in enumerate(beside[first : last + 1], first)
            ]
    return found
