"""The screen's keys are those of the one keymap."""

from __future__ import annotations

from antiphon.cli.screen.key_bindings import ACTIONS, ARMED, help_lines, offer
from antiphon.cli.screen.words import words
from antiphon.host.review.keymap import keys_on, meaning


def test_every_key_is_in_the_list():
    """That ? shows, with the sentence of the keymap."""
    listed = {line.label for line in help_lines(words("en"))}
    assert listed == {meaning(key, words("en")) for key in keys_on("screen")}
    assert any("Ctrl+s" in line.key for line in help_lines(words("en")))


def test_keys_have_the_names_that_the_screen_hears():
    """Letters as they are typed, others as Textual calls them."""
    assert ACTIONS["a"].action == "approve"
    assert ACTIONS["down"].action == "next"
    assert ACTIONS["escape"].action == "close"
    assert ACTIONS["ctrl+s"].action == "send"
    assert {"a", "g", "A", "2"} == ARMED
    assert offer("close", words("en")) == ("Esc", "Close")
