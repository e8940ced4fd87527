"""What a server lists is examined: each fault is found at its place, and nothing else."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.check.server_lists import MAX_ITEMS, MAX_TEXT
from antiphon.wire.revisions import REVISIONS, Revision
from tests.check.faulty_definitions import FAULTY, GOOD, GOOD_TOOL, FaultyCase, find_rules

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
MEMBERS = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta", "uri",
           "uriTemplate", "arguments", "execution"]  # fmt: skip


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_definitions_without_a_fault_break_no_rule(revision: Revision):
    """They are right on every revision."""
    assert find_rules({kind: [one] for kind, one in GOOD.items()}, revision) == []


@pytest.mark.parametrize("case", FAULTY, ids=str)
def test_a_fault_of_a_definition_is_found_and_nothing_else(case: FaultyCase):
    """Definitions with one fault have findings of one rule, at the place of the fault."""
    found = find_rules(case.lists)
    assert {rule for rule, _, _ in found} == {case.rule}, found
    assert any(place.endswith(case.place) for _, place, _ in found), found


@pytest.mark.parametrize(
    "tool",
    [
        {"description": "Draws XML. Never write comments (`<!-- -->`) into it."},
        {"inputSchema": {"type": "object", "properties": {"by_api_key": {"type": "boolean"}}}},
    ],
)
def test_what_real_servers_do_rightly_is_no_finding(tool: dict[str, object]):
    """Each was once found in a server that people publish, and is right."""
    assert find_rules({"tools": [{**GOOD_TOOL, **tool}]}) == []


@given(
    st.fixed_dictionaries(
        {},
        optional={
            kind: st.lists(ANY_JSON | st.dictionaries(st.sampled_from(MEMBERS), ANY_JSON), max_size=3) for kind in GOOD
        },
    )
)
@settings(max_examples=150, deadline=None)
def test_any_json_is_examined_without_an_error(lists: dict[str, list[object]]):
    """A member may have any type, and nothing raises."""
    find_rules(lists)


HUGE: dict[str, list[object]] = {
    "many": [GOOD_TOOL] * (10 * MAX_ITEMS),
    "long": [{**GOOD_TOOL, "description": "\u200d\u0301" * MAX_TEXT}],
    "wide": [{**GOOD_TOOL, "inputSchema": {"type": "object", "properties": {f"p{at}": {} for at in range(100_000)}}}],
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_list_is_examined_in_bounded_time(name: str):
    """What is beyond the bounds is left."""
    began = time.process_time()
    assert find_rules({"tools": HUGE[name]})
    assert time.process_time() - began < 10
