"""Texts that all reviewers share, in English and 简体中文: the page and the terminal.

Owns the shared catalogues (``languages/*.json``), and the list of languages. Text of a server is never looked up here.
Texts of one surface only are in its own catalogues, which extend these.
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from antiphon.host.checks.risk import Risk

__all__ = ["LANGUAGES", "Texts", "preferred", "terminal_language", "texts"]

LANGUAGES = {"en": "English", "zh": "简体中文"}
"""Each language by the name of its catalogue, with its name for itself."""
_FOLDER = Path(__file__).parent / "languages"
_FACTS = re.compile(r"\((?P<list>[^()]*)\)|: (?P<kind>[^:(]+)|(?P<number>\d+)")
_KIND = re.compile(r"(?P<number>\d+) (?P<kind>[a-z-]+)")
"""One of a list, such as ``2 bidi``."""


class Texts:
    """The texts in one language."""

    def __init__(self, language: str, catalogue: Mapping[str, str]) -> None:
        self.language = language
        """``"en"`` or ``"zh"``."""
        self.tag = {"zh": "zh-Hans"}.get(language, language)
        """The tag for HTML and browsers."""
        self._catalogue = catalogue

    def __call__(self, key: str, **values: object) -> str:
        """Return a text; ``values`` replace its ``{placeholders}``.

        Raises:
            KeyError: the catalogue does not have it, or it needs another value.
        """
        text = self._catalogue[key]
        return text.format_map(values) if values else text

    def pieces(self, key: str) -> Iterator[tuple[str, str]]:
        """Yield a text in pieces, each with the name of the placeholder that follows it; empty at the end."""
        for text, name, _, _ in string.Formatter().parse(self._catalogue[key]):
            yield text, name or ""

    def has(self, key: str) -> bool:
        """Tell whether there is such a text."""
        return key in self._catalogue

    def risk(self, risk: Risk) -> str:
        """Return the text of a risk. The host words it in English, with the numbers that are inserted here."""
        if self.language == "en":
            return risk.text
        facts = {"number": "", "list": "", "kind": ""}
        for found in _FACTS.finditer(risk.text):
            name = found.lastgroup or "number"
            facts[name] = facts[name] or found[name].strip()
        facts["list"] = _KIND.sub(self._counted, facts["list"]).replace(", ", "、")
        return self(f"risk.{risk.kind}", **facts)

    def _counted(self, found: re.Match[str]) -> str:
        """Return the text for a number of characters of one kind."""
        key = f"hidden.{found['kind']}"
        return self(key, n=found["number"]) if self.has(key) else found[0]


@cache
def texts(language: str, *own: Path) -> Texts:
    """Return the texts of a language: the shared ones, extended by those in the folders ``own`` in turn.

    English for an unknown language: names from outside are never used to look up files.
    """
    name = language if language in LANGUAGES else "en"
    words: dict[str, str] = {}
    for folder in (_FOLDER, *own):
        words |= msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=dict[str, str])
    return Texts(name, words)


def preferred(chosen: str | None, accepted: str) -> str:
    """Choose the language: the one a person chose, else the first known one in ``Accept-Language``."""
    if chosen in LANGUAGES:
        return chosen
    for part in accepted.split(","):
        language = part.partition(";")[0].strip().lower().partition("-")[0]
        if language in LANGUAGES:
            return language
    return "en"


def terminal_language(chosen: str | None) -> str:
    """Choose the language: the one that was requested, else that of the terminal's locale (POSIX, 8.2)."""
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := os.environ.get(name))), "")
    return preferred(chosen, locale.partition(".")[0].replace("_", "-"))
