"""The layout of ``src`` stays as good as it is: bounds on the figures of ``python -m tests.support.house``.

No ruler: the bounds are on what a reader meets, and say nothing of how small a module should be.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import house

MAX_ENTRIES = 24
"""Most names side by side in a folder: as many as are taken in at a glance."""

WALKS = {"tools/call": 27, "ctx.sample": 39}
"""Most files that one call leads through, both sides together."""

PAGE = Path(__file__).parents[1] / "docs" / "design" / "layers.md"


def test_no_folder_holds_more_names_than_are_taken_in_at_a_glance():
    """Past that, some of them belong together in a folder of their own."""
    assert {name: count for name, count in house.entries().items() if count > MAX_ENTRIES} == {}


@pytest.mark.parametrize("with_types", [False, True])
def test_imports_run_in_no_circle(with_types: bool):
    """Neither when the program runs nor for the type checker."""
    assert house.largest_circle(with_types=with_types) == []


def test_a_circle_would_be_found():
    """Three modules that need each other are one component; a module that only leads there is none."""
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert list(house._components(edges)) == [["a", "b", "c"]]


def test_every_name_is_used():
    """What nothing names, and no user is promised, is dead."""
    assert house.unused() == []


def test_one_call_leads_through_few_files():
    """Whoever follows it has to open each of them."""
    walked = {name: len(files) for name, files in house.walks().items()}
    assert {name: count for name, count in walked.items() if count > WALKS[name]} == {}


def test_the_page_quotes_the_bounds():
    """docs/design/layers.md says how many files a call leads through at most, in the words of the command."""
    quoted = re.findall(r"^files on the walk of (\S+): (\d+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: int(count) for name, count in quoted} == WALKS
