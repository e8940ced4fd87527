"""Which keys decide something about what is shown, and what each is called.

Pure. What a key does is ``actions``'s business.
"""

from __future__ import annotations

from typing import NamedTuple

from antiphon.cli.screen.words import Words
from antiphon.host.review.shown import Shown

__all__ = ["ARMED", "Offer", "help_lines", "offers"]

ARMED = frozenset("agA")
"""What lets something pass: dead for a moment after it has appeared."""
_HELP = ("j", "k", "tab", "a", "e", "d", "r", "w", "g", "A", "m", "n", "s", "b", "c", "x", "l", "?", "q")


class Offer(NamedTuple):
    """One key."""

    key: str
    label: str


def offers(shown: Shown, words: Words) -> list[Offer]:
    """List the keys that decide, the usual ones first; none once it is over."""
    if shown.state != "pending":
        return []
    labels = _form_labels(shown) if shown.kind == "elicitation" else _labels(shown)
    return [Offer(key, words(label)) for key, label in labels.items()]


def help_lines(words: Words) -> list[Offer]:
    """List all keys."""
    return [Offer(key, words(f"screen.help.{key}")) for key in _HELP]


def _form_labels(shown: Shown) -> dict[str, str]:
    accept = "form.accept_url" if shown.url is not None else "screen.fill" if shown.fields else "form.accept"
    return {"a": accept, "d": "form.decline", "c": "form.cancel"}


def _labels(shown: Shown) -> dict[str, str]:
    is_answer = shown.answer is not None
    other_models = shown.item is not None and bool(shown.item.models)
    wanted = {
        "a": ("do.release" if is_answer else "do.approve", "approve" in shown.choices),
        "e": ("do.edit", "edit" in shown.choices or (is_answer and "answer" in shown.choices)),
        "d": ("do.deny", True),
        "r": ("deny.reason", True),
        "w": ("screen.rewrite" if is_answer else "screen.answer", "answer" in shown.choices),
        "n": ("screen.again", "regenerate" in shown.choices),
        "g": ("screen.grant", "grant" in shown.choices),
        "A": ("screen.alike", shown.kind == "request" and "approve" in shown.choices),
        "m": ("do.model", other_models and ("regenerate" if is_answer else "approve") in shown.choices),
        "s": ("screen.stop", bool(shown.who.call)),
        "b": ("screen.block", True),
    }
    return {key: label for key, (label, possible) in wanted.items() if possible}
