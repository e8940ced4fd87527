"""How well secrets are found, measured on a corpus; the figures are those of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from antiphon.host.checks.redact import find_secrets, is_password, mask_text, names_password
from tests.host.checks.secret_corpus import HARMLESS, SECRETS

PAGE = Path(__file__).parents[3] / "docs" / "topics" / "security.md"
MISSED = {"bare aws secret", "bare hex key", "swordfish"}
"""Nothing about them says that they are secrets."""


@pytest.mark.parametrize("name", sorted(SECRETS.keys() - MISSED))
def test_a_secret_of_the_corpus_is_found(name: str):
    """In the middle of a text, at the beginning of a line, and alone."""
    secret = SECRETS[name]
    for text in (f"before {secret} after", f"before\n{secret}\nafter", secret):
        assert find_secrets(text) != []
        assert [part for part in re.findall(r"\w{15,}|.+", secret) if part in mask_text(text)] == []


@pytest.mark.parametrize("text", HARMLESS)
def test_a_harmless_text_of_the_corpus_has_none(text: str):
    """A false alarm teaches people to look away."""
    assert find_secrets(text) == []


def test_the_documentation_has_the_figures():
    """Found, of how many; false alarms, of how many."""
    found = sum(bool(find_secrets(text)) for text in SECRETS.values())
    alarms = sum(bool(find_secrets(text)) for text in HARMLESS)
    assert {name for name, text in SECRETS.items() if not find_secrets(text)} == MISSED
    figures = re.search(
        r"finds (\d+) of (\d+) secrets.*?raises (\d+) false alarms in (\d+) harmless", PAGE.read_text(), re.DOTALL
    )
    assert figures is not None
    assert tuple(map(int, figures.groups())) == (found, len(SECRETS), alarms, len(HARMLESS))


@pytest.mark.parametrize(
    "name", ["password", "dbPassword", "X_API_KEY", "client_secret", "accessToken", "token", "PWD"]
)
def test_a_member_that_holds_a_password_is_known_by_its_name(name: str):
    """However it is spelled."""
    assert names_password(name)


@pytest.mark.parametrize("name", ["max_tokens", "tokens", "primary_key", "keyboard", "compass", "key", "tokenizer"])
def test_another_member_is_not(name: str):
    """Though it has some of the same letters."""
    assert not names_password(name)


@pytest.mark.parametrize(
    "value", ["string", "required", "${DB}", "<your key>", "********", "os.environ[", "short", "a.b.c"]
)
def test_what_stands_for_a_password_is_none(value: str):
    """Schemas, templates and programs are full of it."""
    assert not is_password(value)
