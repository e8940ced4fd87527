"""What a person should look at before approving: facts about a request, each in one line, with their places.

Nothing is refused here (``validate`` and ``policy`` do that), and no text of the request is repeated. Large requests
are examined in a side process. A tool's definition is searched for orders to the model, since its description reaches
the model as it is; the patterns are those of published attacks, and each takes linear time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, get_args
from unicodedata import normalize
from urllib.parse import SplitResult, urlsplit

import msgspec

from antiphon.host.checks.labels import FLOWING, Label
from antiphon.host.checks.message_parts import Leaf, list_binaries, list_leaves
from antiphon.host.checks.redact import Asked, make_masked_json, mask_content, secrets_of
from antiphon.host.checks.visible import blank_runs, count_hidden, find_lookalikes, first_hidden
from antiphon.machine.side_process.pool import run_aside
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.envelope import encode_value
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

Level = Literal["note", "warning"]
RiskKind = Literal[
    "background", "unclear", "tools", "context", "hidden", "blank", "lookalike", "secret", "size", "media",
    "tokens", "turns", "address", "field", "destructive", "unlisted", "unpinned", "redefined", "claims",
    "instructions", "orders", "leak", "flow",
]  # fmt: skip

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
    is_name: bool = False
    """Whether it is in the name of the member at ``path``, not in its value."""


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to look at."""

    kind: RiskKind
    level: Level
    text: str
    """For people; consists of our own words and numbers only."""
    places: tuple[Place, ...] = ()
    """The places, at most the first few; empty if it concerns the request as a whole."""


def assess_risks(
    params: CreateMessageRequestParams, origin: Origin, result: CreateMessageResult | None = None
) -> list[Risk]:
    """List the risks of a request, or of the ``result`` that would answer it, warnings first."""
    looked_at = params if result is None else result
    found = list(list_leaves(looked_at))
    risks = [*_assess_size(found), *_assess_media(looked_at), *_assess_texts(found), *_assess_secrets(looked_at)]
    if result is None:
        risks += [*_assess_origin(origin), *_assess_request(params)]
    return sorted(risks, key=lambda risk: risk.level != "warning")


def assess_elicitation(params: ElicitRequestParams, origin: Origin) -> list[Risk]:
    """List the risks of an elicitation."""
    found = list(list_leaves(params))
    risks = [
        *_assess_hidden_text(found),
        *_assess_blank_space(found),
        *_assess_lookalikes(leaf for leaf in found if leaf.place != "url"),
        *_assess_origin(origin),
        *_secret_fields(params),
        *_assess_address(params),
    ]
    return sorted(risks, key=lambda risk: risk.level != "warning")


def assess_tool(params: CallToolRequestParams, origin: Origin) -> list[Risk]:
    """List the risks of a tool call before it is sent, and of what the server says of the tool."""
    found = list(list_leaves(params))
    said = (
        [] if origin.tool is None else [leaf._replace(place=f"tool.{leaf.place}") for leaf in list_leaves(origin.tool)]
    )
    risks = [*_assess_size(found), *_assess_texts([*found, *said]), *_assess_secrets(params)]
    risks += [*_assess_tool(origin), *_assess_version(origin), *_assess_instructions(said)]
    return sorted(risks, key=lambda risk: risk.level != "warning")


def assess_result(result: CallToolResult) -> list[Risk]:
    """List the risks of a tool's result, as a model would get it."""
    found = list(list_leaves(result))
    orders = [Place(leaf.place, *span) for leaf in found for span in list_instructions(leaf.text)]
    risks = [*_assess_size(found), *_assess_texts(found), *_assess_secrets(result)]
    if orders:
        where = _format_count(len(orders), "place")
        risks.append(_warn_of("orders", f"{where} of the result may give orders to the model", orders))
    return risks


def make_flow_risk(flowed: frozenset[Label]) -> Risk:
    """Return the risk of a call that could send what is private by order of a stranger."""
    if flowed >= FLOWING:
        return _warn_of("flow", "this session has read text of strangers and data of yours; now it can send")
    return _warn_of("flow", "this tool by itself can read data of yours and text of strangers, and send")


def make_leak_risk(places: Sequence[Place]) -> Risk:
    """Return the risk of addresses that would send data to hosts which a call did not name."""
    where = _format_count(len(places), "address")
    return _warn_of("leak", f"{where} in the result would send data to a host that the call did not name", places)


def list_spots(risks: Iterable[Risk], place: str, *, is_name: bool = False) -> tuple[tuple[int, int], ...]:
    """List the ranges of the text at ``place``, a path of wire names, that look like secrets or like other words.

    ``is_name``: those of the name of this member, not of its value.
    """
    found = (each for each in _list_spot_places(risks) if each.path == place and each.is_name == is_name)
    return tuple(sorted((each.start, each.end) for each in found))


def has_spots(risks: Iterable[Risk], place: str) -> bool:
    """Return whether anything at a place (a path of wire names) or inside it looks like a secret or other words."""
    inside = (f"{place}.", f"{place}[")
    found = _list_spot_places(risks)
    return any((each.path == place and not each.is_name) or each.path.startswith(inside) for each in found)


def _list_spot_places(risks: Iterable[Risk]) -> Iterator[Place]:
    return (place for risk in risks if risk.kind in ("secret", "lookalike") for place in risk.places)


def _assess_tool(origin: Origin) -> Iterator[Risk]:
    if origin.tool is None:
        yield _warn_of("unlisted", "the server does not list this tool")
    elif origin.tool.annotations is not None:
        hints = origin.tool.annotations
        if hints.destructive_hint:
            yield _warn_of("destructive", "the server says that the tool may destroy something")
        claims = {"read-only": hints.read_only_hint, "idempotent": hints.idempotent_hint}
        claimed = ", ".join(name for name, hint in claims.items() if hint)
        if claimed:
            yield _make_note("claims", f"the server claims of this tool, and nobody has checked it: {claimed}")


def make_redefined_risk() -> Risk:
    """Return the risk that the definition of a tool has changed since it was allowed."""
    return _warn_of("redefined", "the server has changed the definition of this tool since it was allowed")


def _assess_instructions(found: Iterable[Leaf]) -> Iterator[Risk]:
    places = [Place(leaf.place, *span) for leaf in found if (span := first_instruction(leaf.text)) is not None]
    if places:
        yield _warn_of("instructions", "the server's text about the tool gives orders to the model", places)


def _warn_of(kind: RiskKind, text: str, places: Iterable[Place] = ()) -> Risk:
    return Risk(kind=kind, level="warning", text=text, places=tuple(islice(places, _MOST_PLACES)))


def _make_note(kind: RiskKind, text: str) -> Risk:
    return Risk(kind=kind, level="note", text=text)


def _assess_origin(origin: Origin) -> Iterator[Risk]:
    if origin.unclear:
        yield _warn_of("unclear", "nobody knows for which call: several are open, or one was given up")
    elif origin.call is None:
        yield _warn_of("background", "asked in the background: it belongs to no call of yours")
    yield from _assess_version(origin)


def _assess_version(origin: Origin) -> Iterator[Risk]:
    if not origin.pinned:
        yield _make_note("unpinned", "not pinned: whichever version is newest runs, so no permission is kept")


def _assess_request(params: CreateMessageRequestParams) -> Iterator[Risk]:
    if params.tools:
        yield _warn_of("tools", f"the model may ask for {_format_count(len(params.tools), 'tool')} of the server's")
    if params.include_context not in (None, "none"):
        yield _warn_of("context", "the server wants context of other conversations; none is given")
    if params.max_tokens > LARGE_TOKENS:
        yield _warn_of("tokens", f"an answer of up to {params.max_tokens:,} tokens")
    turns = sum(message.role == "assistant" for message in params.messages)
    if turns:
        yield _make_note("turns", f"the server wrote {_format_count(turns, 'message')} in the assistant's name")


def _assess_size(found: Iterable[Leaf]) -> Iterator[Risk]:
    characters = sum(len(leaf.text) for leaf in found)
    if characters > LARGE_TEXT:
        yield _warn_of("size", f"{characters:,} characters of text")


def _assess_media(looked_at: CreateMessageRequestParams | CreateMessageResult) -> Iterator[Risk]:
    kinds = Counter(binary.mime_type.partition("/")[0] for binary in list_binaries(looked_at))
    for kind, count in sorted(kinds.items()):
        # The server chose the type, so only the two known ones are repeated.
        name = kind if kind in ("image", "audio") else "file"
        yield _make_note("media", _format_count(count, name))


def _assess_texts(found: Sequence[Leaf]) -> list[Risk]:
    """List what in texts cannot be seen, or looks like something else."""
    return [*_assess_hidden_text(found), *_assess_blank_space(found), *_assess_lookalikes(found)]


def _assess_hidden_text(found: Iterable[Leaf]) -> Iterator[Risk]:
    total: Counter[str] = Counter()
    places: list[Place] = []
    for leaf in found:
        counted = count_hidden(leaf.text)
        total.update(counted)
        if counted and len(places) < _MOST_PLACES:
            at = first_hidden(leaf.text)
            places.append(Place(leaf.place, at, at + 1))
    if total:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(total.items()))
        yield _warn_of("hidden", f"characters that cannot be seen ({kinds}), shown as marks", places)


def _assess_blank_space(found: Iterable[Leaf]) -> Iterator[Risk]:
    runs = [(leaf, count) for leaf in found if (count := blank_runs(leaf.text))]
    if runs:
        places = _format_count(sum(count for _, count in runs), "place")
        text = f"blank room in {places} pushes text out of sight; it is folded"
        yield _warn_of("blank", text, (Place(leaf.place) for leaf, _ in runs))


def _assess_lookalikes(found: Iterable[Leaf]) -> Iterator[Risk]:
    places: list[Place] = []
    met: dict[str, str] = {}
    for leaf in found:
        for span in find_lookalikes(leaf.text):
            places += [Place(leaf.place, *span, leaf.is_name)]
        # Two names of one object that differ only in how their letters are composed are drawn alike.
        composed = "" if not leaf.is_name or leaf.text.isascii() else normalize("NFC", leaf.place)
        if composed and met.setdefault(composed, leaf.place) != leaf.place:
            places += [Place(leaf.place, 0, len(leaf.text), is_name=True)]
    if places:
        where = _format_count(len(places), "place")
        yield _warn_of("lookalike", f"letters that imitate others, or are crossed out: {where}", places)


def _assess_secrets(looked_at: msgspec.Struct) -> Iterator[Risk]:
    places: dict[str, list[Place]] = {}
    for leaf, (kind, start, end) in secrets_of(looked_at):
        places.setdefault(kind, []).append(Place(leaf.place, start, end))
    for kind, where in sorted(places.items()):
        times = f" ({len(where)} times)" if len(where) > 1 else ""
        yield _warn_of("secret", f"looks like a secret: {kind}{times}", where)


def _secret_fields(params: ElicitRequestParams) -> Iterator[Risk]:
    # 2025-06-18 client/elicitation: "Servers MUST NOT use elicitation to request sensitive information".
    names = (params.requested_schema or {}).get("properties", {})
    # "apiToken", "api_token" and "API token" all contain the word "token"; "shipping" does not contain "pin".
    words = {word.lower() for name in names for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    asked = sorted(_SECRET_NAMES & words)
    if asked:
        yield _warn_of("field", f"asks for what looks like a secret ({', '.join(asked)}); forms must not")


def split_address(url: str) -> SplitResult:
    """Split a web address as browsers do: a backslash is a slash, and any number of them may stand before the host."""
    scheme, _, rest = re.sub(r"[\t\r\n]", "", url).strip().partition(":")
    path = rest.replace("\\", "/").lstrip("/")
    return urlsplit(f"{scheme}://{path}" if scheme.lower() in ("http", "https") else url)


def _assess_address(params: ElicitRequestParams) -> Iterator[Risk]:
    if params.url is None:
        return
    if not params.url.lower().startswith("https://"):
        yield _warn_of("address", "the address is not https")
    if not params.url.isascii() or "xn--" in params.url.lower():
        yield _warn_of("address", "the address has letters that may look like others")
    if re.match(r"[^:]*:[/\\\t\r\n]*+[^/?#\\]*@", params.url):
        yield _warn_of("address", "the address has a user name before its host")


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_FORMS = msgspec.toml.decode(
    Path(__file__).with_name("instruction_forms.toml").read_bytes(), type=dict[str, tuple[str, ...]]
)
_INSTRUCTION = re.compile("|".join(f"(?P<{kind}>{'|'.join(each)})" for kind, each in _FORMS.items()), re.IGNORECASE)


def list_orders(text: str) -> Iterator[tuple[str, str]]:
    """Yield the orders to the model in a text: the kind of each, and its words."""
    for found in _INSTRUCTION.finditer(text):
        yield found.lastgroup or "", found[0]


def first_instruction(text: str) -> tuple[int, int] | None:
    """Return the place of the first order to the model in a text of a tool's definition, or ``None``."""
    found = _INSTRUCTION.search(text)
    return None if found is None else found.span()


def list_instructions(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the lines of a text that give orders to the model."""
    end = 0
    for found in _INSTRUCTION.finditer(text):
        if found.start() >= end:
            start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
            end = len(text) if end < 0 else end
            yield start, end


MAX_HERE = 64 * 1024
"""Most bytes of a message that is examined on the event loop: 5 ms at worst."""
_SEARCHED = 8
"""How many times longer a byte of a tool's definition takes, because it is also searched for orders to the model."""
MAX_SECONDS = 10.0
"""Seconds of processor time for one message in a side process; the largest possible takes three."""


class _Case(msgspec.Struct):
    """What is examined, as sent to a side process."""

    kind: str
    params: msgspec.Raw
    origin: Origin
    result: CreateMessageResult | None


_Params = CreateMessageRequestParams | ElicitRequestParams | CallToolRequestParams
_KINDS: dict[str, type[_Params]] = {kind.__name__: kind for kind in get_args(_Params)}


async def risks_of(params: _Params, origin: Origin, result: CreateMessageResult | None = None) -> tuple[Risk, ...]:
    """List the risks of a message, or of its ``result``, warnings first; may raise ``TooCostly``."""
    size = len(encode_value(params if result is None else result))
    if isinstance(params, CallToolRequestParams) and origin.tool is not None:
        size += _SEARCHED * len(encode_value(origin.tool))
    if size <= MAX_HERE:
        return _assess_message(params, origin, result)
    case = _Case(type(params).__name__, msgspec.Raw(encode_value(params)), origin, result)
    return msgspec.json.decode(await _run_aside(assess_document, case), type=tuple[Risk, ...])


async def mask_in_side_process(asked: Asked) -> Asked | None:
    """Return a request or an answer with all secrets masked, or ``None`` if it has none; may raise ``TooCostly``."""
    if len(encode_value(asked)) <= MAX_HERE:
        return mask_content(asked) if secrets_of(asked) else None
    pair = (asked, None) if isinstance(asked, CreateMessageRequestParams) else (None, asked)
    answer = await run_aside(mask_message, encode_value(pair), seconds=MAX_SECONDS)
    return msgspec.json.decode(answer, type=type(asked)) if answer else None


async def mask_to_json(value: msgspec.Struct) -> str:
    """Return a message as JSON with all secrets in its texts masked; may raise ``TooCostly``."""
    if len(encode_value(value)) <= MAX_HERE:
        return make_masked_json(value)
    if isinstance(value, CreateMessageRequestParams | CreateMessageResult):
        return encode_value(await mask_in_side_process(value) or value).decode()
    return (await _run_aside(mask_document, value)).decode()


async def _run_aside(job: Callable[[bytes], bytes], value: msgspec.Struct) -> bytes:
    return await run_aside(job, encode_value(value), seconds=MAX_SECONDS)


def assess_document(payload: bytes) -> bytes:
    """Find risks, in a side process."""
    case = msgspec.json.decode(payload, type=_Case)
    return encode_value(
        _assess_message(msgspec.json.decode(case.params, type=_KINDS[case.kind]), case.origin, case.result)
    )


def mask_message(payload: bytes) -> bytes:
    """Mask the secrets of a request or an answer, in a side process; returns nothing if there are none."""
    pair = msgspec.json.decode(payload, type=tuple[CreateMessageRequestParams | None, CreateMessageResult | None])
    asked = next(each for each in pair if each is not None)
    return make_masked_json(asked).encode() if secrets_of(asked) else b""


def mask_document(payload: bytes) -> bytes:
    """Mask the secrets of any message, in a side process."""
    return make_masked_json(msgspec.Raw(payload)).encode()


def _assess_message(params: _Params, origin: Origin, result: CreateMessageResult | None) -> tuple[Risk, ...]:
    if isinstance(params, CreateMessageRequestParams):
        return tuple(assess_risks(params, origin, result))
    is_form = isinstance(params, ElicitRequestParams)
    return tuple(assess_elicitation(params, origin) if is_form else assess_tool(params, origin))
