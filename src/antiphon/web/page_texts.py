"""The texts of the page in each language: its own catalogues (``languages/*.json``) extend the shared ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from antiphon.host.review import summary as shared
from antiphon.host.review.summary import LANGUAGES, Texts, choose_language

__all__ = ["LANGUAGES", "PAGE_WORDS", "Texts", "choose_language", "load_texts"]

PAGE_WORDS = Path(__file__).parent / "languages"
"""The folder of the page's own catalogues."""


@cache
def load_texts(language: str) -> Texts:
    """Return the texts of a language; English for an unknown one."""
    return shared.load_texts(language, PAGE_WORDS)
