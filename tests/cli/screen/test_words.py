"""The screen's words: complete in every language, and every one that is said is there."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import msgspec
import pytest

import antiphon.cli.screen
from antiphon.cli.screen.key_bindings import help_lines
from antiphon.cli.screen.words import next_language, words
from antiphon.host.checks.risk import Risk
from antiphon.host.review.texts import LANGUAGES

HERE = Path(antiphon.cli.screen.__file__).parent
OWN = {name: msgspec.json.decode((HERE / "languages" / f"{name}.json").read_bytes()) for name in LANGUAGES}
MODULES = sorted(HERE.glob("*.py"))
MADE = (
    *("ask.request", "ask.response", "ask.elicitation", "ask.elicitation.url", "ask.tool"),
    *("kind.request", "kind.response", "kind.elicitation", "kind.tool", "who.kind.url", "who.kind.command"),
    *(f"{head}.{state}" for head in ("over", "state") for state in ("decided", "done", "expired", "withdrawn")),
    *("role.user", "role.assistant", "reach.once", "reach.call", "reach.server"),
    *("scope.call", "scope.session", "scope.always", "cost.low", "cost.likely", "cost.worst"),
    *(f"model.{name}" for name in ("name", "cost", "scost", "speed", "mind", "total")),
    *(f"rule.{name}" for name in ("score", "default", "order", "none")),
)
"""Keys that are put together."""


def places(text: str) -> set[str]:
    """Name what is filled into a text."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def said() -> set[str]:
    """Collect the keys that stand in the modules."""
    strings = (
        node.value
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {text for text in strings if re.fullmatch(r"[a-z]+\.[a-z_]+", text) and not text.startswith("antiphon.")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_that_is_said_is_there(language: str):
    """In the screen's own catalogue, or the page's."""
    catalogue = words(language)
    keys = {*said(), *MADE} - {"app.quit", "sqlalchemy.exc", "e.g"}
    assert [key for key in sorted(keys) if not catalogue.has(key)] == []
    assert all(offer.label for offer in help_lines(catalogue))


def test_every_language_says_the_same():
    """With the same places to fill in; and Chinese is Chinese."""
    for name, catalogue in OWN.items():
        assert catalogue.keys() == OWN["en"].keys(), name
        assert {key: places(text) for key, text in catalogue.items()} == {
            key: places(text) for key, text in OWN["en"].items()
        }
    assert [key for key, text in OWN["zh"].items() if not re.search("[\u4e00-\u9fff]", text)] == []


def test_own_words_go_before_the_page_s():
    """And a risk is said as the page says it."""
    assert words("en")("screen.together", n=3) == "Approve all 3"
    assert words("en")("do.approve") == "Approve"
    assert words("fr").language == "en"
    risk = Risk(kind="tokens", level="warning", text="an answer of up to 9000 tokens")
    assert words("en").risk(risk) == risk.text
    assert "9000" in words("zh").risk(risk)
    with pytest.raises(KeyError):
        words("en")("screen.nothing")


def test_languages_take_turns():
    """All of them, and then the first again."""
    assert next_language("en") == "zh"
    assert next_language("zh") == "en"
