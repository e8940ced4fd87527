"""Tools, calls and their results."""

from __future__ import annotations

import pytest

from antiphon.wire.common import RequestMeta
from antiphon.wire.content import ImageContent, TextContent
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, Tool, fit_schemas, walk_schemas


def test_arguments_stay_undecoded():
    """Byte for byte, until the tool is known."""
    assert bytes(decode_wire(b'{"name":"t","arguments":{"b": 1.0}}', CallToolRequestParams).arguments) == b'{"b": 1.0}'


def test_arguments_that_were_left_out_are_left_out():
    """Absent is neither null nor an empty object."""
    assert encode_value(CallToolRequestParams.of("t")) == b'{"name":"t"}'
    assert encode_value(decode_wire(b'{"name":"t"}', CallToolRequestParams)) == b'{"name":"t"}'
    assert not CallToolRequestParams.of("", None).arguments


@pytest.mark.parametrize("arguments", [{}, {"a": [1, {"b": None}]}])
def test_a_call_is_made_from_plain_values(arguments):
    """A client gives a mapping."""
    params = CallToolRequestParams.of("t", arguments, meta=RequestMeta(progress_token=1))
    back = decode_wire(encode_value(params), dict)
    assert back == {"name": "t", "arguments": arguments, "_meta": {"progressToken": 1}}


def test_schemas_are_kept_as_they_are():
    """JSON Schema is data: unknown keywords, booleans and all."""
    schema = {"type": "object", "properties": {"a": True}, "$defs": {"b": False}, "x": None}
    assert decode_wire(encode_value(Tool(name="t", input_schema=schema)), Tool).input_schema == schema


@pytest.mark.parametrize(
    ("given", "fitted"),
    [
        ({}, {"type": "object"}),
        ({"type": "string", "title": "x"}, {"type": "object", "title": "x"}),
        ({"type": ["object"]}, {"type": "object"}),
        ({"anyOf": [{"type": "object"}]}, {"anyOf": [{"type": "object"}], "type": "object"}),
        ({"type": "object", "properties": None, "required": None}, {"type": "object"}),
        ({"type": "object", "properties": [], "required": "a", "$defs": None}, {"type": "object"}),
    ],
)
def test_an_input_schema_that_strict_readers_refuse_is_fitted(given, fitted):
    """Arguments are an object in any case, so that the schema means the same."""
    tool = Tool(name="t", input_schema=given, output_schema={"properties": None})
    assert fit_schemas(tool) == Tool(name="t", input_schema=fitted, output_schema={})


def test_a_schema_that_every_reader_takes_is_kept():
    """Also one of a result that is no object."""
    schema = {"type": "object", "properties": {"a": True}, "required": ["a"], "x": None}
    tool = Tool(name="t", input_schema=schema, output_schema={"type": ["array", "null"]})
    assert fit_schemas(tool) is tool


def test_the_text_of_a_result():
    """All text, and nothing else."""
    blocks = [TextContent.of("a"), ImageContent.of(b"", "image/png"), TextContent.of("b")]
    assert CallToolResult(content=blocks).text == "a\nb"


def test_content_is_written_even_when_empty():
    """It is required."""
    assert encode_value(CallToolResult(content=[])) == b'{"content":[]}'
    assert encode_value(CallToolResult(content=[], is_error=True)) == b'{"content":[],"isError":true}'


def test_subschemas_are_listed_and_values_are_not():
    """A default may look like a schema, and is none."""
    schema = {"properties": {"a": {"anyOf": [{"type": "string"}], "default": {"type": "x"}}}, "items": {"$ref": "#"}}
    assert {path for path, _ in walk_schemas(schema, 100)} == {
        (), ("properties", "a"), ("properties", "a", "anyOf", 0), ("items",),
    }  # fmt: skip
    assert len([*walk_schemas(schema, 2)]) == 2
