"""What the screen says, in English and 简体中文: the page's words, and the few of its own.

Owns the screen's own catalogues (``languages/*.json``), and which language a terminal gets.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import msgspec

from antiphon.host.checks.risk import Risk
from antiphon.web.texts import LANGUAGES, Texts, preferred, texts

__all__ = ["Words", "next_language", "terminal_language", "words"]

_FOLDER = Path(__file__).parent / "languages"


class Words:
    """Words in one language: the screen's own, else the page's."""

    def __init__(self, own: Texts, page: Texts) -> None:
        self.language = page.language
        """``"en"`` or ``"zh"``."""
        self._own = own
        self._page = page

    def __call__(self, key: str, **values: object) -> str:
        """Say something; ``values`` fill its ``{places}``.

        Raises:
            KeyError: neither catalogue has it.
        """
        return (self._own if self._own.has(key) else self._page)(key, **values)

    def has(self, key: str) -> bool:
        """Tell whether there are words for this."""
        return self._own.has(key) or self._page.has(key)

    def risk(self, risk: Risk) -> str:
        """Say what to look at twice."""
        return self._page.risk(risk)


@cache
def words(language: str) -> Words:
    """Return the words of a language; English for one that is not spoken here."""
    page = texts(language)
    data = (_FOLDER / f"{page.language}.json").read_bytes()
    return Words(Texts(page.language, msgspec.json.decode(data, type=dict[str, str])), page)


def terminal_language(chosen: str | None) -> str:
    """Choose the language: the one that was asked for, else that of the terminal's locale (POSIX, 8.2)."""
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := os.environ.get(name))), "")
    return preferred(chosen, locale.partition(".")[0].replace("_", "-"))


def next_language(language: str) -> str:
    """Return the language after this one, in turn."""
    names = list(LANGUAGES)
    return names[(names.index(language) + 1) % len(names)]
