"""Templates: whatever is printed is inert and escaped."""

from __future__ import annotations

import subprocess
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from antiphon.host.checks.visible import make_inert
from antiphon.web import render as rendering
from antiphon.web.render import STATIC, make_environment
from tests.web.hostile import HOSTILE


class Seen(HTMLParser):
    """Reads a page as a browser does: tags and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_a_text(text: str):
    """In an element and in an attribute, in one line and in many: no tag but ours, and all of it is there."""
    source = "<p title='{{ x }}'>{{ x }}</p><i>{{ x|line }}</i><b title=\"{{ x|raw }}\">{{ x|editable }}</b>"
    seen = Seen()
    seen.feed(make_environment().from_string(source).render(x=text))
    seen.close()
    assert seen.tags == ["p", "i", "b"]
    assert [name for name, _ in seen.attributes] == ["title", "title"]
    assert seen.text.startswith(make_inert(text))


def test_a_name_that_is_not_there_is_a_fault():
    """A slip in a template is not an empty place on the page."""
    with pytest.raises(UndefinedError):
        make_environment().from_string("{{ nothing }}").render()


def test_money_and_moments_are_written_for_people():
    """And for machines beside them."""
    made = make_environment().from_string("{{ 4200000|money }} {{ 0|when }} {{ 0|iso }} {{ none_at_all }}")
    assert made.render(none_at_all=None) == "$0.0042 1970-01-01 00:00:00 1970-01-01T00:00:00+00:00 "


def test_our_own_files_load_nothing_from_elsewhere():
    """No address of another host, no inline script, no evaluation."""
    for path in (each for each in STATIC.rglob("*") if each.is_file() and each.suffix != ".woff2"):
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text
        assert "https:" not in text
        assert "innerHTML" not in text
        assert "eval(" not in text


def test_everything_the_page_needs_is_packaged():
    """Hatch packs what is below the package and not ignored by git: templates, languages and static files are."""
    package = Path(rendering.__file__).parent
    kinds = {".html", ".json", ".js", ".css", ".svg", ".woff2", ".txt"}
    needed = [path for path in package.rglob("*") if path.is_file() and path.suffix in kinds]
    assert len(needed) > 20
    root = package.parents[2]
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *map(str, needed)], cwd=root, capture_output=True, text=True, check=False
    )
    assert ignored.stdout == ""
    build = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"] == {"packages": ["src/antiphon"]}


def test_places_to_look_at_are_set_apart():
    """As inert text; a place outside the text, or over another one, is none."""
    made = make_environment().from_string("{{ text|marked(spots) }}")
    text = "a <key> b\u202e"
    shown = made.render(text=text, spots=((2, 7), (3, 5), (8, 99)))
    assert shown == 'a <mark class="risky">&lt;key&gt;</mark> b<mark class="risky">\u27e6U+202E\u27e7</mark>'


def test_a_name_is_cut_where_nobody_reads_on():
    """A stranger's name of thousands of lines costs a browser seconds; what is left out is counted."""
    write = make_environment().from_string("{{ x|name }}").render
    assert write(x="a\nb<") == "a⟦U+000A⟧b&lt;"
    assert write(x="a" * 200) == "a" * 200
    assert write(x="a" * 5_000) == "a" * 200 + "… (+4,800)"
