"""Questions by their ids, and as rows of text: short ones for a list, complete ones to decide by.

Text of a server is inert and behind a gutter. The host has ``terminal.request_text``, which draws the request itself,
as in the inline review.
"""

from __future__ import annotations

import asyncio
import math
import os
import select
import shutil
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from antiphon.cli.arguments import find_by_prefix
from antiphon.cli.output import formats
from antiphon.host.budget import Amount, Costs, format_dollars
from antiphon.host.checks.form_fields import Field, fields_of, list_suggestions
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.visible import inert_line
from antiphon.host.models.selection import Candidate, Selection, read_selection
from antiphon.host.review import summary
from antiphon.host.review.decisions import describe_rule
from antiphon.host.review.question import Question
from antiphon.host.review.queue import HISTORY, AnyItem, Queue
from antiphon.host.review.review import ElicitItem, ReviewItem, ToolItem
from antiphon.host.store.base import ReviewState, Store
from antiphon.host.terminal import request_text
from antiphon.host.terminal.console import Layout
from antiphon.web.page_texts import PAGE_WORDS
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import CreateMessageResult

_GIST = 160
"""Characters of a request in a list."""
_URGENT = 60.0
"""Seconds: a question with less time left shows that instead of its age."""
ENGLISH = summary.load_texts("en", PAGE_WORDS)


def draw_list(
    questions: Sequence[Question], layout: Layout, now: float, words: summary.Texts = ENGLISH
) -> Iterator[list[str]]:
    """Draw the questions that wait, each as some rows: those of one round together, the oldest call first."""
    groups = summary.groups_of(questions)
    names = shorten_ids([row.id for group in groups for row in group.rows])
    for group in groups:
        head = list(layout.remark(summary.headline_of(group.who, None, words)))
        for row in group.rows:
            yield [*head, *_draw_entry(row, names[row.id], layout, now, words)]
            head = []


def _draw_entry(row: summary.Row, name: str, layout: Layout, now: float, words: summary.Texts) -> Iterator[str]:
    """Draw the id to type, beside it the facts, and below the first words."""
    left, age = math.inf if row.expires is None else row.expires - now, now - row.created
    when = summary.format_time_left(left, words) if left < _URGENT else summary.format_duration(age, words)
    flags = f"! {row.warnings}" if row.warnings else ""
    cost = format_dollars(row.worst) if row.worst else ""
    gone = "" if row.waited_for else words("queue.nobody")
    facts = "  ".join(filter(None, (words(f"kind.{row.kind}"), when, row.model, cost, flags, gone)))
    yield from layout.labelled(name, facts, "1;36" if not row.warnings else "1;33")
    yield next(layout.quoted(row.summary, 2))


def draw_question(question: Question, layout: Layout, now: float) -> Iterator[str]:
    """Draw a complete question."""
    item = question.item
    if item is None:
        yield layout.title(f"review {question.id}")
        yield from layout.labelled("server", question.identity)
        yield from layout.labelled("asked", formats.format_time(question.created))
        yield from layout.labelled("state", explain_lateness(question))
        return
    item = msgspec.structs.replace(item, expires_in=time_left(question, now))
    yield from _draw_item(item, layout)
    yield from layout.labelled("review", format_listed_id(question), "1")
    if question.state != "pending":
        yield from layout.labelled("state", explain_lateness(question), "1;33")
    elif not question.waited_for:
        yield from layout.labelled("state", "nobody waits now: a decision is kept for when it is asked again", "1;33")


def describe_origin(question: Question) -> str:
    """Return one line: who asks, and for which call."""
    if question.item is None:
        return question.identity
    origin, call = question.item.origin, question.item.origin.call
    if call is None:
        return f"{mask_text(origin.target)}: for no call of yours"
    arguments = "" if call.arguments is None else encode_value(call.arguments).decode("utf-8", "replace")
    turn = "" if origin.round is None else f", {summary.round_text(origin.round.n, request_text.ENGLISH)}"
    task = "" if origin.task is None else f"; {summary.task_text(origin.task, request_text.ENGLISH, time.time())}"
    return f"{mask_text(origin.target)}: {call.method} {call.name or ''} {arguments}".rstrip() + turn + task


def quote_content(question: Question) -> str:
    """Return the request, or the answer under review, completely and as one line."""
    item = question.item
    if item is None:
        return ""
    if isinstance(item, ElicitItem):
        # An approval accepts the address as well.
        text = item.params.message if item.params.url is None else f"{item.params.message} {item.params.url}"
    elif isinstance(item, ToolItem):
        text = bytes(item.params.arguments).decode("utf-8", "replace")
    elif item.result is not None:
        text = _join_text(item.result.blocks)
    else:
        text = _join_text(item.params.messages[-1].blocks)
    return " ".join(text.split())


def time_left(question: Question, now: float) -> float | None:
    """Return the seconds until nobody waits any more."""
    return None if question.expires is None else max(0.0, question.expires - now)


def _draw_item(item: AnyItem, layout: Layout) -> Iterator[str]:
    match item:
        case ElicitItem():
            yield from request_text.show_elicitation(item, layout)
            if item.params.url is not None:
                yield from request_text.show_address(item.params.url, layout)
            for field in fields_of(item.params):
                yield from _draw_field(field, layout)
        case ToolItem():
            yield from request_text.show_tool(item, layout)
        case ReviewItem(result=CreateMessageResult() as result):
            yield from request_text.show_result(item, result, layout)
        case _:
            yield from request_text.show_request(item, layout)
            yield from _draw_costs(item.costs, layout)
            yield from _draw_selection(item, layout)
            if item.models:
                yield from layout.labelled("or", f"another model (--model): {', '.join(item.models)}")


def _draw_field(field: Field, layout: Layout) -> Iterator[str]:
    need = "needed" if field.required else "may be left out"
    default = "" if field.default is None else f", the server suggests {encode_value(field.default).decode()}"
    options = "" if not field.options else " of " + ", ".join(f'"{option.value}"' for option in field.options)
    rule = describe_rule(field, ENGLISH)
    yield from layout.remark(f"{field.name}: {field.kind}{options}{rule and f' ({rule})'}, {need}{default}")
    if field.description:
        yield from layout.quoted(field.description, 2)


def _draw_costs(costs: Costs | None, layout: Layout) -> Iterator[str]:
    if costs is None:
        return
    low, likely, worst = _format_cost(costs.low, "down"), _format_cost(costs.likely), _format_cost(costs.worst)
    yield from layout.labelled("costs", f"at least {low}, likely {likely}, at worst {worst}")
    left = "no bound" if costs.left is None else format_dollars(costs.left, rounding="down")
    yield from layout.labelled("left", left)


def _format_cost(amount: Amount, rounding: Literal["up", "down"] = "up") -> str:
    # Without a price only tokens are counted.
    return format_dollars(amount.money, rounding=rounding) if amount.money else f"{amount.tokens} tokens"


def _draw_selection(item: ReviewItem, layout: Layout) -> Iterator[str]:
    selection = read_selection(item.selection)
    if selection is None:
        return
    yield from layout.labelled("model", formats.describe_verdict(selection))
    all_columns = formats.make_score_columns(selection)
    columns = {title: cell for title, cell in all_columns.items() if title not in ("eligible", "hints")}
    table = [[*columns], *([cell(each) for cell in columns.values()] for each in selection.candidates)]
    # The reason why a model cannot answer comes last, because it is long.
    remarks = ["", *(_describe_candidate(each, selection) for each in selection.candidates)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for at, (row, remark) in enumerate(zip(table, remarks, strict=True)):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield from layout.labelled("", f"{line}  {remark}".rstrip(), "" if at else "2")


def _describe_candidate(candidate: Candidate, selection: Selection) -> str:
    if candidate.obstacles:
        return "cannot: " + "; ".join(obstacle.detail for obstacle in candidate.obstacles)
    return f"hinted at: {selection.hint}" if selection.hint is not None and candidate.left_by_hints else ""


def _join_text(blocks: Iterable[object]) -> str:
    return " ".join(block.text if isinstance(block, TextContent) else f"({type(block).__name__})" for block in blocks)


_LEAST = 4
"""Least letters of an id that are shown: few enough to be typed."""
_HASH = 12
"""Hexadecimal digits of a hash in a list: enough to exclude a coincidence."""
MOST = 10_000
"""Most questions that are searched or listed, far more than ever wait for one person."""


async def find_question(store: Store, id: str) -> Question:
    """Find the question whose id has this prefix, preferably one that waits.

    ``id`` may be ``ID:HASH``, as listed; the question must then have this content.
    """
    id, _, hash = id.lower().partition(":")
    states: Sequence[tuple[ReviewState, ...]] = (("pending",), HISTORY)
    for some in states:
        found = [row.id for row in await store.reviews(some, MOST, contents=False) if id and row.id.startswith(id)]
        if found:
            question = await Queue(store).get(find_by_prefix(id, found, ""))
            if hash and not question.hash.startswith(hash):
                remedy = f"antiphon review show {question.id}"
                raise formats.Failed(f"{question.id}: is not what was listed any more: {remedy}")
            return question
    raise formats.Failed(f"there is no review {id}: antiphon review list")


async def find_pending(store: Store, ids: Sequence[str]) -> list[Question]:
    """Find questions that can be decided, each once."""
    found = {question.id: question for question in [await find_question(store, id) for id in ids]}
    for question in found.values():
        if question.state != "pending":
            raise formats.Failed(explain_lateness(question))
    return list(found.values())


def explain_lateness(question: Question) -> str:
    """Say why a question cannot be decided, or not any more."""
    if question.state == "pending" and question.item is None:
        return f"{question.id}: it waits, but cannot be read by this release; a newer one may have stored it"
    if question.state in ("held", "decided", "done"):
        became = "" if question.outcome is None else f". {summary.outcome_text(question.outcome, ENGLISH)}"
        more = ", who can still undo it" if question.state == "held" else became
        return f"{question.id}: already decided by {question.by or 'somebody'}{more}"
    if question.state in ("pending", "expired"):
        return f"{question.id}: has expired, which is a refusal"
    why = {"blocked": "its server is blocked", "taken": "the same call was decided in another question"}
    became = "" if question.outcome is None else question.outcome.became
    return f"{question.id}: was withdrawn, {why.get(became, 'nobody waits for an answer any more')}"


def format_listed_id(question: Question) -> str:
    """Return a question's id with the hash of its content, so that a script approves exactly what it has listed."""
    return f"{question.id}:{question.hash[:_HASH]}" if question.hash else question.id


def is_named_as_listed(question: Question, ids: Sequence[str]) -> bool:
    """Return whether a question was named with as many digits of its hash as ``format_listed_id`` returns."""
    named = (id.lower().partition(":") for id in ids)
    return any(question.id.startswith(id) and len(hash) >= _HASH for id, _, hash in named if id)


def shorten_ids(ids: Collection[str]) -> dict[str, str]:
    """Shorten ids to the shortest prefixes that are unique."""
    length = _LEAST
    while len({id[:length] for id in ids}) < len(set(ids)):
        length += 1
    return {id: id[:length] for id in ids}


_TICK = 0.5
"""Seconds between two reads; shorter ones would not be noticed."""


def make_layout() -> Layout:
    """Return the layout for standard output: as wide as the terminal; no colours and no width otherwise."""
    if not formats.is_terminal():
        return Layout(columns=0)
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in (None, "", "dumb")
    return Layout(columns=shutil.get_terminal_size().columns, color=not plain)


async def list_pending(store: Store, limit: int, after: str | None, *, as_json: bool) -> None:
    """List once: grouped by call on a terminal, else one line per question; ``left`` if its process has ended.

    If more questions wait than are listed, standard error says how many, and how to list the next ones.
    """
    queue = Queue(store)
    last = None if after is None else (await find_question(store, after)).id
    questions, now = await queue.pending(limit, last), time.time()
    if as_json or not formats.is_terminal():
        for question in questions:
            _write_question(question, now, as_json=as_json)
    elif not questions:
        formats.write_line("Nothing waits for you.")
    else:
        for rows in draw_list(questions, make_layout(), now):
            formats.write_line("\n".join(rows))
    count = await queue.waiting()
    if count > len(questions):
        rest = f"; the next ones: antiphon review list --after {questions[-1].id}" if len(questions) == limit else ""
        formats.write_line(f"{len(questions)} of {count} that wait{rest}", sys.stderr)


async def watch_queue(store: Store, *, as_json: bool) -> None:
    """Write a line when a question comes, and one when it is decided."""
    queue = Queue(store)
    waiting: dict[str, Question] = {}
    seen = -1
    while not _is_unread():
        version = await store.reviews_version()
        if version != seen:
            seen, now = version, time.time()
            pending = {question.id: question for question in await queue.pending()}
            over = [await queue.get(id) for id in waiting if id not in pending]
            for question in (*over, *(pending[id] for id in pending if id not in waiting)):
                _write_question(question, now, as_json=as_json)
            waiting = pending
        await asyncio.sleep(_TICK)


def _is_unread() -> bool:
    """Return whether the reader of our output has gone (``| head``)."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _write_question(question: Question, now: float, *, as_json: bool) -> None:
    if as_json:
        formats.print_json(_summarize_question(question, now))
        return
    left = time_left(question, now)
    cells = [
        format_listed_id(question),
        question.state if question.waited_for or question.state != "pending" else "left",
        question.kind,
        "" if left is None else f"{left:.0f}",
        describe_origin(question),
        quote_content(question),
    ]
    formats.write_line("\t".join(map(inert_line, cells)))


_MEMBERS = ("id", "kind", "state", "group", "identity", "created", "expires", "waited_for", "by", "decided", "hash")
"""Members of a question in its JSON."""


def _summarize_question(question: Question, now: float) -> dict[str, Any]:
    item = question.item
    summary: dict[str, Any] = {name: getattr(question, name) for name in _MEMBERS}
    summary["left"] = time_left(question, now)
    if item is not None:
        summary |= {name: getattr(item.origin, name) for name in ("target", "call", "round", "task")}
        gist = quote_content(question)
        summary["gist"] = gist if len(gist) <= _GIST else f"{gist[: _GIST - 1]}…"
        summary["warnings"] = [risk.text for risk in item.risks if risk.level == "warning"]
    if isinstance(item, ReviewItem):
        summary |= {"provider": item.provider, "model": item.model, "choices": sorted(item.choices)}
        summary["worst"] = item.costs.worst if item.costs else None
    elif isinstance(item, ElicitItem):
        summary |= {"mode": item.params.mode, "url": item.params.url}
        summary["suggested"] = list_suggestions(item.params) or None
    return summary
