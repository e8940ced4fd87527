"""The texts of the screen, in English and 简体中文: the shared ones, the page's, and a few of its own.

Owns the screen's own catalogues (``languages/*.json``).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from antiphon.host.review import texts
from antiphon.host.review.texts import LANGUAGES
from antiphon.host.review.texts import Texts as Words
from antiphon.web.texts import PAGE_WORDS

__all__ = ["Words", "next_language", "words"]

_FOLDER = Path(__file__).parent / "languages"


@cache
def words(language: str) -> Words:
    """Return the texts of a language; English for an unknown one."""
    return texts.texts(language, PAGE_WORDS, _FOLDER)


def next_language(language: str) -> str:
    """Return the language after this one, in turn."""
    names = list(LANGUAGES)
    return names[(names.index(language) + 1) % len(names)]
