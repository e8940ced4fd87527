"""Faults of one JSON Schema; the table of ``faulty_definitions`` has one for each rule."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.check.schema_faults import find_schema_faults, measure_depth


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"properties": {"a": {"items": {"type": "nothing"}}}}, "properties.a.items.type"),
        ({"$defs": {"a": {"minimum": "1"}}}, "$defs.a.minimum"),
        ({"anyOf": [{}, {"pattern": "["}]}, "anyOf[1].pattern"),
    ],
)
def test_an_invalid_part_is_named_by_its_path(schema: dict[str, Any], path: str):
    """The finding of an invalid schema says where in it the fault is."""
    assert path in [fault.path for fault in find_schema_faults(schema) if fault.rule == "schema.invalid"]


@pytest.mark.parametrize(
    "schema",
    [
        {"examples": [{"type": "nothing", "$ref": "#/x"}], "title": "$ref"},
        {"const": {"required": True, "minlength": 1}},
        {"properties": {"default": {"type": "string"}, "enum": {"type": "string"}}},
        {"$defs": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/a"}}},
        {"definitions": {"a b": {"type": "string"}}, "properties": {"x": {"$ref": "#/definitions/a%20b"}}},
        {"properties": {"a": {"type": "string", "format": "unknown"}}},
        {"type": "object", "properties": {"a": True}},
    ],
    ids=str,
)
def test_values_and_names_are_no_schemas(schema: dict[str, Any]):
    """Values that look like schemas, and arguments called like keywords, are no fault."""
    assert list(find_schema_faults(schema)) == []


def test_a_reference_to_the_root_is_recursion():
    """A definition that contains the whole schema again recurs."""
    schema = {"$defs": {"a": {"items": {"$ref": "#"}, "type": "array"}}, "properties": {"x": {"$ref": "#/$defs/a"}}}
    assert [fault.rule for fault in find_schema_faults(schema)] == ["vendor.recursion"]


def test_depth_is_counted_without_recursion():
    """The nesting of a value is counted up to the bound of schemas."""
    nested: dict[str, Any] = {"a": [{}]}
    assert measure_depth(nested) == 3
    assert measure_depth({}) == 1
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert measure_depth(value) == 65
