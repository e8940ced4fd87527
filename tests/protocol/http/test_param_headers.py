"""Arguments that travel in headers: which annotations count, what is sent, how it is encoded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import LocalProtocolError, RemoteProtocolError
from antiphon.protocol.http.param_headers import HeaderParam, decode_value, encode_value, header_params, param_headers


def schema(**properties):
    """An input schema."""
    return {"type": "object", "properties": properties}


def mirrored(name="Region", type="string"):
    """A property that wants to be mirrored."""
    return {"type": type, "x-mcp-header": name}


# 2026-07-28 basic/transports/streamable-http, "Encoding examples"; and what the rule says beyond them.
EXAMPLES = {
    "us-west1": "us-west1",
    "Hello, 世界": "=?base64?SGVsbG8sIOS4lueVjA==?=",
    " padded ": "=?base64?IHBhZGRlZCA=?=",
    "line1\nline2": "=?base64?bGluZTEKbGluZTI=?=",
    "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
    "two words": "two words",
    "a\tb": "=?base64?YQli?=",
    "": "",
    "x": "x",
    "\x7f": "=?base64?fw==?=",
}


@pytest.mark.parametrize(("text", "value"), EXAMPLES.items())
def test_values_are_encoded_as_the_specification_shows(text, value):
    """As it is where that is safe, else in the Base64 form."""
    assert encode_value(text) == value


@given(st.text())
def test_every_text_survives(text):
    """Encoded values are printable ASCII, and decode to what they were."""
    value = encode_value(text)
    assert value.isascii()
    assert value == value.strip()
    assert value.isprintable()
    assert decode_value(value) == text


@pytest.mark.parametrize("value", ["=?base64?!?=", "=?base64?/w==?=", "=?base64?YQ?="])
def test_what_claims_to_be_base64_and_is_not_decodes_to_nothing(value):
    """Bad alphabet, bad UTF-8, bad padding."""
    assert decode_value(value) is None


def test_annotated_properties_are_found_at_any_depth():
    """A chain of ``properties`` reaches them."""
    found = header_params(schema(a=mirrored("A"), b={"type": "object", "properties": {"c": mirrored("C", "integer")}}))
    assert found == (HeaderParam("Mcp-Param-A", ("a",)), HeaderParam("Mcp-Param-C", ("b", "c")))


def test_a_property_may_have_the_name_of_the_annotation():
    """It is an annotation in a schema, and a name among properties."""
    assert header_params(schema(**{"x-mcp-header": {"type": "string"}})) == ()


def test_a_nullable_property_may_be_mirrored():
    """Null only means that there is no header."""
    assert header_params(schema(a=mirrored(type=["string", "null"])))


def test_data_in_a_schema_is_no_schema():
    """Defaults, constants and examples may hold anything."""
    assert header_params(schema(a={"default": mirrored(), "enum": [mirrored()], "examples": [mirrored()]})) == ()


INVALID = {
    "empty": schema(a=mirrored("")),
    "space": schema(a=mirrored("a b")),
    "colon": schema(a=mirrored("a:b")),
    "no ASCII": schema(a=mirrored("ä")),
    "control": schema(a=mirrored("a\r\nb")),
    "no text": schema(a=mirrored(5)),
    "object": schema(a=mirrored(type="object")),
    "array": schema(a=mirrored(type="array")),
    "null": schema(a=mirrored(type="null")),
    "number": schema(a=mirrored(type="number")),
    "number among others": schema(a=mirrored(type=["string", "number"])),
    "no type": schema(a={"x-mcp-header": "A"}),
    "odd type": schema(a=mirrored(type=[1])),
    "twice": schema(a=mirrored("A"), b=mirrored("A")),
    "twice in other case": schema(a=mirrored("A"), b=mirrored("a")),
    "items": schema(a={"type": "array", "items": mirrored()}),
    "items of an item": schema(a={"items": [{"properties": {"x": mirrored()}}]}),
    "anyOf": schema(a={"anyOf": [mirrored()]}),
    "definitions": {**schema(), "$defs": {"a": mirrored()}},
    "if": {**schema(), "if": schema(a=mirrored())},
    "additional": {**schema(), "additionalProperties": mirrored()},
    "root": {**schema(), "x-mcp-header": "A"},
}


@pytest.mark.parametrize("case", INVALID)
def test_a_tool_with_an_invalid_annotation_is_refused(case):
    """Clients "MUST exclude the invalid tool"."""
    with pytest.raises(RemoteProtocolError, match="x-mcp-header"):
        header_params(INVALID[case])


def test_a_schema_without_end_is_refused():
    """Depth is bounded."""
    deep = {}
    for _ in range(100):
        deep = {"properties": {"x": deep}}
    with pytest.raises(RemoteProtocolError, match="deeper"):
        header_params(deep)


@pytest.mark.parametrize("odd", [{}, {"properties": 5}, {"properties": {"a": True}}, {"properties": {"a": None}}])
def test_an_odd_schema_has_none(odd):
    """Whether it is valid is somebody else's question."""
    assert header_params(odd) == ()


@pytest.mark.parametrize(
    ("value", "header"),
    [("a b", "a b"), ("", ""), (5, "5"), (-7, "-7"), (True, "true"), (False, "false"), (42.0, "42")],
)
def test_primitives_become_text(value, header):
    """Decimal integers, lower-case booleans, strings as they are."""
    assert param_headers((HeaderParam("H", ("a",)),), {"a": value}) == {"H": header}


@pytest.mark.parametrize("arguments", [{}, {"a": None}, {"a": []}, {"a": {"b": 1}}, {"a": 1.5}])
def test_what_is_absent_null_or_no_primitive_has_no_header(arguments):
    """The server will say what is wrong with it, if anything is."""
    assert param_headers((HeaderParam("H", ("a",)),), arguments) == {}


def test_nested_arguments_are_read_at_their_path():
    """And only there."""
    params = (HeaderParam("H", ("a", "b")),)
    assert param_headers(params, {"a": {"b": "x"}, "b": "y"}) == {"H": "x"}
    assert param_headers(params, {"a": "no object"}) == {}


def test_an_integer_that_not_every_reader_keeps_is_refused():
    """It could say one thing outside and another inside."""
    with pytest.raises(LocalProtocolError, match="too large"):
        param_headers((HeaderParam("H", ("a",)),), {"a": 2**53})
