"""Entries of skills: what their URIs say."""

from __future__ import annotations

import pytest

from antiphon.wire.skills import find_skill_root, is_within_skill


def test_the_root_of_a_skill_is_its_folder():
    """Only of the URI of a SKILL.md."""
    assert find_skill_root("skill://a/b/SKILL.md") == "skill://a/b"
    assert find_skill_root("skill://a/b/skill.md") == find_skill_root("a/SKILL.md") == ""


@pytest.mark.parametrize(
    "uri",
    [
        "skill://a", "skill://a/", "skill://ab/x", "skill://a/../b", "skill://a/x//y", "x",
        "skill://a/%2e%2e/b", "skill://a/x%2F..%2f../b", "skill://a/.%2E/b",
    ],
)  # fmt: skip
def test_a_file_is_within_its_skill_by_its_text(uri):
    """No part of its path leads elsewhere."""
    assert is_within_skill("skill://a/x/y", "skill://a")
    assert not is_within_skill(uri, "skill://a")
