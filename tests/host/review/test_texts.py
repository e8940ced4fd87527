"""The words all reviews share: complete in every language, and the language of whoever reads."""

from __future__ import annotations

import re
import string
from pathlib import Path

import msgspec
import pytest

import antiphon.host.review
import antiphon.web
from antiphon.host.checks.risk import Risk
from antiphon.host.review.texts import LANGUAGES, preferred, terminal_language, texts
from antiphon.web.texts import PAGE_WORDS

HERE = Path(antiphon.host.review.__file__).parent
CATALOGUES = {name: msgspec.json.decode((HERE / "languages" / f"{name}.json").read_bytes()) for name in LANGUAGES}


def places(text: str) -> set[str]:
    """Name what is filled into a text."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_language_says_the_same():
    """With the same places to fill in; and Chinese is Chinese."""
    english = CATALOGUES["en"]
    for name, catalogue in CATALOGUES.items():
        assert catalogue.keys() == english.keys(), name
        assert all(text.strip() for text in catalogue.values())
        assert {key: places(text) for key, text in catalogue.items()} == {
            key: places(text) for key, text in english.items()
        }
    assert [key for key, text in CATALOGUES["zh"].items() if not re.search("[\u4e00-\u9fff]", text)] == []


def test_the_page_does_not_repeat_a_shared_text():
    """A word that stands in two catalogues would be changed in one of them only."""
    folder = Path(antiphon.web.__file__).parent / "languages"
    for name in LANGUAGES:
        own = msgspec.json.decode((folder / f"{name}.json").read_bytes())
        assert own.keys() & CATALOGUES[name].keys() == set()


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LC_MESSAGES": "zh_TW"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_terminal_s_language_is_that_of_its_locale(monkeypatch, variables: dict[str, str], language: str):
    """By the order of POSIX; one that is asked for goes before."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert terminal_language(None) == language
    assert terminal_language("zh") == "zh"


def test_a_risk_is_told_in_both_languages():
    """In English as the host says it; in Chinese with the same figures."""
    risk = Risk(kind="hidden", level="warning", text="characters that cannot be seen (2 bidi, 1 tag), shown as marks")
    assert texts("en", PAGE_WORDS).risk(risk) == risk.text
    assert texts("zh", PAGE_WORDS).risk(risk) == "含有不可见字符（2 个改变方向的字符、1 个标签字符），已用标记显示"
    tokens = Risk(kind="tokens", level="warning", text="an answer of up to 9000 tokens")
    assert "9000" in texts("zh", PAGE_WORDS).risk(tokens)


@pytest.mark.parametrize(
    ("chosen", "accepted", "language"),
    [
        (None, "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        (None, "de, fr;q=0.5", "en"),
        ("en", "zh-CN", "en"),
        ("xx", "zh", "zh"),
        (None, "", "en"),
    ],
)
def test_the_language_is_the_persons(chosen: str | None, accepted: str, language: str):
    """A choice counts most, then the browser's wish, then English."""
    assert preferred(chosen, accepted) == language


def test_another_language_is_english():
    """Nothing is looked up by a name from outside."""
    assert texts("../../etc/passwd").language == "en"
    assert texts("zh").tag == "zh-Hans"
    assert not texts("en").has("key.nothing")
