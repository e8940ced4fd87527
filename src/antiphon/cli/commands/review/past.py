"""Past decisions, grants and blocked servers as rows of text for a terminal.

Pure. The page shows the same records with the same texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from antiphon.cli.quantities import shown
from antiphon.host.budget import brief_dollars, dollars
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.grants import Given
from antiphon.host.review.texts import Texts
from antiphon.host.store.asks import AskRow
from antiphon.host.store.base import BlockRow
from antiphon.host.terminal.layout import Layout

__all__ = ["draw_ask", "draw_block", "draw_grant"]

_DIGITS = 20
"""Characters of an identity that are shown if no name is known, as on the page."""


def draw_ask(row: AskRow, names: Mapping[str, str], layout: Layout, words: Texts) -> Iterator[str]:
    """Draw one ask: time, server and tool; what was decided, the end and the cost; the first words."""
    yield from layout.remark(" · ".join(filter(None, (shown(row.at), _server(names, row), row.tool))))
    facts = (_decision(row, words), _ending(row, words), "" if row.money is None else brief_dollars(row.money))
    said = " · ".join(filter(None, facts))
    yield from layout.labelled("", f"{_translate('method', row.method, words)}: {said}")
    yield from layout.quoted(row.words or words("history.not_kept"), 2)


def draw_grant(given: Given, name: str, names: Mapping[str, str], layout: Layout, words: Texts) -> Iterator[str]:
    """Draw a grant: what it allows, the server that has it, since when, and how much of it is used."""
    grant = given.grant
    yield from layout.labelled(name, _sentence(given, words), "1")
    yield from layout.labelled("", names.get(grant.identity, "") or grant.identity[:_DIGITS])
    like = words("grants.like", n=grant.max_tokens) if grant.tool is None else words("grants.like_call")
    used = words("grants.used_times", n=given.used)
    yield from layout.labelled("", f"{like} {words('grants.given')} {shown(given.given)} · {used}", "2")


def draw_block(row: BlockRow, name: str, layout: Layout, words: Texts) -> Iterator[str]:
    """Draw a server that is blocked: since when, and by whom."""
    by = f" {words('history.by_whom', by=row.by)}" if row.by else ""
    yield from layout.labelled(name, f"{words('blocked.since')}: {row.target}", "33")
    yield from layout.labelled("", f"{row.identity[:_DIGITS]} · {shown(row.since)}{by}", "2")


def _sentence(given: Given, words: Texts) -> str:
    """Say what a grant allows."""
    grant, terms = given.grant, given.grant.terms
    left = None if terms.uses is None else terms.uses - given.used
    kind = "every" if left is None else "next_one" if left == 1 else "next"
    if grant.tool is None:
        said = words(f"grants.{kind}", n=left)
    else:
        said = f"{words(f'grants.{kind}_calls' if kind == 'next' else f'grants.{kind}_call', n=left)} "
        said += inert_line(grant.tool)
    parts = [said]
    if terms.money is not None:
        parts.append(words("grants.up_to", money=dollars(terms.money)))
    if terms.until is not None:
        parts.append(f"{words('grants.before')} {shown(terms.until)}")
    return words("grants.comma").join([*parts, words(f"grants.scope.{grant.scope}")])


def _decision(row: AskRow, words: Texts) -> str:
    by = f" {words('history.by_whom', by=row.by)}" if row.by else ""
    reason = f" “{row.reason}”" if row.reason else ""
    return f"{_translate('decision', row.decision, words)}{by}{reason}".strip()


def _ending(row: AskRow, words: Texts) -> str:
    said = _translate("ending", row.ending, words)
    cause, _, detail = row.outcome.partition(":")
    if row.ending == "refused" and cause != "user":
        return f"{said} {_translate('cause', cause, words)}{f' ({detail})' if detail else ''}"
    if row.arrival is not None:
        why = f"became.why.{row.arrival.why}"
        if words.has(why):
            return f"{said} {words('became.late_because', why=words(why))}"
        return f"{said} {words(f'became.{row.arrival.became}')}"
    return f"{said} {row.outcome}" if row.outcome and row.ending not in ("refused", "answered") else said


def _server(names: Mapping[str, str], row: AskRow) -> str:
    return row.server or names.get(row.identity, "") or row.identity[:_DIGITS]


def _translate(kind: str, name: str, words: Texts) -> str:
    """Return a word of a record in the person's language; an unknown word unchanged."""
    key = f"{kind}.{name}"
    return words(key) if name and words.has(key) else name
