"""Registries: names, order, pages and word of changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import ConfigError, InvalidParams
from antiphon.server.features.registry import Registry


def filled(count: int) -> Registry[int]:
    """Make a registry of so many numbers."""
    registry: Registry[int] = Registry("tool")
    for number in range(count):
        registry.add(f"n{number}", number)
    return registry


def walk(registry: Registry[int], size: int) -> list[int]:
    """Collect all items page by page."""
    found: list[int] = []
    cursor = None
    while True:
        page = registry.page(cursor, size)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_items_are_found_by_name_and_kept_in_order():
    """What was added first comes first."""
    registry = filled(3)
    assert registry.get("n1") == 1
    assert registry.get("other") is None
    assert list(registry) == [0, 1, 2]
    assert registry.names() == ["n0", "n1", "n2"]
    assert "n2" in registry
    assert len(registry) == 3


def test_a_name_is_taken_once():
    """The message names the thing and the remedy."""
    with pytest.raises(ConfigError, match="tool 'n0' is there already: choose another name"):
        filled(1).add("n0", 5)


def test_a_replacement_keeps_the_place():
    """``replace`` puts the new item where the old one was."""
    registry = filled(3)
    registry.add("n1", 9, replace=True)
    assert list(registry) == [0, 9, 2]


def test_removing_returns_the_item():
    """And what is not there cannot be removed."""
    registry = filled(2)
    assert registry.remove("n0") == 0
    with pytest.raises(KeyError, match="no tool 'n0'"):
        registry.remove("n0")


def test_without_a_size_one_page_holds_all():
    """No cursor follows the last page."""
    assert filled(3).page() == ((0, 1, 2), None)


@given(st.integers(0, 20), st.integers(1, 7))
def test_pages_put_together_are_the_whole(count, size):
    """Nothing is skipped or repeated, and no page is empty but that of nothing."""
    assert walk(filled(count), size) == list(range(count))


def test_a_cursor_survives_changes():
    """What stays is neither skipped nor repeated when other items come and go, even the one the cursor stands on."""
    registry = filled(6)
    first = registry.page(None, 3)
    registry.remove("n2")
    registry.remove("n4")
    registry.add("n6", 6)
    assert registry.page(first.next_cursor, 10).items == (3, 5, 6)


@pytest.mark.parametrize(
    "cursor", ["t", "t.", "t.0", "t.7", "t.-1", "t.03", "t.0x1", "t.é", "t.g", "x.1", "t.1" + "0" * 99]
)
def test_a_cursor_we_did_not_give_is_invalid(cursor):
    """Any text that is not exactly one of ours is refused."""
    with pytest.raises(InvalidParams, match="Invalid cursor"):
        filled(6).page(cursor, 2)


def test_a_cursor_of_another_list_is_invalid():
    """Lists of different things do not take each other's cursors."""
    templates: Registry[int] = Registry("resource template")
    templates.add("a", 1)
    templates.add("b", 2)
    cursor = templates.page(None, 1).next_cursor
    resources: Registry[int] = Registry("resource")
    resources.add("a", 1)
    with pytest.raises(InvalidParams):
        resources.page(cursor, 1)


def test_every_change_is_told():
    """Adding, replacing and removing each count once, and raise the version."""
    registry = filled(1)
    heard: list[int] = []
    registry.on_change(lambda: heard.append(registry.version))
    registry.add("a", 1)
    registry.add("a", 2, replace=True)
    registry.remove("a")
    assert heard == [2, 3, 4]
    assert registry.version == 4
