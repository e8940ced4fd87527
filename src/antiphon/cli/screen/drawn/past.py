"""Past decisions, grants and spending, as pieces for a terminal.

Pure. The page shows the same records and numbers, with the same texts; this owns their form on a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from antiphon.cli.screen.drawn.pieces import Piece, blank, fact, ours, quoted, table, title
from antiphon.cli.screen.drawn.request import changed, turns
from antiphon.cli.screen.words import Words
from antiphon.host.budget import brief_dollars, dollars
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.grants import Given
from antiphon.host.review.history import Told
from antiphon.host.review.spending import Bound, Spending
from antiphon.host.store.asks import AskRow, Placed
from antiphon.host.store.base import BlockRow

__all__ = ["blocked", "covered", "decision", "ending", "given", "happened", "record", "row_of", "spent"]

_BAR = 24
"""Cells of a bar."""
_HASH = 12
"""Digits of a hash, as on the page."""
_DIGITS = 20
"""Characters of an identity that are shown if no name is known, as on the page."""
_LINES = 300
"""Most rows of the table of spending; the command line shows all of them."""


def row_of(row: AskRow, names: Mapping[str, str], words: Words) -> Iterator[Piece]:
    """Show one ask in a list: its time, server, decision, end, cost and first words."""
    whose = " · ".join(filter(None, (_server(names, row.identity, row.server), row.tool)))
    said = " · ".join(filter(None, (decision(row, words), ending(row, words), _cost(row, words))))
    yield ours(f"{_moment(row.at)}  {whose}", "strong", "   ")
    yield ours(f"{_word('method', row.method, words)}: {said}", "", "   ")
    if row.words:
        yield quoted(row.words, indent=2)
    else:
        yield ours(words("history.not_kept"), "dim", "   ")


def decision(row: AskRow, words: Words) -> str:
    """Say what was decided, and by whom; empty if nobody was asked."""
    by = f" {words('history.by_whom', by=row.by)}" if row.by else ""
    reason = f" “{row.reason}”" if row.reason else ""
    return f"{_word('decision', row.decision, words)}{by}{reason}".strip()


def ending(row: AskRow, words: Words) -> str:
    """Say how it ended, and what became of the answer."""
    said = _word("ending", row.ending, words)
    cause, _, detail = row.outcome.partition(":")
    if row.ending == "refused" and cause != "user":
        return f"{said} {_word('cause', cause, words)}{f' ({detail})' if detail else ''}"
    if row.arrival is not None:
        why = f"became.why.{row.arrival.why}"
        became = (
            words("became.late_because", why=words(why)) if words.has(why) else words(f"became.{row.arrival.became}")
        )
        return f"{said} {became}"
    if row.outcome and row.ending not in ("refused", "answered"):
        return f"{said} {row.outcome}"
    return said


def record(told: Told, names: Mapping[str, str], words: Words) -> Iterator[Piece]:
    """Show one ask completely: its facts, each step, and as far as kept, the request, its changes and the answer."""
    row = told.row
    yield fact(
        words("history.server"), f"{_server(names, row.identity, row.server)}  {row.identity[:_DIGITS]}", "strong"
    )
    if row.tool:
        yield fact(words("who.call"), row.tool)
    yield fact(words("history.at"), _moment(row.at))
    nobody = words("record.waiting" if row.ending == "open" else "record.nobody")
    yield fact(words("history.decision"), decision(row, words) or nobody, "strong")
    yield fact(words("history.outcome"), ending(row, words))
    if row.model:
        yield fact(words("model.title"), row.model)
    if cost := _cost(row, words):
        yield fact(words("history.cost"), cost)
    yield from _contents(told, words)
    yield title(words("record.timeline"))
    yield from happened(told.steps, words)
    yield blank()
    yield ours(words("record.proof"), "dim")


def _contents(told: Told, words: Words) -> Iterator[Piece]:
    if told.asked is not None and told.asked.params is not None:
        if told.asked.params.system_prompt is not None:
            yield title(words("request.system"))
            yield quoted(told.asked.params.system_prompt)
        yield title(words("record.request"))
        yield from turns(told.asked.turns, words)
        yield title(words("changes.title"))
        if told.changes:
            yield from changed(told.changes, words)
        else:
            yield ours(words("record.other" if told.changes is None else "record.same"), "dim")
        if told.answer is not None and told.answer.answer is not None:
            yield title(words("kind.response"))
            yield from turns([told.answer.answer], words)
    elif told.form is not None:
        yield title(words("record.form"))
        yield quoted(told.form.message)
        if told.form.url:
            yield quoted(told.form.url)
    elif not told.texts:
        yield title(words("record.request"))
        yield ours(words("record.not_kept"), "dim")
    for step, text in told.texts:
        yield title(_word("kept", step, words))
        yield quoted(text)


def happened(steps: list[Placed], words: Words) -> Iterator[Piece]:
    """Show each step of an ask: number, time and person; then outcome, model, tokens, cost and hash."""
    rows = [[words(f"step.{name}") for name in ("record", "at", "by", "step")]]
    for seq, step in steps:
        said = [_word("stepped", step.step, words), _word("charge", step.outcome, words), step.model or ""]
        if step.reason:
            said.append(f"“{step.reason}”")
        if step.told is not None:
            said.append(words("record.told" if step.told else "record.untold"))
        facts = [" ".join(filter(None, said))]
        if step.input_tokens is not None:
            facts.append(words("cost.tokens", n=f"{step.input_tokens} + {step.output_tokens or 0}"))
        if step.money is not None:
            facts.append(brief_dollars(step.money))
        if step.digest:
            facts.append(f"SHA-256 {step.digest[:_HASH]}")
        rows.append([str(seq), _moment(step.at)[11:], step.by or step.grant or "", " · ".join(facts)])
    yield from table(rows)


def covered(given: Given, words: Words) -> str:
    """Say in a sentence what a grant allows."""
    grant, terms = given.grant, given.grant.terms
    left = None if terms.uses is None else terms.uses - given.used
    if grant.tool is None:
        said = words("grants.every" if left is None else "grants.next_one" if left == 1 else "grants.next", n=left)
    else:
        kind = "every_call" if left is None else "next_one_call" if left == 1 else "next_calls"
        said = f"{words(f'grants.{kind}', n=left)} {inert_line(grant.tool)}"
    parts = [said]
    if terms.money is not None:
        parts.append(words("grants.up_to", money=dollars(terms.money)))
    if terms.until is not None:
        parts.append(f"{words('grants.before')} {_moment(terms.until)}")
    return words("grants.comma").join([*parts, words(f"grants.scope.{grant.scope}")])


def given(given: Given, spent: Mapping[str, int], names: Mapping[str, str], words: Words) -> Iterator[Piece]:
    """Show a grant: what it allows, which server has it, since when, and how much of it is used."""
    grant, terms = given.grant, given.grant.terms
    yield ours(covered(given, words), "strong", "   ")
    yield ours(_server(names, grant.identity), "", "   ")
    if given.asks_again:
        yield ours(words("grants.asks_again"), "warning", "   ")
    like = words("grants.like", n=grant.max_tokens) if grant.tool is None else words("grants.like_call")
    yield ours(like, "dim", "   ")
    used = words("grants.used_times", n=given.used)
    if terms.uses is not None:
        used = words("grants.used_of", n=given.used, max=terms.uses)
    facts = [f"{words('grants.given')} {_moment(given.given)}", used]
    if given.id in spent:
        facts.append(words("grants.spent", money=brief_dollars(spent[given.id])))
    if terms.uses is terms.money is terms.until is None and grant.scope != "call":
        facts.append(words("grants.unbounded"))
    yield ours(" · ".join(facts), "dim", "   ")


def blocked(row: BlockRow, words: Words) -> Iterator[Piece]:
    """Show a server that is blocked: since when, and by whom."""
    by = f" {words('history.by_whom', by=row.by)}" if row.by else ""
    yield ours(f"{words('blocked.since')}: {row.target}", "warning", "   ")
    yield ours(f"{row.identity[:_DIGITS]} · {_moment(row.since)}{by}", "dim", "   ")


def spent(figures: Spending, names: Mapping[str, str], words: Words) -> Iterator[Piece]:
    """Show what was spent: sums, budgets, the last days, and by day, server and model."""
    for name, amount in (("today", figures.today), ("total", figures.total), ("held", figures.held)):
        yield fact(words(f"spending.{name}"), brief_dollars(amount), "strong")
    if figures.bounds:
        yield title(words("spending.budgets"))
        for bound in figures.bounds:
            yield from _bound(bound, names, words)
    yield title(words("spending.chart" if figures.priced else "spending.chart_tokens"))
    yield from _days(figures)
    if figures.shares:
        yield title(f"{words('spending.by_server')} ({words('spending.last')})")
        heads = [words(f"spending.{name}") for name in ("requests", "money", "server")]
        shares = ((share, words("spending.others") if share.identity is None else "") for share in figures.shares)
        yield from table(
            [heads]
            + [
                [str(share.requests), brief_dollars(share.money), others or _server(names, share.identity or "")]
                for share, others in shares
            ]
        )
    yield title(words("spending.details"))
    if not figures.lines:
        yield ours(words("spending.none"), "dim")
        return
    heads = [words(f"spending.{name}") for name in ("day", "requests", "input", "output", "money", "model", "server")]
    rows = [
        [
            *(line.day, str(line.requests), str(line.input_tokens), str(line.output_tokens)),
            *(brief_dollars(line.money), line.model, _server(names, line.identity)),
        ]
        for line in figures.lines[:_LINES]
    ]
    yield from table([heads, *rows])
    if len(figures.lines) > _LINES:
        yield ours(words("spending.more", n=_LINES), "dim")


def _bound(bound: Bound, names: Mapping[str, str], words: Words) -> Iterator[Piece]:
    name = _server(names, bound.identity) if bound.kind == "server" else words(f"spending.budget.{bound.kind}")
    used = words("spending.of", spent=brief_dollars(bound.used), cap=dollars(bound.cap))
    held = f" {words('spending.reserved', money=brief_dollars(bound.held))}" if bound.held else ""
    yield ours(f"{_bar(bound.used, bound.cap)} {used}{held} · {name}")


def _days(figures: Spending) -> Iterator[Piece]:
    sums = [(day, sum(amounts.values())) for day, amounts in figures.days]
    most = max((amount for _, amount in sums), default=0)
    for day, amount in sums:
        said = brief_dollars(amount) if figures.priced else str(amount)
        yield ours(f"{day}  {_bar(amount, most)} {said}")


def _bar(amount: int, most: int) -> str:
    # Any amount above 0 has at least one cell, so that it does not look like 0 beside a large one.
    full = min(_BAR, -(-amount * _BAR // most)) if most and amount > 0 else 0
    return "█" * full + "·" * (_BAR - full)


def _cost(row: AskRow, words: Words) -> str:
    if row.money is None:
        return ""
    return f"{brief_dollars(row.money)} {words('cost.tokens', n=row.tokens)}"


def _server(names: Mapping[str, str], identity: str, known: str = "") -> str:
    return known or names.get(identity, "") or identity[:_DIGITS]


def _word(kind: str, said: str, words: Words) -> str:
    """Return a word of a record in the person's language; an unknown word unchanged."""
    key = f"{kind}.{said}"
    return words(key) if said and words.has(key) else said


def _moment(at: float) -> str:
    """Format a time in the local time zone."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
