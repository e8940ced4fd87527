"""The page's words: complete in every language, and nowhere else."""

from __future__ import annotations

import re
import string
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

import antiphon.host.review
import antiphon.web
from antiphon.host.checks.risk import RiskKind
from antiphon.host.models.selection import ObstacleCode, SelectionRule
from antiphon.host.store.base import ReviewKind, ReviewState
from antiphon.web.page_texts import LANGUAGES, load_texts

HERE = Path(antiphon.web.__file__).parent
SHARED = Path(antiphon.host.review.__file__).parent
CATALOGUES = {name: msgspec.json.decode((HERE / "languages" / f"{name}.json").read_bytes()) for name in LANGUAGES}
KNOWN = CATALOGUES["en"].keys() | msgspec.json.decode((SHARED / "languages" / "en.json").read_bytes()).keys()
"""What can be said: the page's own words, and those that all reviews share."""
TEMPLATES = sorted((HERE / "templates").rglob("*.html"))
TOLD = ("alt", "aria-label", "title", "placeholder")


def places(text: str) -> set[str]:
    """Name what is filled into a text."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_language_has_the_same_keys():
    """None says less than another, and none twice."""
    english = CATALOGUES["en"]
    for name, catalogue in CATALOGUES.items():
        assert catalogue.keys() == english.keys(), name
        assert all(text.strip() for text in catalogue.values())


def test_every_language_fills_in_the_same():
    """A figure that one tells, the others tell as well; the host's own English is taken as far as it is there."""
    for key, text in CATALOGUES["en"].items():
        for name, catalogue in CATALOGUES.items():
            assert places(catalogue[key]) == places(text), (name, key)


def test_chinese_is_chinese():
    """Every text has Chinese in it, but for those that are figures only."""
    plain = {key for key, text in CATALOGUES["zh"].items() if not re.search("[\u4e00-\u9fff]", text)}
    assert plain == {"grants.comma", "history.by_whom", "record.colon"}


class Bare(HTMLParser):
    """Collects words that stand in a template itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside.append("no" if dict(attrs).get("translate") == "no" else tag)
        self.found += [value for name, value in attrs if name in TOLD and value and re.search(r"\w", value)]
        if tag in ("meta", "link", "input", "img", "br", "rect"):
            self._inside.pop()

    def handle_endtag(self, tag: str) -> None:
        if self._inside:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        words = re.sub(r"· Antiphon|\bUTC\b", "", data)
        if not {"no", "kbd"} & set(self._inside[-1:]) and re.search(r"[^\W\d]", words):
            self.found.append(data.strip())


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_words_of_its_own(template: Path):
    """All that people read comes from the catalogues; names of people and UTC are the same everywhere."""
    source = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", "", template.read_text(), flags=re.DOTALL)
    bare = Bare()
    bare.feed(source)
    assert bare.found == []


def test_every_key_a_template_names_is_there():
    """And those it makes of parts begin like some that are."""
    for template in TEMPLATES:
        for key, more in re.findall(r"\bt\('([^']+)'(\s*~)?", template.read_text()):
            assert any(each.startswith(key) for each in KNOWN) if more else key in KNOWN, (template.name, key)


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("risk.", RiskKind),
        ("obstacle.", ObstacleCode),
        ("rule.", SelectionRule),
        ("state.", ReviewState),
        ("over.", ReviewState),
        ("kind.", ReviewKind),
        ("ask.", ReviewKind),
    ],
)
def test_there_are_words_for_all_that_the_host_says(prefix: str, names: object):
    """A new kind of anything needs words before it is shown."""
    assert {f"{prefix}{name}" for name in names.__args__} <= KNOWN


def test_every_key_of_the_code_is_there():
    """Those that Python names: problems, what was done, parts, facts."""
    code = "\n".join(path.read_text() for path in HERE.glob("*.py"))
    keys = re.findall(r'"((?:problem|done|part|fact|denied)\.[a-z_]+)"', code)
    assert keys
    assert set(keys) <= KNOWN


def test_another_language_is_english():
    """Nothing is looked up by a name from outside."""
    assert load_texts("../../etc/passwd").language == "en"
    assert load_texts("zh").tag == "zh-Hans"
    assert load_texts("en").has("nav.queue")
