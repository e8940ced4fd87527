"""The lines that do not scroll: what is asked, the time left, what to look at, the keys.

Pure: makes plain text with our styles; no text is parsed as markup.
"""

from __future__ import annotations

from collections.abc import Collection

from textual.content import Content

from antiphon.cli.screen.key_bindings import offer, offers
from antiphon.cli.screen.sheet import key_line
from antiphon.cli.screen.words import Words
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.question import Question
from antiphon.host.review.shown import Shown, headline
from antiphon.host.review.summary import clock, outcome_text

__all__ = ["bar", "plain", "strip"]


def strip(question: Question | None, shown: Shown | None, now: float, words: Words) -> tuple[Content, Content]:
    """Return one line with who asks, for what, at which cost and until when; and one with risks, or the outcome."""
    if question is None:
        return plain(""), plain("")
    asked = words(f"kind.{question.kind}") if shown is None else headline(shown, words)
    if question.state != "pending":
        by = "" if question.by is None else f" {words('over.by', by=question.by)}"
        became = "" if question.outcome is None else f" {outcome_text(question.outcome, words)}"
        return plain(asked), Content.styled(
            inert_line(f"{words(f'over.{question.state}')}{by}{became}"), "bold reverse"
        )
    left = "" if question.expires is None else f"{clock(question.expires - now, words)} · "
    warnings = [words.risk(risk) for risk in shown.risks if risk.level == "warning"] if shown else []
    looked_at = " ".join(f"! {inert_line(warning)}" for warning in warnings)
    # The time comes first, because the end of a line is cut on a narrow terminal.
    return plain(f"{left}{asked}"), Content.styled(looked_at, "bold") if looked_at else plain(words("risks.none"))


def bar(shown: Shown | None, words: Words, *, width: int, dead: Collection[str]) -> Content:
    """Return the keys that can be used now; those that are disabled for a moment are dimmed."""
    offered = [] if shown is None else offers(shown, words)
    usual = [offer(action, words) for action in ("next", "risk", "help", "quit")]
    return key_line([*offered, *usual], width, dead)


def plain(text: str) -> Content:
    """Make a line of plain text."""
    return Content(inert_line(text))
