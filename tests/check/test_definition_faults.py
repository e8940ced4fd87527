"""What is wrong with what a server lists."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.check.definition_faults import MAX_ITEMS, find_definition_faults
from antiphon.check.findings import ServerDefinitions, load_rules
from antiphon.check.json_places import MAX_OF_RULE, read_object
from tests.check.faulty_definitions import (
    FAULTY,
    GOOD_SCHEMA,
    GOOD_TOOL,
    MODERN,
    FaultyCase,
    change_argument,
    change_tool,
    make_definitions,
    read_rules,
)

MEMBERS = re.findall(
    r"\S+",
    "name description inputSchema type properties required enum default items $ref $defs pattern annotations title"
    " readOnlyHint _meta icons src uri uriTemplate arguments capabilities serverInfo audience priority size version"
    " x-mcp-header anyOf examples minimum maximum execution extensions",
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(MEMBERS) | st.text(max_size=8), inner, max_size=5)
    ),
    max_leaves=25,
)


@pytest.mark.parametrize("case", FAULTY, ids=str)
def test_a_faulty_definition_has_its_finding_and_no_other(case: FaultyCase):
    """A server with one fault has one finding, at the place of the fault."""
    findings = list(find_definition_faults(case.definitions))
    assert [finding.rule for finding in findings] == [case.rule], findings
    assert findings[0].place.endswith(case.place)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_correct_server_has_no_finding(revision: str):
    """A server without a fault has no finding on any revision with a handshake."""
    assert list(find_definition_faults(make_definitions(revision))) == []


@pytest.mark.parametrize(
    "members",
    [
        {"inputSchema": {"type": "object", "additionalProperties": False}},
        {"inputSchema": {**GOOD_SCHEMA, "$schema": "http://json-schema.org/draft-07/schema#"}},
        {"annotations": {"readOnlyHint": True, "destructiveHint": False, "title": "Notes"}},
        {"title": "Notes", "icons": [{"src": "data:image/svg+xml;base64,AA==", "sizes": ["any"], "theme": "dark"}]},
        {"_meta": {"com.example/tags": ["a"], "plain": 1, "ui": {"resourceUri": "ui://x"}, "a.b/": 1}},
        {"outputSchema": {"type": "object", "properties": {"day": {"type": ["string", "null"], "default": None}}}},
        {"name": "dropdown_options", "annotations": {"readOnlyHint": True}},
        {"name": "removed_notes", "annotations": {"readOnlyHint": True}},
        {"execution": {"taskSupport": "optional"}},
    ],
    ids=str,
)
def test_correct_definitions_have_no_finding(members: dict[str, Any]):
    """Unusual but correct members of a tool are no fault."""
    assert list(find_definition_faults(change_tool("", "", **members).definitions)) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        {"type": "string", "enum": ["a", "b"], "default": "a"},
        {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "default": []},
        {"type": "object", "additionalProperties": True},
        {"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind", "other"]}]},
        {"const": "fixed"},
        {"type": "object", "properties": {"required": {"type": "string"}, "nullable": {"type": "boolean"}}},
        {"type": "integer", "x-mcp-header": "Day"},
    ],
    ids=str,
)
def test_correct_arguments_have_no_finding(schema: dict[str, Any]):
    """Usual schemas of arguments are no fault."""
    assert list(find_definition_faults(change_argument("", "", schema).definitions)) == []


def test_a_modern_server_says_who_it_is_in_its_meta():
    """A modern server needs no serverInfo, and its output may be any value."""
    info = {"io.modelcontextprotocol/serverInfo": {"name": "notes", "version": "1"}}
    tool = {**GOOD_TOOL, "outputSchema": {"type": "array", "items": {"type": "string"}}}
    opening: dict[str, Any] = {"capabilities": {"tools": {}}, "_meta": info}
    found = ServerDefinitions(revision=MODERN, opening=opening, tools=(tool,))
    assert list(find_definition_faults(found)) == []


def test_a_hundred_thousand_tools_have_few_findings():
    """A long list is looked at in part, and each rule has few findings."""
    tools = tuple({"name": "same", "inputSchema": 3} for _ in range(100_000))
    findings = list(find_definition_faults(make_definitions(tools=tools)))
    assert {"definition.list_size", "vendor.many_tools", "tools.twice"} <= {finding.rule for finding in findings}
    assert len(findings) <= MAX_OF_RULE * 6
    assert len(tools) > MAX_ITEMS


def test_a_list_with_too_many_members_is_looked_at_in_part():
    """What lies behind a huge definition is reported as not looked at."""
    huge = {**GOOD_TOOL, "icons": [{"src": "x", "sizes": ["1"] * 1_000}] * 1_000}
    findings = list(find_definition_faults(make_definitions(tools=({"name": "first"}, huge, {"name": "last"}))))
    assert [finding.rule for finding in findings] == ["definition.list_size", "definition.missing", "tools.undescribed"]


@pytest.mark.parametrize("depth", [100, 20_000])
def test_a_deep_schema_is_left(depth: int):
    """A schema may be nested deeper than the stack."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"inner": schema}}
    tool = {**GOOD_TOOL, "inputSchema": schema}
    rules = [finding.rule for finding in find_definition_faults(make_definitions(tools=(tool,)))]
    assert rules == ["schema.unbounded"]


def test_a_schema_that_expands_without_end_is_left():
    """A schema whose references double at each step is reported, not evaluated."""
    defs: dict[str, Any] = {
        f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}, {"$ref": f"#/$defs/d{at + 1}"}]} for at in range(40)
    }
    schema = {
        "type": "object",
        "$defs": {**defs, "d40": {"type": "string"}},
        "properties": {"a": {"$ref": "#/$defs/d0"}},
    }
    tool = {**GOOD_TOOL, "inputSchema": schema}
    rules = [finding.rule for finding in find_definition_faults(make_definitions(tools=(tool,)))]
    assert rules == ["schema.unbounded"]


def test_large_texts_are_cut_in_findings():
    """A finding shows a bounded piece of what was there."""
    large = "x y" * 1_000_000
    definitions = make_definitions(tools=({**GOOD_TOOL, "name": large, "title": [large]},), resources=({"uri": large},))
    findings = list(find_definition_faults(definitions))
    assert len(findings) >= 3
    assert all(len(finding.seen) < 1_000 and len(finding.place) < 1_000 for finding in findings)


@settings(max_examples=300, deadline=None)
@given(ANY_JSON, st.lists(ANY_JSON, max_size=3), st.sampled_from(["2025-06-18", MODERN, "unknown"]))
def test_any_json_can_be_checked(opening: object, items: list[Any], revision: str):
    """No JSON value makes the check fail, and every finding has a rule."""
    lists = tuple(items)
    definitions = ServerDefinitions(
        revision=revision,
        opening=read_object(opening) or {"capabilities": opening},
        tools=lists,
        resources=lists,
        templates=lists,
        prompts=lists,
    )
    for finding in find_definition_faults(definitions):
        assert finding.rule in load_rules()


def test_every_rule_about_definitions_has_a_faulty_one():
    """The table of faulty definitions has every rule that this module finds."""
    rules = read_rules("20-definitions.toml")
    assert rules - {case.rule for case in FAULTY} == {"definition.list_size"}
