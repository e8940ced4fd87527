"""The keys of the screen with their labels, from the keymap that all surfaces share.

Pure. ``actions`` and ``stage`` implement the keys.
"""

from __future__ import annotations

from typing import NamedTuple

from antiphon.cli.screen.words import Words
from antiphon.host.review.keymap import Key, key_for, keys_on, label, meaning, offered, printed, subject
from antiphon.host.review.shown import Shown

__all__ = ["ACTIONS", "ARMED", "Offer", "help_lines", "offer", "offers"]

_TEXTUAL = {
    "Escape": "escape",
    "Tab": "tab",
    "ArrowDown": "down",
    "ArrowUp": "up",
    "Control+s": "ctrl+s",
    "Enter": "enter",
}
"""What Textual calls the keys that print nothing."""
ACTIONS = {_TEXTUAL.get(name, name): key for key in keys_on("screen") for name in key.keys}
"""The keys of the screen, by Textual's names."""
ARMED = frozenset(key.keys[0] for key in keys_on("screen") if key.permits)
"""Keys that allow something: disabled for a moment after it has appeared."""


class Offer(NamedTuple):
    """A key, and its label."""

    key: str
    label: str


def offers(shown: Shown, words: Words) -> list[Offer]:
    """List the keys that can be used for what is shown, the usual ones first; none once it is over."""
    return [Offer(key.keys[0], label(key, words, subject(shown))) for key in offered(shown, "screen")]


def offer(action: str, words: Words) -> Offer:
    """Return the key of an action that does not depend on what is shown."""
    key = key_for(action, "screen")
    return Offer(printed(key.keys[0]), label(key, words))


def help_lines(words: Words) -> list[Offer]:
    """List all keys, each with a sentence."""
    return [Offer(_names(key), meaning(key, words)) for key in keys_on("screen")]


def _names(key: Key) -> str:
    # A terminal cannot tell Ctrl+Enter from Enter.
    return " ".join(printed(name) for name in key.keys if name != "Control+Enter")
