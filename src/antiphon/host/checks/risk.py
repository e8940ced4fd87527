"""What a person should look at before approving: facts about a request, each in one line, with their places.

Pure. Nothing is refused here (``validate`` and ``policy`` do that), and no text of the request is repeated. ``scan``
runs this outside of the event loop for large requests.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal

import msgspec

from antiphon.host.checks.contents import Leaf, binaries, leaves
from antiphon.host.checks.instructions import first_instruction
from antiphon.host.checks.redact import secrets_of
from antiphon.host.checks.visible import blank_runs, first_hidden, hidden
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams

__all__ = ["Place", "Risk", "assess", "assess_elicitation", "assess_tool", "holds_secret", "redefined", "secret_spots"]

Level = Literal["note", "warning"]
RiskKind = Literal[
    "background",
    "unclear",
    "tools",
    "context",
    "hidden",
    "blank",
    "secret",
    "size",
    "media",
    "tokens",
    "turns",
    "address",
    "field",
    "destructive",
    "unlisted",
    "unpinned",
    "redefined",
    "claims",
    "instructions",
]

LARGE_TOKENS = 4_000
"""Longer answers are pointed out (SAF-T1112 names the same figure)."""
LARGE_TEXT = 20_000
"""Number of characters that a person hardly reads to the end."""
_MOST_PLACES = 20
"""Most places listed for one risk."""
_SECRET_NAMES = frozenset(
    ["password", "passwd", "passphrase", "passcode", "secret", "token", "apikey", "pin", "cvv", "cvc", "otp", "iban"]
)


class Place(msgspec.Struct, frozen=True):
    """The place of something to look at."""

    path: str
    """Path of wire names: ``messages[0].content.text``, ``tools[1].description``."""
    start: int = 0
    """Index of its first character in that text, after decoding."""
    end: int = 0
    """Index after its last character; equal to ``start`` for the text as a whole."""


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to look at."""

    kind: RiskKind
    level: Level
    text: str
    """For people; consists of our own words and numbers only."""
    places: tuple[Place, ...] = ()
    """The places, at most the first few; empty if it concerns the request as a whole."""


def assess(params: CreateMessageRequestParams, origin: Origin, result: CreateMessageResult | None = None) -> list[Risk]:
    """List the risks of a request, or of the ``result`` that would answer it, warnings first."""
    looked_at = params if result is None else result
    found = list(leaves(looked_at))
    risks = [*_size(found), *_media(looked_at), *_hidden(found), *_blank(found), *_secrets(looked_at)]
    if result is None:
        risks += [*_origin(origin), *_request(params)]
    return sorted(risks, key=lambda risk: risk.level != "warning")


def assess_elicitation(params: ElicitRequestParams, origin: Origin) -> list[Risk]:
    """List the risks of an elicitation."""
    found = list(leaves(params))
    risks = [*_hidden(found), *_blank(found), *_origin(origin), *_secret_fields(params), *_address(params)]
    return sorted(risks, key=lambda risk: risk.level != "warning")


def assess_tool(params: CallToolRequestParams, origin: Origin) -> list[Risk]:
    """List the risks of a tool call before it is sent, and of what the server says of the tool."""
    found = list(leaves(params))
    said = [] if origin.tool is None else [leaf._replace(place=f"tool.{leaf.place}") for leaf in leaves(origin.tool)]
    seen = [*found, *said]
    risks = [*_size(found), *_hidden(seen), *_blank(seen), *_secrets(params), *_tool(origin), *_version(origin)]
    risks += _instructions(said)
    return sorted(risks, key=lambda risk: risk.level != "warning")


def secret_spots(risks: Iterable[Risk], place: str) -> tuple[tuple[int, int], ...]:
    """List the ranges of a text that look like secrets, in order: first character, and the one after the last.

    ``place`` is the path of the text in wire names.
    """
    return tuple(sorted((each.start, each.end) for each in _secret_places(risks) if each.path == place))


def holds_secret(risks: Iterable[Risk], place: str) -> bool:
    """Tell whether anything at a place (a path of wire names) or inside it looks like a secret."""
    inside = (f"{place}.", f"{place}[")
    return any(each.path == place or each.path.startswith(inside) for each in _secret_places(risks))


def _secret_places(risks: Iterable[Risk]) -> Iterator[Place]:
    return (place for risk in risks if risk.kind == "secret" for place in risk.places)


def _tool(origin: Origin) -> Iterator[Risk]:
    if origin.tool is None:
        yield _risk("unlisted", "warning", "the server does not list this tool")
    elif origin.tool.annotations is not None:
        hints = origin.tool.annotations
        if hints.destructive_hint:
            yield _risk("destructive", "warning", "the server says that the tool may destroy something")
        claims = {"read-only": hints.read_only_hint, "idempotent": hints.idempotent_hint}
        claimed = ", ".join(name for name, hint in claims.items() if hint)
        if claimed:
            yield _risk("claims", "note", f"the server claims of this tool, and nobody has checked it: {claimed}")


def redefined() -> Risk:
    """Return the risk that the definition of a tool has changed since it was allowed."""
    return _risk("redefined", "warning", "the server has changed the definition of this tool since it was allowed")


def _instructions(found: Iterable[Leaf]) -> Iterator[Risk]:
    places = [Place(leaf.place, *span) for leaf in found if (span := first_instruction(leaf.text)) is not None]
    if places:
        yield _risk("instructions", "warning", "the server's text about the tool gives orders to the model", places)


def _risk(kind: RiskKind, level: Level, text: str, places: Iterable[Place] = ()) -> Risk:
    return Risk(kind=kind, level=level, text=text, places=tuple(islice(places, _MOST_PLACES)))


def _origin(origin: Origin) -> Iterator[Risk]:
    if origin.unclear:
        yield _risk("unclear", "warning", "nobody knows for which call: several are open, or one was given up")
    elif origin.call is None:
        yield _risk("background", "warning", "asked in the background: it belongs to no call of yours")
    yield from _version(origin)


def _version(origin: Origin) -> Iterator[Risk]:
    if not origin.pinned:
        yield _risk("unpinned", "note", "not pinned: whichever version is newest runs, so no permission is kept")


def _request(params: CreateMessageRequestParams) -> Iterator[Risk]:
    if params.tools:
        yield _risk("tools", "warning", f"the model may ask for {_count(len(params.tools), 'tool')} of the server's")
    if params.include_context not in (None, "none"):
        yield _risk("context", "warning", "the server wants context of other conversations; none is given")
    if params.max_tokens > LARGE_TOKENS:
        yield _risk("tokens", "warning", f"an answer of up to {params.max_tokens} tokens")
    turns = sum(message.role == "assistant" for message in params.messages)
    if turns:
        yield _risk("turns", "note", f"the server wrote {_count(turns, 'message')} in the assistant's name")


def _size(found: Iterable[Leaf]) -> Iterator[Risk]:
    characters = sum(len(leaf.text) for leaf in found)
    if characters > LARGE_TEXT:
        yield _risk("size", "warning", f"{characters} characters of text")


def _media(looked_at: CreateMessageRequestParams | CreateMessageResult) -> Iterator[Risk]:
    kinds = Counter(binary.mime_type.partition("/")[0] for binary in binaries(looked_at))
    for kind, count in sorted(kinds.items()):
        # The server chose the type, so only the two known ones are repeated.
        name = kind if kind in ("image", "audio") else "file"
        yield _risk("media", "note", _count(count, name))


def _hidden(found: Iterable[Leaf]) -> Iterator[Risk]:
    total: Counter[str] = Counter()
    places: list[Place] = []
    for leaf in found:
        counted = hidden(leaf.text)
        total.update(counted)
        if counted and len(places) < _MOST_PLACES:
            at = first_hidden(leaf.text)
            places.append(Place(leaf.place, at, at + 1))
    if total:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(total.items()))
        yield _risk("hidden", "warning", f"characters that cannot be seen ({kinds}), shown as marks", places)


def _blank(found: Iterable[Leaf]) -> Iterator[Risk]:
    runs = [(leaf, count) for leaf in found if (count := blank_runs(leaf.text))]
    if runs:
        places = _count(sum(count for _, count in runs), "place")
        text = f"blank room in {places} pushes text out of sight; it is folded"
        yield _risk("blank", "warning", text, (Place(leaf.place) for leaf, _ in runs))


def _secrets(looked_at: msgspec.Struct) -> Iterator[Risk]:
    places: dict[str, list[Place]] = {}
    for leaf, (kind, start, end) in secrets_of(looked_at):
        places.setdefault(kind, []).append(Place(leaf.place, start, end))
    for kind, where in sorted(places.items()):
        times = f" ({len(where)} times)" if len(where) > 1 else ""
        yield _risk("secret", "warning", f"looks like a secret: {kind}{times}", where)


def _secret_fields(params: ElicitRequestParams) -> Iterator[Risk]:
    # 2025-06-18 client/elicitation: "Servers MUST NOT use elicitation to request sensitive information".
    names = (params.requested_schema or {}).get("properties", {})
    # "apiToken", "api_token" and "API token" all contain the word "token"; "shipping" does not contain "pin".
    words = {word.lower() for name in names for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    asked = sorted(_SECRET_NAMES & words)
    if asked:
        yield _risk("field", "warning", f"asks for what looks like a secret ({', '.join(asked)}); forms must not")


def _address(params: ElicitRequestParams) -> Iterator[Risk]:
    if params.url is None:
        return
    if not params.url.lower().startswith("https://"):
        yield _risk("address", "warning", "the address is not https")
    if not params.url.isascii() or "xn--" in params.url.lower():
        yield _risk("address", "warning", "the address has letters that may look like others")
    if "@" in params.url.partition("://")[2].partition("/")[0]:
        yield _risk("address", "warning", "the address has a user name before its host")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
