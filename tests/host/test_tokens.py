"""Tokens of a text, estimated by script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.host.tokens import GROUPS, MEASURED, counts_of, estimate

COUNTED: dict[str, int] = json.loads((Path(__file__).parent / "token_counts.json").read_text(encoding="utf-8"))
"""Texts, and the most that nine tokenizers count (``benchmarks/tokens.py`` names them)."""


@pytest.mark.parametrize("text", COUNTED)
def test_no_text_is_estimated_too_low(text: str):
    """Nor three times too high."""
    assert COUNTED[text] <= estimate([text]) <= 3 * COUNTED[text]


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_every_character_is_counted_once(text: str):
    """Whatever it is."""
    assert sum(counts_of(text).values()) == len(text)


def test_half_a_character_is_counted():
    """Half a surrogate pair cannot be sent, but it can be received."""
    assert estimate(["\ud800"]) > 0


def test_every_first_byte_belongs_to_one_group():
    """Of all that UTF-8 has."""
    leads = b"".join(GROUPS.values())
    assert sorted(leads) == [*range(0x80), *range(0xC2, 0xF5)]


def test_texts_are_estimated_together():
    """In any order, and nothing is nothing."""
    assert estimate([]) == estimate([""]) == 0
    assert estimate(["毛", "a"]) == estimate(["a", "毛"]) == estimate(["a毛"])


@pytest.mark.parametrize("char", ["a", "毛", "🧥"])
def test_what_is_not_looked_at_counts_as_much_as_it_can_be(char: str):
    """A byte of it is a token: no tokenizer counts more."""
    long = char * (MEASURED // len(char.encode()))
    known = estimate([long])
    assert estimate([long, char * 1_000]) == known + 1_000 * len(char.encode())
