"""Questions as rows of text: short ones for a list, complete ones to decide by.

Pure. Text of a server is inert and behind a gutter. The host's ``terminal.request_text`` draws the request itself, as
in the inline review.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal

import msgspec

from antiphon.cli.commands.review.find import explain_lateness, format_listed_id, shorten_ids
from antiphon.cli.output.scores import describe_verdict, make_score_columns
from antiphon.cli.quantities import format_time
from antiphon.host.budget import Amount, Costs, format_dollars
from antiphon.host.checks.form_fields import Field, fields_of
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.visible import inert_line
from antiphon.host.models.selection import Candidate, Selection, read_selection
from antiphon.host.review.question import Question
from antiphon.host.review.queue import AnyItem
from antiphon.host.review.review import ElicitItem, ReviewItem, ToolItem
from antiphon.host.review.summary import round_text, task_text
from antiphon.host.terminal import request_text
from antiphon.host.terminal.console import Layout
from antiphon.host.terminal.forms import list_differences
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

_GIST = 160
"""Characters of a request in a list."""
_KINDS = {
    "request": "request",
    "response": "answer to be sent",
    "elicitation": "question to you",
    "tool": "call of a tool",
}
_PAINTS = {"+": "32", "-": "31", "@": "2"}


def draw_list(questions: Sequence[Question], layout: Layout, now: float) -> Iterator[str]:
    """Draw the questions that wait: those of one round together, the oldest call first."""
    names = shorten_ids([question.id for question in questions])
    order = {question.group: at for at, question in reversed(list(enumerate(questions)))}
    for _, members in groupby(sorted(questions, key=lambda one: order[one.group]), key=lambda one: one.group):
        asks = list(members)
        yield from layout.remark(describe_origin(asks[0]))
        for question in asks:
            yield from _draw_entry(names[question.id], ", ".join(_list_facts(question, now)), layout)
            yield from layout.quoted(summarize_content(question), 2)


def _draw_entry(name: str, facts: str, layout: Layout) -> Iterator[str]:
    """Draw the id to type, and beside it the facts."""
    for at, row in enumerate(layout.wrapped(inert_line(facts), len(name) + 6)):
        yield f"   {layout.paint('1;36', name) if at == 0 else ' ' * len(name)}  {row}"


def draw_question(question: Question, layout: Layout, now: float) -> Iterator[str]:
    """Draw a complete question."""
    item = question.item
    if item is None:
        yield layout.title(f"review {question.id}")
        yield from layout.labelled("server", question.identity)
        yield from layout.labelled("asked", format_time(question.created))
        yield from layout.labelled("state", explain_lateness(question))
        return
    item = msgspec.structs.replace(item, expires_in=time_left(question, now))
    yield from _draw_item(item, layout)
    yield from layout.labelled("review", format_listed_id(question), "1")
    if question.state != "pending":
        yield from layout.labelled("state", explain_lateness(question), "1;33")
    elif not question.waited_for:
        yield from layout.labelled("state", "its process is gone: a decision is kept until it asks again", "1;33")


def draw_changes(
    before: CreateMessageRequestParams, after: CreateMessageRequestParams, layout: Layout
) -> Iterator[str]:
    """Draw the differences of two requests, line by line."""
    for line in list_differences(before, after):
        for row in layout.quoted(line):
            yield layout.paint(_PAINTS.get(line[:1], ""), row)


def describe_origin(question: Question) -> str:
    """Return one line: who asks, and for which call."""
    origin = None if question.item is None else question.item.origin
    if origin is None:
        return question.identity
    call = origin.call
    if call is None:
        return f"{mask_text(origin.target)}: for no call of yours"
    arguments = "" if call.arguments is None else encode_value(call.arguments).decode("utf-8", "replace")
    turn = "" if origin.round is None else f", {round_text(origin.round.n, request_text.ENGLISH)}"
    task = "" if origin.task is None else f"; {task_text(origin.task, request_text.ENGLISH, time.time())}"
    return f"{mask_text(origin.target)}: {call.method} {call.name or ''} {arguments}".rstrip() + turn + task


def summarize_content(question: Question) -> str:
    """Return the beginning of the request, or of the answer under review, as one line."""
    line = quote_content(question)
    return line if len(line) <= _GIST else line[: _GIST - 1] + "…"


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


def _list_facts(question: Question, now: float) -> Iterator[str]:
    yield _KINDS.get(question.kind, question.kind)
    left = time_left(question, now)
    if left is not None:
        yield f"{int(left) // 60}:{int(left) % 60:02d} left"
    item = question.item
    if isinstance(item, ReviewItem):
        yield f"by {item.model or item.provider}"
        if item.costs is not None:
            yield f"at worst {_format_cost(item.costs.worst)}"
    warnings = sum(risk.level == "warning" for risk in item.risks) if item else 0
    if warnings:
        yield f"! {warnings} to look at"
    if not question.waited_for:
        yield "nobody waits at the moment"


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
            yield from _draw_request(item, layout)


def _draw_request(item: ReviewItem, layout: Layout) -> Iterator[str]:
    yield from request_text.show_request(item, layout)
    rows = list(draw_changes(item.received, item.params, layout))
    if rows:
        yield layout.title("what the host changed in what the server sent")
        yield from rows
    yield from _draw_costs(item.costs, layout)
    yield from _draw_selection(item, layout)
    if item.models:
        yield from layout.labelled("or", f"another model (--model): {', '.join(item.models)}")


def _draw_field(field: Field, layout: Layout) -> Iterator[str]:
    need = "needed" if field.required else "may be left out"
    default = "" if field.default is None else f", the server suggests {encode_value(field.default).decode()}"
    options = "" if not field.options else " of " + ", ".join(f'"{option.value}"' for option in field.options)
    yield from layout.remark(f"{field.name}: {field.kind}{options}, {need}{default}")
    if field.description:
        yield from layout.quoted(field.description, 2)


def _draw_costs(costs: Costs | None, layout: Layout) -> Iterator[str]:
    if costs is None:
        return
    low, likely, worst = _format_cost(costs.low, "down"), _format_cost(costs.likely), _format_cost(costs.worst)
    yield from layout.labelled("costs", f"at least {low}, likely {likely}, at worst {worst}")
    yield from layout.labelled(
        "left", "no bound" if costs.left is None else format_dollars(costs.left, rounding="down")
    )


def _format_cost(amount: Amount, rounding: Literal["up", "down"] = "up") -> str:
    # Without a price only tokens are counted.
    return format_dollars(amount.money, rounding=rounding) if amount.money else f"{amount.tokens} tokens"


def _draw_selection(item: ReviewItem, layout: Layout) -> Iterator[str]:
    selection = read_selection(item.selection)
    if selection is None:
        return
    yield from layout.labelled("model", describe_verdict(selection))
    columns = {
        title: cell for title, cell in make_score_columns(selection).items() if title not in ("eligible", "hints")
    }
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
    kinds = (block.text if isinstance(block, TextContent) else f"({type(block).__name__})" for block in blocks)
    return " ".join(kinds)
