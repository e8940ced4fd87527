"""What is shown of one question: typed values for the page's templates and the terminals, complete.

Pure. Owns which facts are shown, and that messages are shown part by part, with nothing left out; the surface displays
them, and makes texts inert. A ``label`` is a key of the catalogues.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Literal

import msgspec

from antiphon.errors import InvalidParams
from antiphon.host.checks.form_fields import Field, fields_of
from antiphon.host.checks.message_parts import PlacedBlock, message_blocks, more_of
from antiphon.host.checks.risk import Risk, has_spots, list_spots
from antiphon.host.models.selection import Selection, read_selection
from antiphon.host.review import review
from antiphon.host.review.decisions import list_properties
from antiphon.host.review.definitions import changes_of
from antiphon.host.review.diff import DiffLine, compact, compare_requests, format_json
from antiphon.host.review.question import AnyItem, Question
from antiphon.host.review.summary import Who, host_of, who_of
from antiphon.host.store.base import ReviewKind
from antiphon.wire import content
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage

_TABLE = 4_000
"""Most bytes of arguments that are shown as a table; longer ones are shown as JSON alone, with their size."""


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a tool's call."""

    name: str
    value: str
    says: str = ""
    """The server's description of it."""
    default: str | None = None
    """The value it has if it is left out; ``None`` if the server names none, or if the value is the same."""


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
    """Hash of all that is shown; a decision names it."""
    scopes: tuple[review.Scope, ...] = ()
    """The scopes of a grant that can apply."""
    can_tell: bool = False
    """Whether the reason of a refusal can be sent to the server."""
    choices: frozenset[str] = frozenset()
    params: CreateMessageRequestParams | None = None
    turns: tuple[MessageTurn, ...] = ()
    answer: MessageTurn | None = None
    answer_text: str = ""
    changes: tuple[DiffLine, ...] | None = ()
    facts: tuple[tuple[str, str], ...] = ()
    item: review.ReviewItem | None = None
    read: str = ""
    """The text that waits to be handed over."""
    left_out: int = 0
    """Number of its bytes that are not shown."""
    tool_description: str = ""
    """The server's words about the tool to be called."""
    tool: str = ""
    """The rest of the server's definition of the tool, as JSON."""
    is_redefined: bool = False
    """Whether the server has changed the definition of the tool; ``changes`` are those since it was allowed."""
    labels: tuple[str, ...] | None = None
    """The labels of the tool, if the person is to check them."""
    tool_result: str = ""
    """The result of a tool under review, as JSON; empty while its call is."""
    arguments: str = ""
    table: tuple[Argument, ...] = ()
    """The arguments one by one, those that differ from their default first; empty if no table can show them."""
    selection: Selection | None = None
    message: str = ""
    url: str | None = None
    host: str = ""
    """The host of the address, shown separately, because the text before it in an address can imitate another host."""
    opens: bool = False
    """Whether the address may be a link: https, in ASCII letters, without a user name."""
    fields: tuple[Field, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The texts that a decision lets pass; for an answer, those of the answer alone."""
        shown = self.turns if self.answer is None else (self.answer,)
        parts = [part.text for turn in shown for part in turn.parts]
        if self.answer is not None or self.params is None:
            return [*parts, self.message, self.arguments, self.read, self.tool_description, self.tool, self.tool_result]
        return [*parts, self.params.system_prompt or "", *map(format_json, self.params.tools or ())]


def shape_of(question: Question) -> str | None:
    """Return what requests must have in common to be approved together: server, system prompt and tools."""
    item = question.item
    if not isinstance(item, review.ReviewItem) or item.result is not None or "approve" not in item.choices:
        return None
    alike = msgspec.structs.replace(item.params, messages=(), max_tokens=0, metadata=None, temperature=None)
    return f"{question.identity}:{review.digest(alike)}"


def collect_shown(question: Question) -> Shown | None:
    """Collect what is shown of a question; ``None`` if its content is not kept any more."""
    return None if question.item is None else _show_item(question, question.item)


def _show_item(question: Question, item: AnyItem) -> Shown:
    shown = Shown(
        id=question.id,
        kind=question.kind,
        state=question.state,
        by=question.by or "",
        decision="" if question.decision is None else review.name_of(question.decision).partition(":")[0],
        waited_for=question.waited_for,
        expires=question.expires,
        who=who_of(item.origin),
        risks=item.risks,
        raw=format_json(item.params),
        digest=review.digest(item.params),
        hash=question.hash,
        scopes=review.scopes_of(item.origin),
        can_tell=review.can_tell(item),
    )
    if isinstance(item, review.ElicitItem):
        return _show_form(shown, item)
    return _show_tool(shown, item) if isinstance(item, review.ToolItem) else _show_sampling(shown, item)


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
        hash=review.hash_of(item),
    )
    return _show_item(question, item)


def _show_tool(shown: Shown, item: review.ToolItem) -> Shown:
    said = item.origin.tool
    return msgspec.structs.replace(
        shown,
        choices=item.choices,
        digest=review.digest_item(item),
        labels=item.labels,
        tool_result="" if item.result is None else format_json(item.result),
        message=item.params.name,
        arguments=format_json(item.params),
        table=_table(item),
        read=item.text,
        left_out=item.left_out,
        tool_description="" if said is None else said.description or "",
        tool="" if said is None else format_json(msgspec.structs.replace(said, description=None)),
        is_redefined=item.allowed is not None,
        changes=() if item.allowed is None else changes_of(item.allowed, said),
    )


def _table(item: review.ToolItem) -> tuple[Argument, ...]:
    body = bytes(item.params.arguments) or b"{}"
    if len(body) > _TABLE or not body.lstrip().startswith(b"{"):
        return ()
    # The values stay undecoded, since a decoder rounds numbers.
    given = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    if json.loads(body, object_pairs_hook=len) != len(given):
        # Of two values with the same name the server may take the one that a table does not show.
        return ()
    described = list_properties(item)
    rows: list[Argument] = []
    for name, value in given.items():
        said, written = described.get(name, {}), _format_value(value)
        says, default = said.get("description"), said.get("default", value)
        # The text "1" is not the number, though it looks the same here.
        is_same = _format_value(default) == written and encode_value(default)[:1] == bytes(value)[:1]
        rows.append(
            Argument(
                name=name,
                value=written,
                says=says if isinstance(says, str) else "",
                default=None if is_same else _format_value(default),
            )
        )
    return tuple(sorted(rows, key=lambda row: row.default is None))


def _format_value(value: object) -> str:
    raw = encode_value(value)
    return msgspec.json.decode(raw) if raw.startswith(b'"') else format_json(msgspec.Raw(raw))


def _show_sampling(shown: Shown, item: review.ReviewItem) -> Shown:
    result, params = item.result, item.params
    differing = compare_requests(item.received, params)
    numbers = count()
    shown = msgspec.structs.replace(
        shown,
        choices=item.choices,
        params=params,
        turns=tuple(
            turn_of(turn, numbers, f"messages[{at}]", () if result else item.risks)
            for at, turn in enumerate(params.messages)
        ),
        changes=None if differing is None else tuple(differing),
        facts=tuple(facts_of(params)),
        item=item,
        # The record of another chooser is shown with the raw data.
        selection=read_selection(item.selection),
    )
    if result is None:
        return shown
    return msgspec.structs.replace(
        shown,
        digest=review.digest(result),
        raw=format_json(result),
        answer=turn_of(result, count(), "", item.risks),
        answer_text=result.text,
    )


def _show_form(shown: Shown, item: review.ElicitItem) -> Shown:
    url, fields = item.params.url, ()
    # The host refuses a bad form before asking anybody; if one was stored nevertheless, its raw data are shown.
    with suppress(InvalidParams):
        fields = tuple(fields_of(item.params))
    return msgspec.structs.replace(
        shown,
        message=item.params.message,
        url=url,
        host="" if url is None else host_of(url),
        opens=url is not None and _is_plain(url),
        fields=fields,
    )


def _is_plain(url: str) -> bool:
    return re.fullmatch(r"https://(?:(?![@/\\])[!-~])+(?:/[!-~]*)?", url) is not None


class MessagePart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message."""

    kind: Literal["text", "json", "image", "audio", "note"]
    text: str = ""
    label: str = ""
    name: str = ""
    size: int | None = None
    """Bytes of its media or its binary resource."""
    media: int = 0
    """Index of its media in the request."""
    nested: bool = False
    place: str = ""
    """Its place in the request, in wire names; empty if it has no place of its own."""
    spots: tuple[tuple[int, int], ...] = ()
    """The ranges of its text that look like secrets: first character, and the one after the last."""
    remarkable: bool = False
    """Whether it contains a secret that cannot be highlighted, because its values are displayed in another form."""


class MessageTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One message."""

    role: str
    parts: tuple[MessagePart, ...]


def turn_of(
    message: SamplingMessage | CreateMessageResult, numbers: Iterator[int], place: str, risks: Sequence[Risk]
) -> MessageTurn:
    """Convert one message. ``numbers`` counts its media; ``place`` is its place; ``risks`` refer to places in it."""
    parts = [*_show_parts(message_blocks(message, place), numbers), *_show_other_members(message)]
    return MessageTurn(role=message.role, parts=tuple(_point_out_risks(part, risks) for part in parts))


def _point_out_risks(part: MessagePart, risks: Sequence[Risk]) -> MessagePart:
    if not part.place:
        return part
    if part.kind == "text":
        return msgspec.structs.replace(part, spots=list_spots(risks, part.place))
    return msgspec.structs.replace(part, remarkable=has_spots(risks, part.place))


def _show_other_members(value: Any, *, nested: bool = False) -> Iterator[MessagePart]:
    """Yield the members that are sent and have no display of their own."""
    more = more_of(value)
    if more:
        yield MessagePart(kind="json", label="part.more", text=format_json(more), nested=nested)


def _show_parts(
    blocks: Iterable[PlacedBlock], numbers: Iterator[int], *, nested: bool = False
) -> Iterator[MessagePart]:
    for place, block in blocks:
        if isinstance(block, content.TextContent):
            yield MessagePart(kind="text", text=block.text, nested=nested, place=f"{place}.text")
        elif isinstance(block, content.ImageContent | content.AudioContent):
            kind = "image" if isinstance(block, content.ImageContent) else "audio"
            size = len(block.data) * 3 // 4
            yield MessagePart(
                kind=kind, label=f"part.{kind}", name=block.mime_type, size=size, media=next(numbers), nested=nested
            )
        elif isinstance(block, content.ToolUseContent):
            name, text = f"{block.name} ({block.id})", format_json(block.input)
            yield MessagePart(
                kind="json", label="part.use", name=name, text=text, nested=nested, place=f"{place}.input"
            )
        elif isinstance(block, content.ToolResultContent):
            yield from _result_parts(place, block, numbers)
        else:
            yield from _resource_parts(place, block, numbers, nested=nested)
        yield from _show_other_members(block, nested=nested)


def _result_parts(place: str, block: content.ToolResultContent, numbers: Iterator[int]) -> Iterator[MessagePart]:
    label = "part.failure" if block.is_error else "part.result"
    yield MessagePart(kind="note", label=label, name=block.tool_use_id)
    inner = (PlacedBlock(f"{place}.content[{at}]", each) for at, each in enumerate(block.content))
    yield from _show_parts(inner, numbers, nested=True)
    if block.structured_content is not None:
        text, place = format_json(block.structured_content), f"{place}.structuredContent"
        yield MessagePart(kind="json", label="part.structured", text=text, nested=True, place=place)


def _resource_parts(place: str, block: object, numbers: Iterator[int], *, nested: bool) -> Iterator[MessagePart]:
    if isinstance(block, content.ResourceLink):
        yield MessagePart(
            kind="json", label="part.link", name=block.uri, text=format_json(block), nested=nested, place=place
        )
    elif isinstance(block, content.EmbeddedResource):
        resource = block.resource
        name = f"{resource.uri} ({resource.mime_type})" if resource.mime_type else resource.uri
        if resource.text is not None:
            place = f"{place}.resource.text"
            yield MessagePart(
                kind="text", label="part.resource", name=name, text=resource.text, nested=nested, place=place
            )
        else:
            next(numbers)
            size = len(resource.blob or "") * 3 // 4
            yield MessagePart(kind="note", label="part.blob", name=name, size=size, nested=nested)
    else:
        yield MessagePart(kind="json", label="part.unknown", text=format_json(block), nested=nested, place=place)


def facts_of(params: CreateMessageRequestParams) -> Iterator[tuple[str, str]]:
    """Yield the remaining members of a request, each with its label."""
    yield "fact.max_tokens", str(params.max_tokens)
    if params.temperature is not None:
        yield "fact.temperature", str(params.temperature)
    if params.stop_sequences:
        yield "fact.stop", compact(params.stop_sequences)
    if params.tool_choice and params.tool_choice.mode:
        yield "fact.tool_choice", params.tool_choice.mode
    wishes = params.model_preferences
    if wishes and wishes.hints:
        yield "fact.hints", compact([hint.name for hint in wishes.hints])
    if wishes:
        weights = {"cost": wishes.cost_priority, "speed": wishes.speed_priority, "mind": wishes.intelligence_priority}
        for name, weight in weights.items():
            if weight is not None:
                yield f"fact.{name}", str(weight)
    if params.metadata:
        yield "fact.metadata", compact(params.metadata)
    if params.meta is not None:
        yield "fact.meta", compact(params.meta)
