"""One command installs the package, and every page and message names that one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from antiphon.machine.public_names import describe_install
from tests.test_docs import PAGES, ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))
OWNER = ROOT / "src" / "antiphon" / "machine" / "public_names.py"
NAMED = re.compile(
    r"\b(?:pip|pipx|uv|uv pip|uv tool) (?:install|add) [^\n`|#]*antiphon[^\s`|#]*|\buvx [^\n`|#]*antiphon\S*"
)
"""A command that installs this package, up to the end of its line or of its cell."""
COMMAND = describe_install("host").partition(" (")[0]
WORKS = re.compile(
    re.escape(COMMAND).replace("host", "[a-z,-]+")
    + r"|pip install (--constraint \./antiphon/constraints\.txt )?\./antiphon"
)


def title(path: Path) -> str:
    """Name a file for people."""
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_a_page_names_a_command_that_works(page: Path):
    """From a clone, as the README does; the name of the package is not registered."""
    named = [found.strip() for found in NAMED.findall(page.read_text(encoding="utf-8"))]
    assert [one for one in named if not WORKS.fullmatch(one)] == []


def test_the_first_pages_name_it():
    """The README in both languages, and the pages on which people begin."""
    for page in ("README.md", "README.zh-CN.md", "docs/how-to/gateway.md", "docs/how-to/install.md"):
        assert COMMAND in (ROOT / page).read_text(encoding="utf-8"), page


def test_messages_take_it_from_one_place():
    """No other module spells a command that installs this package."""
    spelt = [title(path) for path in SOURCES if path != OWNER and NAMED.search(path.read_text(encoding="utf-8"))]
    assert spelt == []
    assert describe_install("host").startswith("pip install './antiphon[host]'")


def test_the_folder_of_the_command_is_that_of_the_clone():
    """What the README clones is what the command installs."""
    for page in ("README.md", "README.zh-CN.md", "docs/how-to/install.md"):
        assert re.search(r"^git clone <[^>]+> antiphon\b", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE), (
            page
        )
