"""What may be shown of a text that is still coming."""

from __future__ import annotations

import random

import pytest

from antiphon.host.checks import unfinished
from antiphon.host.checks.redact import Finding, find_secrets, mask
from antiphon.host.checks.unfinished import MAX_SHOWN, Unfinished
from tests.host.checks.secret_corpus import SECRETS

# In pieces, so that no scanner of repositories takes it for a real one.
HEADING = "RSA PRIV" + "ATE KEY-----"
KEY = f"-----BEGIN {HEADING}\n" + "MIIEowIBAAKCAQEA7b4cJq\n" * 20 + f"-----END {HEADING}"


def views(text: str, sizes: random.Random | int) -> list[str]:
    """Let a text come in pieces. Returns all that was shown on the way."""
    growing, seen, at = Unfinished(), [], 0
    while at < len(text):
        size = sizes if isinstance(sizes, int) else sizes.randint(1, 9)
        growing.add(text[at : at + size])
        seen.append(growing.text)
        at += size
    return seen


def test_a_text_grows_word_by_word():
    """Of what has come, all is shown but the end, where a word may still go on."""
    assert views("A warm sweater of fine wool, made in Basel", 6)[-1] == "A warm sweater of fine "


def test_a_text_without_blanks_grows_too():
    """Chinese is written without any."""
    assert views("这是一件用细羊毛织成的毛衣、产于巴塞尔的一家小作坊、非常暖和。", 3)[-1].startswith("这是一件用细羊毛")


@pytest.mark.parametrize("secret", [*SECRETS.values(), KEY])
def test_no_part_of_a_secret_is_ever_shown(secret):
    """However it is cut into pieces; the heading of a key is no secret, as long as nothing of the key follows."""
    text = f"Take this: {secret} and keep it to yourself, will you please?"
    parts = [text[found.start : found.end] for found in find_secrets(text)]
    pieces = [part[at : at + 12] for part in parts for at in range(len(part) - 11)]
    final = mask(text)
    chance = random.Random(7)
    for shown in [view for _ in range(5) for view in views(text, chance)] + views(text, 1):
        assert [piece for piece in pieces if piece in shown and piece not in final and "BEGIN" not in piece] == []


def test_a_secret_of_two_words_is_masked_as_one():
    """However much later the second of them comes."""
    growing = Unfinished()
    growing.add("A header of the form Authorization: Bearer    ")
    growing.add("abcdefgh12345678ABCDEFGH and so on, as long as anybody likes to read")
    assert growing.text == "A header of the form Authorization: [bearer token] and so on, as long as "


def test_a_key_of_several_lines_waits_for_its_end():
    """Before its end has come it looks like a heading with some text below."""
    growing = Unfinished()
    growing.add("Here it is: " + KEY[:300])
    assert growing.text == "Here it is: "
    growing.add(KEY[300:] + "\nThat was all there is to be said about it.")
    assert "MII" not in growing.text
    assert "[private key]" in growing.text


def test_only_the_end_of_a_long_text_is_held():
    """With how much stands before it."""
    growing = Unfinished()
    for _ in range(1_000):
        growing.add("twenty characters.. ")
    assert len(growing.text) == MAX_SHOWN
    assert growing.omitted + len(growing.text) in range(19_960, 20_001)


def test_data_without_an_end_is_not_held_for_ever():
    """No secret is as long as that, and no memory of ours either."""
    growing = Unfinished()
    # With the last of these it is too much once more.
    for _ in range(222):
        growing.add("A" * 1_000)
    growing.add(" and then some words that follow it" * 20)
    assert "\u2026" in growing.text
    assert growing.text.endswith(" and then some ")


def test_small_pieces_cost_no_more_than_large_ones(monkeypatch: pytest.MonkeyPatch):
    """A model writes a few characters at a time; without blanks, all of them would be examined again with each."""
    examined = 0

    def counted(text: str) -> list[Finding]:
        nonlocal examined
        examined += len(text)
        return find_secrets(text)

    monkeypatch.setattr(unfinished, "find_secrets", counted)
    growing = Unfinished()
    for _ in range(5_000):
        growing.add("1234567")
    assert examined < 50 * 5_000 * 7
