"""Entries of skills: what is compared, and how."""

from __future__ import annotations

import pytest

from antiphon.wire.skills import find_skill_root, is_same_json, is_within_skill


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ("1", 1, False),
        (None, {}, False),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": [True]}, {"a": [1]}, False),
        ({"a": None}, {}, False),
    ],
)
def test_json_is_compared_by_value(one, other, same):
    """As JavaScript has it: one kind of numbers, and no order of members."""
    assert is_same_json(one, other) is same


def test_the_root_of_a_skill_is_its_folder():
    """Only of the URI of a SKILL.md."""
    assert find_skill_root("skill://a/b/SKILL.md") == "skill://a/b"
    assert find_skill_root("skill://a/b/skill.md") == find_skill_root("a/SKILL.md") == ""


@pytest.mark.parametrize("uri", ["skill://a", "skill://a/", "skill://ab/x", "skill://a/../b", "skill://a/x//y", "x"])
def test_a_file_is_within_its_skill_by_its_text(uri):
    """No part of its path leads elsewhere."""
    assert is_within_skill("skill://a/x/y", "skill://a")
    assert not is_within_skill(uri, "skill://a")
