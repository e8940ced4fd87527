"""A request, an answer or an elicitation as rows of text: complete, in reading order, inert.

Pure. Owns what is shown besides the messages, and in which order; ``console`` has widths and gutters.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import count

import msgspec

from antiphon.host.checks.risk import Risk
from antiphon.host.review import summary
from antiphon.host.review.definitions import changes_of
from antiphon.host.review.diff import DiffLine, compact, compare_requests, format_json
from antiphon.host.review.question import AnyItem
from antiphon.host.review.review import ElicitItem, ReviewItem, ToolItem
from antiphon.host.review.shown import facts_of, turn_of
from antiphon.host.terminal.console import Layout
from antiphon.wire.common import CONFIRMS
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage

ENGLISH = summary.load_texts("en")
_PAINTS = {"+": "32", "-": "31"}


def show_request(item: ReviewItem, layout: Layout, words: summary.Texts = ENGLISH) -> Iterator[str]:
    """Show a sampling request as it will be sent, how it differs from what the server sent, and who asks."""
    yield from _draw_headline("ask.request", item, layout, words)
    yield from _draw_risks(item.risks, layout, words)
    yield from show_params(item.params, layout, words)
    changes = compare_requests(item.received, item.params)
    if changes != []:
        yield layout.title(words("changes.title"))
        yield from show_changes(changes, "changes.long", layout, words)
    answers = item.provider if item.model in (None, item.provider) else words("show.model", model=item.model)
    yield from layout.labelled(words("show.answers"), answers)
    yield from _draw_who(item.origin, layout, words)


def show_params(params: CreateMessageRequestParams, layout: Layout, words: summary.Texts) -> Iterator[str]:
    """Show every part of a request that a provider would see."""
    if params.system_prompt is not None:
        yield layout.paint("1", f" {words('show.system')}")
        yield from layout.quoted(params.system_prompt)
    for at, message in enumerate(params.messages, 1):
        role = words(f"role.{'user' if message.role == 'user' else 'assistant'}")
        yield layout.paint("1", f" {at}. {role}")
        yield from _draw_turn(message, layout, words, 2)
    if params.tools:
        yield layout.paint("1", f" {words('show.tools')}")
        for tool in params.tools:
            yield from layout.remark(summary.cut_name(tool.name), 2)
            yield from layout.quoted(format_json(tool), 2)
    quoted = {"fact.metadata": params.metadata or None, "fact.meta": params.meta}
    for label, value in quoted.items():
        if value is not None:
            yield layout.paint("1", f" {words(label)}")
            yield from layout.quoted(format_json(value))
    facts = (f"{words(label)}: {value}" for label, value in facts_of(params) if label not in quoted)
    yield from layout.labelled(words("show.asks"), " · ".join(facts))


def show_result(
    item: ReviewItem, result: CreateMessageResult, layout: Layout, words: summary.Texts = ENGLISH
) -> Iterator[str]:
    """Show an answer before it goes to the server."""
    yield from _draw_headline("ask.response", item, layout, words)
    made = words("show.made", provider=item.provider, model=result.model, stop=result.stop_reason or "?")
    yield from layout.labelled(words("show.from"), made)
    yield from _draw_risks(item.risks, layout, words)
    yield from _draw_turn(result, layout, words, 0)
    yield from _draw_who(item.origin, layout, words)


def show_tool(item: ToolItem, layout: Layout, words: summary.Texts = ENGLISH) -> Iterator[str]:
    """Show a tool call before it is sent, or its result: all arguments, the server's description, and the server."""
    yield from _draw_headline("ask.tool" if item.result is None else "ask.tool.result", item, layout, words)
    yield from _draw_risks(item.risks, layout, words)
    yield from layout.labelled(words("show.tool"), summary.cut_name(item.params.name), "1")
    for names in item.demands.to:
        yield from layout.remark(words("demand.to", to=", ".join(names)))
    if item.demands.people > 1:
        yield from layout.remark(words("demand.people", n=item.demands.people))
    if item.result is not None:
        yield layout.paint("1", f" {words('tool.result')}")
        yield from layout.quoted(format_json(item.result))
    yield layout.paint("1", f" {words('show.arguments')}")
    yield from layout.quoted(format_json(msgspec.Raw(bytes(item.params.arguments) or b"{}")))
    if item.text or item.left_out:
        yield from layout.remark(words("tool.read"), 0)
        yield from layout.quoted(item.text)
    if item.left_out:
        yield from layout.remark(words("tool.left_out", n=item.left_out), 0)
    tool = item.origin.tool
    if item.allowed is not None:
        yield layout.paint("1", f" {words('tool.redefined')}")
        yield from show_changes(changes_of(item.allowed, tool), "tool.uncompared", layout, words)
    if tool is not None and tool.description:
        yield from layout.remark(words("show.said"), 0)
        yield from layout.quoted(tool.description)
    if tool is not None and isinstance(question := (tool.meta or {}).get(CONFIRMS), str):
        yield from layout.quoted(question)
    yield from _draw_who(item.origin, layout, words, call=False)


def show_changes(
    lines: Iterable[DiffLine] | None, too_long: str, layout: Layout, words: summary.Texts = ENGLISH
) -> Iterator[str]:
    """Show a comparison line by line; if it is ``None``, the text of the key ``too_long``."""
    if lines is None:
        yield from layout.remark(words(too_long), 0)
    for line in lines or ():
        yield from (layout.paint(_PAINTS.get(line.sign, ""), row) for row in layout.quoted(f"{line.sign} {line.text}"))


def show_elicitation(item: ElicitItem, layout: Layout, words: summary.Texts = ENGLISH) -> Iterator[str]:
    """Show what a server asks of the person, and who it is; fields and address follow."""
    yield from _draw_headline(
        "ask.elicitation" if item.params.url is None else "ask.elicitation.url", item, layout, words
    )
    yield from _draw_risks(item.risks, layout, words)
    yield from layout.quoted(item.params.message)
    yield from _draw_who(item.origin, layout, words)


def show_address(url: str, layout: Layout, words: summary.Texts = ENGLISH) -> Iterator[str]:
    """Show a complete address, and its host separately, because the text before it can imitate another host."""
    yield from layout.labelled(words("who.host"), summary.host_of(url) or "-", "1")
    yield from msgspec.structs.replace(layout, fold=0).quoted(url)


def _draw_headline(title: str, item: AnyItem, layout: Layout, words: summary.Texts) -> Iterator[str]:
    """Draw the title of this key, the time that is left, who asks and, of a request, what it may cost."""
    yield layout.title(words(title))
    left = "" if item.expires_in is None else f"{summary.format_time_left(item.expires_in, words)} · "
    costs = item.costs if isinstance(item, ReviewItem) and item.result is None else None
    yield from layout.remark(f"{left}{summary.headline_of(summary.who_of(item.origin), costs, words)}", 0)


def _draw_who(origin: Origin, layout: Layout, words: summary.Texts, *, call: bool = True) -> Iterator[str]:
    who = summary.who_of(origin)
    yield from layout.labelled(words("show.server"), f"{who.target}  ({words(who.kind_key)} {who.short})", "1")
    if origin.server is not None:
        name, version = summary.cut_name(origin.server.name), summary.cut_name(origin.server.version)
        yield from layout.labelled("", f'{words("who.claims")} "{name}" {version}'.rstrip())
    if call:
        yield from _draw_call(origin, layout, words)
    if (task := who.task) is not None:
        yield from layout.labelled("", summary.task_text(task, words, time.time()))
        if task.says:
            yield from layout.labelled("", f'{words("who.task_says")} "{task.says}"')


def _draw_call(origin: Origin, layout: Layout, words: summary.Texts) -> Iterator[str]:
    call = origin.call
    if origin.door:
        yield from layout.labelled("", words("who.model_api"))
    if call is None:
        yield from layout.labelled(words("show.for"), words(summary.who_of(origin).without_call))
        return
    arguments = "" if call.arguments is None else compact(call.arguments)
    yield from layout.labelled(
        words("show.for"), f"{call.method} {summary.cut_name(call.name or '')} {arguments}".rstrip()
    )


def _draw_risks(risks: Iterable[Risk], layout: Layout, words: summary.Texts) -> Iterator[str]:
    for risk in risks:
        sign, paint = ("!", "1;33") if risk.level == "warning" else ("·", "")
        yield from layout.labelled("", f"{sign} {words.risk(risk)}", paint)


def _draw_turn(
    message: SamplingMessage | CreateMessageResult, layout: Layout, words: summary.Texts, indent: int
) -> Iterator[str]:
    for part in turn_of(message, count(), "", ()).parts:
        at = indent + 2 if part.nested else indent
        if part.label:
            size = "" if part.size is None else f", {words('show.bytes', n=part.size)}"
            # In quotation marks, since it is the server's.
            yield from layout.remark(
                f"{words(part.label)} {compact(summary.cut_name(part.name)) if part.name else ''}{size}", at
            )
        if part.kind in ("text", "json"):
            yield from layout.quoted(part.text, at)
