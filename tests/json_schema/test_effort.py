"""How much work a schema asks for, counted before it is done."""

from __future__ import annotations

import pytest

from antiphon.json_schema.effort import Effort, count_members, weigh_value


def doubling(keyword: str, levels: int) -> dict:
    """Make a schema of which each level looks at the same value by the next one, twice."""
    defs = {f"l{n}": {keyword: [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/l0", "$defs": {**defs, f"l{levels}": {"type": "integer"}}}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_references_are_counted_as_often_as_they_are_followed(keyword):
    """Each level doubles it; the count itself takes a step a definition."""
    ten, eleven, forty = (Effort(doubling(keyword, levels)).total(0) or 0 for levels in (10, 11, 40))
    assert ten >= 2**10
    assert 2 * ten <= eleven <= 3 * ten
    assert forty >= 2**40


def test_a_recursive_schema_is_counted_to_the_depth_of_the_value():
    """Along one branch of a tree, twice the depth is twice the work."""
    tree = {"properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}}}
    twenty, forty = Effort(tree).total(20), Effort(tree).total(40)
    assert twenty is not None and forty is not None and twenty < forty <= 2 * twenty


def test_a_schema_that_does_not_recur_asks_for_the_same_at_any_depth():
    """So that most values need not be weighed."""
    flat = {"properties": {"a": {"items": {"type": "integer"}}}, "required": ["a"]}
    assert Effort(flat).constant() == Effort(flat).total(5)
    assert Effort({"items": {"$ref": "#"}}).constant() is None
    assert Effort({"$dynamicRef": "#"}).constant() is None


def test_members_that_are_looked_at_twice_double_at_each_level():
    """``properties`` beside ``patternProperties``: the value is nested, and each level doubles the work."""
    schema = {"properties": {"a": {"$ref": "#"}}, "patternProperties": {"^a": {"$ref": "#"}}}
    totals = [Effort(schema).total(depth) or 0 for depth in (5, 6)]
    assert totals[1] >= 2 * totals[0]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#name"},
        {"$dynamicRef": "#"},
        {"properties": {"a": {"$id": "other", "$ref": "#/$defs/x"}}},
        {"allOf": [{} for _ in range(4_000)]},
    ],
)
def test_what_cannot_be_counted_is_said_to_be_so(schema):
    """A circle, an anchor, an identifier, or too much of it."""
    assert Effort(schema).total(1) is None


def test_what_a_schema_lists_is_work():
    """Each value of an enumeration may be compared."""
    few, many = Effort({"enum": [1, 2]}).total(0), Effort({"enum": list(range(1_000))}).total(0)
    assert few is not None and many is not None and many - few == 998


def test_a_value_weighs_its_places_and_its_text():
    """And nests so deep."""
    assert weigh_value(1, 100) == (1, 0)
    assert weigh_value({"a": [1, 2]}, 100) == (4, 2)
    assert weigh_value(["x" * 160], 100) == (12, 1)
    assert weigh_value(list(range(101)), 100) is None


def test_counting_stops_where_it_is_too_much():
    """Whoever asks has no use for more."""
    assert count_members([[1, 2], {"a": 3}], 100) == 6
    assert count_members([[0] * 1_000, [0] * 1_000_000], 10) <= 1_000_010
