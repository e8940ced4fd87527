"""The lines that never scroll away: what is asked and for how long it waits, what to look at, the keys.

Pure: makes plain text with styles of ours; no text of it goes through markup.
"""

from __future__ import annotations

from collections.abc import Collection

from textual.content import Content

from antiphon.cli.screen.keys import Offer, offers
from antiphon.cli.screen.queue_rows import clock
from antiphon.cli.screen.request import heading
from antiphon.cli.screen.sheet import key_line
from antiphon.cli.screen.words import Words
from antiphon.host.budget import dollars
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.queue import Question
from antiphon.host.review.shown import Shown

__all__ = ["bar", "plain", "strip"]


def strip(question: Question | None, shown: Shown | None, now: float, words: Words) -> tuple[Content, Content]:
    """Say what is asked and how long it waits; and what to look at, or what became of it."""
    if question is None:
        return plain(""), plain("")
    asked = words(f"kind.{question.kind}") if shown is None else heading(shown, words)
    if question.state != "pending":
        by = "" if question.by is None else f" {words('over.by', by=question.by)}"
        return plain(asked), Content.styled(inert_line(f"{words(f'over.{question.state}')}{by}"), "bold reverse")
    left = "" if question.expires is None else f" · {clock(question.expires - now, words)}"
    left += "" if shown is None else _stakes(shown, words)
    left += "" if question.expires is None else f" · {words('clock.zero')}"
    warnings = [words.risk(risk) for risk in shown.risks if risk.level == "warning"] if shown else []
    looked_at = " ".join(f"! {inert_line(warning)}" for warning in warnings)
    return plain(f"{asked}{left}"), Content.styled(looked_at, "bold") if looked_at else plain(words("risks.none"))


def bar(shown: Shown | None, words: Words, *, width: int, dead: Collection[str]) -> Content:
    """Write the keys that do something now; those that are dead for the moment are dim."""
    offered = [] if shown is None else offers(shown, words)
    usual = [Offer(key, words(f"screen.bar.{key}")) for key in ("j", "?", "q")]
    return key_line([*offered, *usual], width, dead)


def plain(text: str) -> Content:
    """Make a line of plain text."""
    return Content(inert_line(text))


def _stakes(shown: Shown, words: Words) -> str:
    costs = None if shown.item is None or shown.answer is not None else shown.item.costs
    if costs is None:
        return ""
    worst = dollars(costs.worst.money)
    if costs.left is None:
        return f" · {words('screen.worst', worst=worst)}"
    return f" · {words('screen.worst_of', worst=worst, left=dollars(costs.left))}"
