"""Faults at places of JSON values, and walks over such values."""

from __future__ import annotations

import sys
from typing import Any

from antiphon.check.findings import Finding
from antiphon.check.json_places import (
    MAX_NODES,
    MAX_OF_RULE,
    PlacedFault,
    describe_json,
    limit_findings,
    list_json_texts,
    place_faults,
    walk_json,
)


def test_every_text_has_its_path():
    """Texts are found in objects and lists, in their order, and so are the names of members."""
    value = {"a": ["x", {"b": "y"}], "c": 1}
    found = [(text.path, text.text) for text in list_json_texts(value) if not text.is_name]
    assert found == [("a[0]", "x"), ("a[1].b", "y")]
    assert {text.text for text in list_json_texts(value) if text.is_name} == {"a", "b", "c"}


def test_a_walk_is_bounded():
    """A deep or a wide value is walked in part, without recursion."""
    deep: Any = []
    for _ in range(3 * sys.getrecursionlimit()):
        deep = [deep]
    assert sum(1 for _ in walk_json(deep)) == 3 * sys.getrecursionlimit() + 1
    assert sum(1 for _ in walk_json([[0] * 1_000] * 1_000)) == MAX_NODES
    assert max(len(path) for path, _ in walk_json(deep)) < 1_000


def test_a_value_is_described_in_few_characters():
    """A description has the kind and the size of a container, and a piece of a text."""
    assert describe_json(None) == "null"
    assert describe_json({"a": 1}) == "an object of 1"
    assert describe_json([1, 2]) == "a list of 2"
    assert len(describe_json("a" * 1_000_000)) < 1_000
    assert len(describe_json(10**400)) < 100


def test_findings_have_the_place_of_their_definition():
    """A fault becomes a finding at its path within the definition."""
    (finding,) = place_faults([PlacedFault("tools.twice", "name", "x")], "tools/list: tools[0]", "r")
    assert (finding.place, finding.seen, finding.revision) == ("tools/list: tools[0] name", "x", "r")


def test_each_rule_has_few_findings():
    """The findings of one rule end at the bound, and those of another do not."""
    many = [Finding(rule="tools.twice", place=str(at), seen="") for at in range(100)]
    other = Finding(rule="tools.undescribed", place="last", seen="")
    found = list(limit_findings([*many, other]))
    assert found == [*many[:MAX_OF_RULE], other]
