"""One question as pieces, in the order of the page: who, risks, the exact request, changes, model, cost.

Pure. ``host.review.shown`` has the content, ``model_table`` models and costs; this draws them for a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from antiphon.cli.screen.drawn.model_table import figures
from antiphon.cli.screen.drawn.pieces import Piece, Style, blank, fact, folded, kept, ours, quoted, theirs, title
from antiphon.cli.screen.words import Words
from antiphon.host.checks.forms import Field
from antiphon.host.checks.risk import Risk
from antiphon.host.review.diff import Line, pretty
from antiphon.host.review.parts import Part, Turn
from antiphon.host.review.question import Question
from antiphon.host.review.review import Rival
from antiphon.host.review.shown import Shown
from antiphon.host.review.summary import figures_text
from antiphon.host.review.who import Who, task_text
from antiphon.wire.envelope import encode
from antiphon.wire.tools import Tool

__all__ = ["changed", "draw", "heading", "kept_only", "turns"]

_SIGNS: dict[str, Style] = {"+": "added", "-": "removed"}


def heading(shown: Shown, words: Words) -> str:
    """Return a line about what is asked."""
    return words(f"ask.{shown.kind}{'.url' if shown.url is not None else ''}")


def draw(shown: Shown, words: Words, *, raw: bool, model: str | None = None, whole: bool = True) -> Iterator[Piece]:
    """Show a question: first what will be sent, then changes, who answers, who asks, and risks.

    ``raw``: its JSON as well. ``model``: the one a person has chosen instead. ``whole``: long texts are not folded.
    """
    pieces = _drawn(shown, words, model)
    yield from pieces if whole else (part for piece in pieces for part in folded(piece, words))
    yield blank()
    if raw:
        yield title(words("raw.title"))
        yield quoted(shown.raw)
    else:
        yield ours(words("screen.raw"), "dim")


def _drawn(shown: Shown, words: Words, model: str | None) -> Iterator[Piece]:
    if shown.state == "pending" and not shown.waited_for:
        yield ours(words("over.nobody"), "state")
    yield ours(heading(shown, words), "strong")
    if shown.kind == "elicitation":
        yield from _form(shown, words)
    elif shown.kind == "tool":
        yield from _tool(shown, words)
    else:
        yield from _sampling(shown, words, model)
    yield from _who(shown.who, shown.id, words)
    yield from _risks(shown.risks, words)


def kept_only(question: Question, words: Words) -> Iterator[Piece]:
    """Show what is left of a question that is over."""
    yield fact(words("who.server"), question.identity)
    yield fact(words("screen.id"), question.id)


def changed(lines: Sequence[Line] | None, words: Words) -> Iterator[Piece]:
    """Show the differences, line by line."""
    if lines is None:
        yield ours(words("changes.long"), "warning")
    elif not lines:
        yield ours(words("changes.none"), "dim")
    for line in lines or ():
        yield quoted(f"{line.sign} {line.text}", _SIGNS.get(line.sign, ""))


def _who(who: Who, id: str, words: Words) -> Iterator[Piece]:
    yield title(words("who.title"))
    kind = words(f"who.kind.{'url' if who.kind == 'url' else 'command'}")
    yield fact(words("who.server"), f"{who.target}  ({kind} {who.short})", "strong")
    if who.claims:
        yield theirs(fact(words("who.claims"), f'"{who.claims}"'))
    turn = f" · {words('who.round', n=who.round[0], max=who.round[1])}" if who.round else ""
    yield fact(words("who.call"), f"{who.call or words('who.background')}{turn}")
    if who.task:
        yield fact("", task_text(who.task, words, time.time()))
        if who.task.says:
            yield theirs(fact("", f'{words("who.task_says")} "{who.task.says}"'))
    if who.door:
        yield fact("", words("who.model_api"), "dim")
    if who.arguments:
        yield quoted(who.arguments)
    yield fact(words("screen.id"), id, "dim")


def _risks(risks: Iterable[Risk], words: Words) -> Iterator[Piece]:
    risks = list(risks)
    yield title(words("risks.label"))
    if not risks:
        yield ours(words("risks.none"), "dim")
    for risk in risks:
        sign = "!" if risk.level == "warning" else "·"
        yield ours(words.risk(risk), "warning" if risk.level == "warning" else "", f" {sign} ")


def _rival(shown: Shown, rival: Rival, words: Words) -> Iterator[Piece]:
    if shown.rival is None:
        yield ours(words("rival.none", why=words(f"rival.why.{rival.why}")), "warning")
        return
    yield from _risks(rival.risks, words)
    yield from _parts(shown.rival.parts, words)


def _sampling(shown: Shown, words: Words, model: str | None) -> Iterator[Piece]:
    if shown.answer is not None and shown.item is not None and shown.item.result is not None:
        result, rival = shown.item.result, shown.item.rival
        yield title(words("answer.title", model=result.model, stop=result.stop_reason or "-"))
        if rival is not None:
            yield ours(figures_text(shown.item.figures, words), "dim")
        yield from _parts(shown.answer.parts, words)
        if rival is not None:
            yield title(words("rival.title"))
            yield ours(figures_text(rival.figures, words), "dim")
            yield from _rival(shown, rival, words)
    params = shown.params
    if params is None:
        return
    if params.system_prompt is not None:
        yield title(words("request.system"))
        # Short when folded, so that the messages are visible as well.
        yield quoted(params.system_prompt)._replace(rows=3)
    yield title(words("request.messages", n=len(shown.turns)))
    yield from turns(shown.turns, words)
    yield title(words("changes.title"))
    yield from changed(shown.changes, words)
    yield from _tools(params.tools or (), words)
    yield from figures(shown, words, model)


def turns(said: Iterable[Turn], words: Words) -> Iterator[Piece]:
    """Show what was said, one after another."""
    for at, turn in enumerate(said, 1):
        role = words(f"role.{'assistant' if turn.role == 'assistant' else 'user'}")
        yield ours(f"{at} · {role}", "strong")
        yield from _parts(turn.parts, words)


def _parts(parts: Iterable[Part], words: Words) -> Iterator[Piece]:
    for part in parts:
        indent = 2 if part.nested else 0
        lead = f"{' ' * (indent + 1)}▪ "
        if part.kind in ("image", "audio"):
            yield theirs(ours(f"{words(f'part.{part.kind}')} {part.name}", "strong", lead))
            continue
        if part.label:
            yield theirs(ours(f"{words(part.label)} {part.name}", "strong", lead))
        if part.kind != "note":
            yield quoted(part.text, indent=indent)


def _tools(tools: Sequence[Tool], words: Words) -> Iterator[Piece]:
    if not tools:
        return
    yield title(words("request.tools", n=len(tools)))
    yield ours(words("request.tools_note"), "dim")
    for tool in tools:
        yield theirs(ours(tool.name, "strong", " ▪ "))
        yield quoted(pretty(tool), indent=2)


def _tool(shown: Shown, words: Words) -> Iterator[Piece]:
    yield title(words("tool.sent"))
    yield fact(words("grants.tool"), shown.message, "strong")
    yield quoted(shown.arguments)
    if shown.is_redefined:
        yield title(words("tool.redefined"))
        if shown.changes is None:
            yield ours(words("tool.uncompared"), "warning")
        else:
            yield from changed(shown.changes, words)
    if shown.tool:
        yield title(words("tool.said"))
        yield quoted(shown.tool)


def _form(shown: Shown, words: Words) -> Iterator[Piece]:
    if shown.url is not None:
        yield fact(words("who.host"), shown.host or "-", "strong")
        yield kept(quoted(shown.url))
        if not shown.opens:
            yield ours(words("form.strange"), "warning")
    yield title(words("form.message"))
    yield quoted(shown.message)
    for field in shown.fields:
        yield from _field(field, words)


def _field(field: Field, words: Words) -> Iterator[Piece]:
    need = f" {words('form.required')}" if field.required else ""
    yield ours(f"{field.title}{need}", "strong", " ▪ ")
    if field.description:
        yield quoted(field.description, indent=2)
    for option in field.options:
        same = option.title == option.value
        yield ours(option.title if same else f"{option.title} ({option.value})", lead="   - ")
    if field.default is not None:
        yield ours(words("form.default", value=encode(field.default).decode()), "dim", "   ")
