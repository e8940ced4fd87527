"""What the page shows of one question: typed values for the templates, complete and in reading order.

Pure. Owns which facts are shown; how, is the templates' business, and making them inert is ``web.render``'s. A
``label`` is a key of the catalogues.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Literal

import msgspec

from antiphon.errors import InvalidParams
from antiphon.host.budget import Costs
from antiphon.host.checks.contents import Placed, message_blocks, more_of
from antiphon.host.checks.forms import Field, fields_of
from antiphon.host.checks.redact import mask
from antiphon.host.checks.risk import Risk, holds_secret, secret_spots
from antiphon.host.models.selection.record import Selection, kept_selection
from antiphon.host.review.diff import Line, differences, pretty
from antiphon.host.review.fitting import AnyItem
from antiphon.host.review.queue import Question
from antiphon.host.review.review import ElicitItem, ReviewItem, ToolItem, can_tell, digest, hash_of
from antiphon.host.review.summary import first_words, host_of, money, server_name
from antiphon.host.review.texts import Texts
from antiphon.host.store.base import ReviewKind
from antiphon.wire.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from antiphon.wire.envelope import encode
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage

__all__ = [
    "ORDERS",
    "Group",
    "Order",
    "Part",
    "Row",
    "Shown",
    "Turn",
    "Who",
    "arranged",
    "groups_of",
    "headline",
    "headline_of",
    "shape_of",
    "show",
    "show_item",
    "who_of",
]

PartKind = Literal["text", "json", "image", "audio", "note"]
Order = Literal["time", "risk", "cost", "newest", "expiry"]
ORDERS: tuple[Order, ...] = ("time", "risk", "cost", "newest", "expiry")
"""How a queue can be sorted; the first is the usual one."""
_DIGITS = 12
"""Hexadecimal digits of an identity that are shown: enough to tell one's own servers apart."""
_LINE = 80
"""Characters of arguments that are shown in one line; more are set out."""


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and for what."""

    target: str
    name: str
    """The short name of the server: its script, package or host."""
    kind: str
    """``"command"`` or ``"url"``."""
    short: str
    identity: str
    claims: str
    """What the server calls itself; nothing if it does not."""
    call: str
    """Method and name of the call of ours; nothing in the background."""
    arguments: str
    round: tuple[int, int] | None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a message."""

    kind: PartKind
    text: str = ""
    label: str = ""
    name: str = ""
    media: int = 0
    """Which piece of media of the request it is."""
    nested: bool = False
    place: str = ""
    """Where it stands in the request, by wire names; nothing where it has no place of its own."""
    spots: tuple[tuple[int, int], ...] = ()
    """What of its text looks like a secret: the first character, and the one after the last."""
    remarkable: bool = False
    """Whether there is a secret in it that cannot be pointed at, as its values are drawn in another way."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One message."""

    role: str
    parts: tuple[Part, ...]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One question."""

    id: str
    kind: ReviewKind
    state: str
    by: str
    decision: str
    waited_for: bool
    expires: float | None
    who: Who
    risks: tuple[Risk, ...]
    raw: str
    digest: str
    hash: str
    """Of all that is shown: a decision names it."""
    can_tell: bool = False
    """Whether the reason of a refusal can be sent to the server."""
    choices: frozenset[str] = frozenset()
    params: CreateMessageRequestParams | None = None
    turns: tuple[Turn, ...] = ()
    answer: Turn | None = None
    answer_text: str = ""
    changes: tuple[Line, ...] | None = ()
    facts: tuple[tuple[str, str], ...] = ()
    item: ReviewItem | None = None
    tool: str = ""
    """What the server says of the tool that is to be called, as JSON."""
    arguments: str = ""
    selection: Selection | None = None
    message: str = ""
    url: str | None = None
    host: str = ""
    """The host of the address, set apart: what comes before it in an address can be made to look like another."""
    opens: bool = False
    """Whether the address may be a link: https, in plain letters, without a user name."""
    fields: tuple[Field, ...] = ()


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One question in the queue."""

    id: str
    kind: str
    tool: str
    """The tool or prompt whose call asks; nothing in the background."""
    summary: str
    """The first words of what is new in it."""
    warnings: int
    created: float
    expires: float | None
    worst: int | None = None
    """What it may cost at most, in nano-dollars; ``None`` where that is not known, or nothing is asked of a model."""
    hash: str = ""
    """Of all that is shown of it: a decision names it."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The questions of one round of a call."""

    who: Who
    rows: tuple[Row, ...]


def groups_of(questions: Sequence[Question]) -> list[Group]:
    """Sort questions into the rounds they belong to, oldest first."""
    found: dict[str, list[Question]] = {}
    for question in questions:
        if question.item is not None:
            found.setdefault(question.group, []).append(question)
    return [
        Group(who=who_of(first.origin), rows=tuple(map(_row, together)))
        for together in found.values()
        if (first := together[0].item) is not None
    ]


def arranged(groups: Iterable[Group], order: Order, wanted: str) -> list[Group]:
    """Leave the groups with something that is wanted, in an order: of age, time left, risks or cost.

    ``wanted`` is a text to be found in the server's name, the call or the first words, whatever the case.
    """
    sought = wanted.casefold()
    found: list[Group] = []
    for group in groups:
        head = f"{group.who.name} {group.who.target} {group.who.call}".casefold()
        rows = tuple(row for row in group.rows if sought in head or sought in row.summary.casefold())
        if rows:
            found.append(Group(who=group.who, rows=tuple(sorted(rows, key=_PLACES[order]))))
    return sorted(found, key=lambda group: _PLACES[order](group.rows[0]))


def shape_of(question: Question) -> str | None:
    """Name what requests must have in common to be approved together: server, system prompt and tools."""
    item = question.item
    if not isinstance(item, ReviewItem) or item.result is not None or "approve" not in item.choices:
        return None
    alike = msgspec.structs.replace(item.params, messages=(), max_tokens=0, metadata=None, temperature=None)
    return f"{question.identity}:{digest(alike)}"


def show(question: Question) -> Shown | None:
    """Collect what is shown of a question; ``None`` if what was asked is not kept any more."""
    return None if question.item is None else _show(question, question.item)


def _show(question: Question, item: AnyItem) -> Shown:
    shown = Shown(
        id=question.id,
        kind=question.kind,
        state=question.state,
        by=question.by or "",
        decision=_decided(question),
        waited_for=question.waited_for,
        expires=question.expires,
        who=who_of(item.origin),
        risks=item.risks,
        raw=pretty(item.params),
        digest=digest(item.params),
        hash=question.hash,
        can_tell=can_tell(item),
    )
    if isinstance(item, ElicitItem):
        return _form(shown, item)
    return _tool(shown, item) if isinstance(item, ToolItem) else _sampling(shown, item)


def show_item(item: AnyItem, kind: ReviewKind) -> Shown:
    """Collect what is shown of an item that is in no queue."""
    question = Question(
        id="",
        kind=kind,
        group="",
        identity=item.origin.identity,
        created=0.0,
        expires=None,
        state="pending",
        waited_for=True,
        item=item,
        hash=hash_of(item),
    )
    return _show(question, item)


def headline(shown: Shown, words: Texts) -> str:
    """Say in one line who asks, for what, and at which cost. Not inert: names are the server's."""
    costs = None if shown.item is None or shown.answer is not None else shown.item.costs
    return headline_of(shown.who, costs, words)


def headline_of(who: Who, costs: Costs | None, words: Texts) -> str:
    """As ``headline``, for what is not kept in a queue."""
    parts = [who.name, who.call.partition(" ")[2] or who.call or words("who.background")]
    if who.round:
        parts.append(words("who.round", n=who.round[0], max=who.round[1]))
    if costs is not None:
        worst, left = money(costs.worst.money), costs.left
        parts.append(
            words("cost.at_most", worst=worst)
            if left is None
            else words("cost.at_most_of", worst=worst, left=money(left, up=False))
        )
    return " · ".join(parts)


def _tool(shown: Shown, item: ToolItem) -> Shown:
    said = item.origin.tool
    return msgspec.structs.replace(
        shown,
        choices=item.choices,
        message=item.params.name,
        arguments=pretty(item.params),
        tool="" if said is None else pretty(said),
    )


def _sampling(shown: Shown, item: ReviewItem) -> Shown:
    result, params = item.result, item.params
    differing = differences(item.received, params)
    numbers = count()
    shown = msgspec.structs.replace(
        shown,
        choices=item.choices,
        params=params,
        turns=tuple(
            _turn(turn, numbers, f"messages[{at}]", () if result else item.risks)
            for at, turn in enumerate(params.messages)
        ),
        changes=None if differing is None else tuple(differing),
        facts=tuple(_facts(params)),
        item=item,
        # Of another chooser the record is shown with the raw data.
        selection=kept_selection(item.selection),
    )
    if result is None:
        return shown
    numbers = count()
    return msgspec.structs.replace(
        shown,
        digest=digest(result),
        raw=pretty(result),
        answer=_turn(result, numbers, "", item.risks),
        answer_text=result.text,
    )


def _form(shown: Shown, item: ElicitItem) -> Shown:
    url = item.params.url
    return msgspec.structs.replace(
        shown,
        message=item.params.message,
        url=url,
        host="" if url is None else host_of(url),
        opens=url is not None and _is_plain(url),
        fields=_fields(item),
    )


def _fields(item: ElicitItem) -> tuple[Field, ...]:
    try:
        return tuple(fields_of(item.params))
    except InvalidParams:
        # The host refuses such a form before anybody is asked; of one that was kept all the same, the raw data show.
        return ()


def _is_plain(url: str) -> bool:
    host = url.removeprefix("https://").partition("/")[0]
    return url.startswith("https://") and url.isascii() and url.isprintable() and "@" not in host and " " not in url


def who_of(origin: Origin) -> Who:
    """Collect who asks, and for what."""
    kind, _, digits = origin.identity.partition(":")
    call = origin.call
    return Who(
        target=(target := mask(origin.target)),
        name=server_name(target, kind),
        kind=kind,
        short=digits[:_DIGITS],
        identity=origin.identity,
        claims=f"{origin.server.name} {origin.server.version}" if origin.server else "",
        call=f"{call.method} {call.name or ''}".rstrip() if call else "",
        arguments=_arguments(call.arguments) if call and call.arguments is not None else "",
        round=(origin.round.n, origin.round.max) if origin.round else None,
    )


def _arguments(arguments: object) -> str:
    line = _compact(arguments)
    return line if len(line) <= _LINE else pretty(arguments)


def _row(question: Question) -> Row:
    item = question.item
    risks = item.risks if item else ()
    call = item.origin.call if item else None
    costs = item.costs if isinstance(item, ReviewItem) and item.result is None else None
    return Row(
        id=question.id,
        kind=question.kind,
        tool=(call.name or call.method) if call else "",
        summary=first_words(item),
        warnings=sum(risk.level == "warning" for risk in risks),
        created=question.created,
        expires=question.expires,
        worst=None if costs is None else costs.worst.money,
        hash=question.hash,
    )


def _decided(question: Question) -> str:
    decision = question.decision
    if decision is None:
        return ""
    return getattr(decision, "action", "") or type(decision).__name__.lower()


def _turn(
    message: SamplingMessage | CreateMessageResult, numbers: Iterator[int], place: str, risks: Sequence[Risk]
) -> Turn:
    parts = [*_parts(message_blocks(message, place), numbers), *_more(message)]
    return Turn(role=message.role, parts=tuple(_pointed(part, risks) for part in parts))


def _pointed(part: Part, risks: Sequence[Risk]) -> Part:
    if not part.place:
        return part
    if part.kind == "text":
        return msgspec.structs.replace(part, spots=secret_spots(risks, part.place))
    return msgspec.structs.replace(part, remarkable=holds_secret(risks, part.place))


def _more(value: Any, *, nested: bool = False) -> Iterator[Part]:
    """Yield the members that are sent and have no place of their own."""
    more = more_of(value)
    if more:
        yield Part(kind="json", label="part.more", text=pretty(more), nested=nested)


def _parts(blocks: Iterable[Placed], numbers: Iterator[int], *, nested: bool = False) -> Iterator[Part]:
    for place, block in blocks:
        if isinstance(block, TextContent):
            yield Part(kind="text", text=block.text, nested=nested, place=f"{place}.text")
        elif isinstance(block, ImageContent | AudioContent):
            kind = "image" if isinstance(block, ImageContent) else "audio"
            yield Part(kind=kind, name=block.mime_type, media=next(numbers), nested=nested)
        elif isinstance(block, ToolUseContent):
            name, text = f"{block.name} ({block.id})", pretty(block.input)
            yield Part(kind="json", label="part.use", name=name, text=text, nested=nested, place=f"{place}.input")
        elif isinstance(block, ToolResultContent):
            yield from _result_parts(place, block, numbers)
        else:
            yield from _resource_parts(place, block, numbers, nested=nested)
        yield from _more(block, nested=nested)


def _result_parts(place: str, block: ToolResultContent, numbers: Iterator[int]) -> Iterator[Part]:
    label = "part.failure" if block.is_error else "part.result"
    yield Part(kind="note", label=label, name=block.tool_use_id)
    inner = (Placed(f"{place}.content[{at}]", each) for at, each in enumerate(block.content))
    yield from _parts(inner, numbers, nested=True)
    if block.structured_content is not None:
        text, place = pretty(block.structured_content), f"{place}.structuredContent"
        yield Part(kind="json", label="part.structured", text=text, nested=True, place=place)


def _resource_parts(place: str, block: object, numbers: Iterator[int], *, nested: bool) -> Iterator[Part]:
    if isinstance(block, ResourceLink):
        yield Part(kind="json", label="part.link", name=block.uri, text=pretty(block), nested=nested, place=place)
    elif isinstance(block, EmbeddedResource):
        resource = block.resource
        name = f"{resource.uri} ({resource.mime_type})" if resource.mime_type else resource.uri
        if resource.text is not None:
            place = f"{place}.resource.text"
            yield Part(kind="text", label="part.resource", name=name, text=resource.text, nested=nested, place=place)
        else:
            next(numbers)
            size = f"{len(resource.blob or '') * 3 // 4:,} B"
            yield Part(kind="note", label="part.blob", name=f"{name}, {size}", nested=nested)
    else:
        yield Part(kind="json", label="part.unknown", text=pretty(block), nested=nested, place=place)


def _facts(params: CreateMessageRequestParams) -> Iterator[tuple[str, str]]:
    """Yield the remaining members of a request, each with its label."""
    yield "fact.max_tokens", str(params.max_tokens)
    if params.temperature is not None:
        yield "fact.temperature", str(params.temperature)
    if params.stop_sequences:
        yield "fact.stop", _compact(params.stop_sequences)
    if params.tool_choice and params.tool_choice.mode:
        yield "fact.tool_choice", params.tool_choice.mode
    wishes = params.model_preferences
    if wishes and wishes.hints:
        yield "fact.hints", _compact([hint.name for hint in wishes.hints])
    if wishes:
        weights = {"cost": wishes.cost_priority, "speed": wishes.speed_priority, "mind": wishes.intelligence_priority}
        for name, weight in weights.items():
            if weight is not None:
                yield f"fact.{name}", str(weight)
    if params.metadata:
        yield "fact.metadata", _compact(params.metadata)
    if params.meta is not None:
        yield "fact.meta", _compact(params.meta)


def _compact(value: object) -> str:
    return encode(value).decode("utf-8", "replace")


_PLACES: dict[Order, Callable[[Row], tuple[float, object]]] = {
    "time": lambda row: (row.created, row.id),
    "newest": lambda row: (-row.created, row.id),
    "expiry": lambda row: (math.inf if row.expires is None else row.expires, row.created),
    "risk": lambda row: (-row.warnings, row.created),
    "cost": lambda row: (-(row.worst or 0), row.created),
}
