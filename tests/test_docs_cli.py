"""The reference pages are what ``tests/support/reference.py`` writes: of every command, and of every public name."""

from __future__ import annotations

import pytest

import antiphon
from antiphon.cli.root import COMMANDS
from tests.support.reference import FOLDER, PAGES


@pytest.mark.parametrize("page", ["cli.md", "api.md"])
def test_a_reference_page_is_current(page: str):
    """A changed option or docstring needs ``python -m tests.support.reference``."""
    assert (FOLDER / page).read_text(encoding="utf-8") == PAGES[page]()


def test_every_command_has_a_section():
    """The page is complete."""
    text = (FOLDER / "cli.md").read_text(encoding="utf-8")
    assert [line.removeprefix("## antiphon ") for line in text.splitlines() if line.startswith("## ")] == [*COMMANDS]


def test_every_public_name_has_a_line():
    """The page is complete."""
    text = (FOLDER / "api.md").read_text(encoding="utf-8")
    assert [name for name in antiphon.__all__ if f"\n| `{name}` | " not in text] == []
