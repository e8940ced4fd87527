"""What is shown of one question: typed values for the page's templates and the terminals, complete.

Pure. Owns which facts are shown; the surface displays them, and makes texts inert.
"""

from __future__ import annotations

from itertools import count
from typing import cast

import msgspec

from antiphon.errors import InvalidParams
from antiphon.host.checks.forms import Field, fields_of
from antiphon.host.checks.risk import Risk
from antiphon.host.models.selection import Selection, kept_selection
from antiphon.host.review.definitions import changes_of
from antiphon.host.review.diff import Line, differences, pretty
from antiphon.host.review.fit import AnyItem
from antiphon.host.review.parts import Turn, facts_of, turn_of
from antiphon.host.review.question import Question
from antiphon.host.review.review import (
    ElicitItem,
    ReviewItem,
    Scope,
    ToolItem,
    can_tell,
    digest,
    hash_of,
    name_of,
    scopes_of,
)
from antiphon.host.review.summary import host_of
from antiphon.host.review.who import Who, who_of
from antiphon.host.store.base import ReviewKind
from antiphon.wire.envelope import encode
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["Argument", "Shown", "shape_of", "show", "show_item"]


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
    scopes: tuple[Scope, ...] = ()
    """The scopes of a grant that can apply."""
    can_tell: bool = False
    """Whether the reason of a refusal can be sent to the server."""
    choices: frozenset[str] = frozenset()
    params: CreateMessageRequestParams | None = None
    turns: tuple[Turn, ...] = ()
    answer: Turn | None = None
    answer_text: str = ""
    rival: Turn | None = None
    """The answer of a second model, beside ``answer``."""
    rival_digest: str = ""
    """What a decision for the second answer names."""
    changes: tuple[Line, ...] | None = ()
    facts: tuple[tuple[str, str], ...] = ()
    item: ReviewItem | None = None
    tool: str = ""
    """The server's description of the tool to be called, as JSON."""
    is_redefined: bool = False
    """Whether the server has changed the definition of the tool; ``changes`` are those since it was allowed."""
    arguments: str = ""
    table: tuple[Argument, ...] = ()
    """The arguments one by one, those that differ from their default first; empty if they are too long for a table."""
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
        shown = [turn for turn in (self.answer, self.rival) if turn is not None] or self.turns
        parts = [part.text for turn in shown for part in turn.parts]
        if self.answer is not None or self.params is None:
            return [*parts, self.message, self.arguments, self.tool]
        return [*parts, self.params.system_prompt or "", *map(pretty, self.params.tools or ())]


def shape_of(question: Question) -> str | None:
    """Return what requests must have in common to be approved together: server, system prompt and tools."""
    item = question.item
    if not isinstance(item, ReviewItem) or item.result is not None or "approve" not in item.choices:
        return None
    alike = msgspec.structs.replace(item.params, messages=(), max_tokens=0, metadata=None, temperature=None)
    return f"{question.identity}:{digest(alike)}"


def show(question: Question) -> Shown | None:
    """Collect what is shown of a question; ``None`` if its content is not kept any more."""
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
        scopes=scopes_of(item.origin),
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


def _tool(shown: Shown, item: ToolItem) -> Shown:
    said = item.origin.tool
    changes = () if item.allowed is None else changes_of(item.allowed, said)
    return msgspec.structs.replace(
        shown,
        choices=item.choices,
        message=item.params.name,
        arguments=pretty(item.params),
        table=_table(item),
        tool="" if said is None else pretty(said),
        is_redefined=item.allowed is not None,
        changes=changes,
    )


def _members(value: object) -> dict[str, object]:
    """Return the members of a part of a schema; a server can write anything in their place."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _table(item: ToolItem) -> tuple[Argument, ...]:
    body = encode(item.params.arguments or {})
    if len(body) > _TABLE:
        return ()
    given = msgspec.json.decode(body, type=dict[str, object])
    tool = item.origin.tool
    described = _members(
        None if tool is None else _members(msgspec.json.decode(encode(tool.input_schema))).get("properties")
    )
    rows: list[Argument] = []
    for name, value in given.items():
        said = _members(described.get(name))
        says, default = said.get("description"), said.get("default", value)
        rows.append(
            Argument(
                name=name,
                value=_written(value),
                says=says if isinstance(says, str) else "",
                default=None if default == value else _written(default),
            )
        )
    return tuple(sorted(rows, key=lambda row: row.default is None))


def _written(value: object) -> str:
    return value if isinstance(value, str) else pretty(value)


def _sampling(shown: Shown, item: ReviewItem) -> Shown:
    result, params = item.result, item.params
    differing = differences(item.received, params)
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
        selection=kept_selection(item.selection),
    )
    if result is None:
        return shown
    second = None if item.rival is None else item.rival.result
    numbers = count()
    return msgspec.structs.replace(
        shown,
        rival=None if second is None or item.rival is None else turn_of(second, count(), "", item.rival.risks),
        rival_digest="" if second is None else digest(second),
        digest=digest(result),
        raw=pretty(result),
        answer=turn_of(result, numbers, "", item.risks),
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
        # The host refuses such a form before asking anybody; if one was stored nevertheless, its raw data are
        # shown.
        return ()


def _is_plain(url: str) -> bool:
    host = url.removeprefix("https://").partition("/")[0]
    return url.startswith("https://") and url.isascii() and url.isprintable() and "@" not in host and " " not in url


def _decided(question: Question) -> str:
    decision = question.decision
    if decision is None:
        return ""
    return getattr(decision, "action", "") or name_of(decision).partition(":")[0]
