"""Schemas of OpenAPI as JSON Schema 2020-12: what 3.0 has of its own, what is hidden, and what is bounded."""

from __future__ import annotations

import datetime as dt
from json import loads as decode_json

import jsonschema_rs
import pytest

from antiphon import Client, Server
from antiphon.json_schema.effort import count_members
from antiphon.server import ApiAnswer
from tests.server.openapi.api import describe, document


def convert(schema, *, answer=False, **components):
    """Return a schema as a tool has it, and the definitions beside it."""
    content = {"content": {"application/json": {"schema": schema}}}
    described = describe("post", "/p", requestBody=content, responses={"200": content})
    described["components"] = {"schemas": components}
    tool = Server.from_openapi(described, client=print, base_url="https://api.test").tools.get("op").definition
    for each in (tool.input_schema, tool.output_schema):
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **(each or {})})
        jsonschema_rs.validator_for(each or {})
    whole = tool.output_schema if answer else tool.input_schema
    return (whole["properties"]["result"] if answer else whole["properties"]["body"]), whole.get("$defs", {})


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"allOf": [{"type": "object"}], "nullable": True},
            {"anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}]},
        ),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"exclusiveMinimum": 1}, {"exclusiveMinimum": 1}),
        ({"type": "integer", "example": 5}, {"type": "integer", "examples": [5]}),
        ({"type": "string", "format": "binary"}, {"type": "string", "contentEncoding": "base64"}),
        ({"oneOf": [{}, {}], "discriminator": {"propertyName": "kind"}}, {"anyOf": [{}, {}]}),
        ({"oneOf": [{}, {}], "anyOf": [{}], "allOf": [{}]}, {"anyOf": [{}], "allOf": [{}, {"anyOf": [{}, {}]}]}),
        ({"type": "object", "xml": {}, "externalDocs": {}, "x-own": 1, "$id": "a:b"}, {"type": "object"}),
    ],
)
def test_what_only_openapi_has_is_converted(given, made):
    """Null, bounds, examples, bytes and discriminators (fastmcp#1280, #2082, #3744)."""
    assert convert(given)[0] == made


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "file"}, {}),
        ({"type": "object", "required": True}, {"type": "object"}),
        ({"required": ["a", "a", 1], "type": "object"}, {"type": "object"}),
        ({"minLength": "3", "maxLength": -1, "multipleOf": 0}, {}),
        ({"pattern": "("}, {}),
        ({"pattern": ["a"]}, {}),
        ({"items": [{"type": "string"}]}, {}),
        ({"enum": "a", "description": 5, "title": None}, {}),
        ({"default": {"$ref": "http://192.0.2.1/"}}, {}),
        ({"default": decode_json(b"[" * 130 + b"]" * 130), "const": [[1]]}, {"const": [[1]]}),
        (5, {}),
    ],
)
def test_what_no_schema_can_have_is_left_out(given, made):
    """One wrong keyword would make the whole tool unusable."""
    assert convert(given)[0] == made


def test_a_property_may_be_called_like_a_keyword():
    """GitHub's document has one called "$ref" (fastmcp#1220)."""
    properties = {name: {"type": "string"} for name in ("$ref", "default", "enum", "properties", "x-own")}
    assert convert({"type": "object", "properties": properties})[0]["properties"] == properties


def test_each_direction_has_its_own_properties():
    """What is read only is not asked for, what is write only is not answered."""
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer", "readOnly": True}, "key": {"type": "string", "writeOnly": True}},
        "required": ["id", "key"],
    }
    assert list(convert(schema)[0]["properties"]) == ["key"]
    content = {"content": {"application/json": {"schema": schema}}}
    described = describe("post", "/p", responses={"200": content})
    tool = Server.from_openapi(described, client=print, base_url="https://api.test").tools.get("op").definition
    assert (list(tool.output_schema["properties"]), tool.output_schema["required"]) == (["id"], ["id"])


@pytest.mark.parametrize("answer", [False, True])
def test_a_property_may_say_elsewhere_that_it_is_hidden(answer):
    """In what it refers to, or in the base of what requires it: an answer without it is none that differs."""
    hidden = {"type": "string", "writeOnly" if answer else "readOnly": True}
    base = {"type": "object", "properties": {"key": {"$ref": "#/components/schemas/Key"}, "a": {}}}
    made, found = convert(
        {"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/Base"}], "required": ["key", "a"]}},
        answer=answer,
        Base=base,
        Key=hidden,
    )
    assert made["items"]["required"] == ["a"]
    assert list(found["Base"]["properties"]) == ["a"]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"not": {"required": ["a"]}}, {"not": {"required": ["a"]}}),
        ({"not": {"pattern": "("}}, {}),
        ({"not": {"$ref": "#/components/schemas/A"}}, {}),
        ({"if": {"properties": {"a": {"readOnly": True}}}, "then": False}, {"then": False}),
        ({"unevaluatedProperties": False, "unevaluatedItems": False}, {}),
        ({"patternProperties": {"(?<": {}}, "additionalProperties": False}, {"patternProperties": {}}),
        ({"patternProperties": {"a": {}}, "additionalProperties": False}, None),
        ({"patternProperties": 5, "additionalProperties": False}, None),
        ({"contains": {"pattern": "("}, "maxContains": 1, "minContains": 1}, {"contains": {}, "minContains": 1}),
    ],
)
def test_what_was_left_out_makes_no_schema_refuse_more(given, made):
    """A keyword that turns a schema around, or counts what fits, is kept only with all that it depends on."""
    expected = {**given, "patternProperties": get_patterns(given)} if made is None else made
    assert convert(given, A={"type": "object"})[0] == expected


def get_patterns(schema):
    """Return the patterns of a schema, none if they are something else."""
    return schema["patternProperties"] if isinstance(schema["patternProperties"], dict) else {}


def test_nested_definitions_come_along():
    """All that is reached, and nothing else (fastmcp#1372, #2087)."""
    parts = {
        "A": {"properties": {"b": {"$ref": "#/components/schemas/B"}}},
        "B": {"items": {"$ref": "#/components/schemas/C"}},
    }
    schema, found = convert({"$ref": "#/components/schemas/A"}, **parts, C={"type": "string"}, D={})
    assert schema == {"$ref": "#/$defs/A"}
    assert set(found) == {"A", "B", "C"}


def test_definitions_of_one_name_are_kept_apart():
    """Components of different kinds may have the same name."""
    described = document(
        {
            "/p": {
                "get": {
                    "operationId": "op",
                    "parameters": [
                        {"name": n, "in": "query", "schema": {"$ref": r}}
                        for n, r in (("a", "#/x/Pet"), ("b", "#/components/schemas/Pet"))
                    ],
                }
            }
        },
        components={"schemas": {"Pet": {"type": "integer"}}},
        x={"Pet": {"type": "string"}},
    )
    schema = (
        Server.from_openapi(described, client=print, base_url="https://a.test").tools.get("op").definition.input_schema
    )
    assert schema["$defs"] == {"Pet": {"type": "string"}, "Pet_2": {"type": "integer"}}


def test_a_numbered_name_may_be_taken():
    """By a component that is called so itself."""
    parts = {"Pet": {"type": "integer"}, "Pet_2": {"type": "number"}}
    described = {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("Pet_2", "Pet")]}
    described["anyOf"] += [{"$ref": "#/components/schemas/More/properties/Pet"}]
    found = convert(described, **parts, More={"properties": {"Pet": {"type": "string"}}})[1]
    assert {name: each["type"] for name, each in found.items()} == {
        "Pet_2": "number",
        "Pet": "integer",
        "Pet_3": "string",
    }


def test_tools_share_their_definitions():
    """A thousand tools of one document hold each component once."""
    content = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
    paths = {f"/p{number}": {"post": {"operationId": f"op{number}", "requestBody": content}} for number in range(3)}
    described = document(paths, components={"schemas": {"Pet": {"type": "object"}}})
    tools = list(Server.from_openapi(described, client=print, base_url="https://a.test").tools)
    assert len({id(tool.definition.input_schema["$defs"]["Pet"]) for tool in tools}) == 1


def test_a_large_schema_is_cut_where_it_is_deepest():
    """What is left out may be anything, so that no value is refused for it; huge enumerations likewise."""
    parts = {
        f"S{n}": {"properties": {f"p{m}": {"$ref": f"#/components/schemas/S{n + 1 + m}"} for m in range(50)}}
        for n in range(400)
    }
    parts |= {f"S{n}": {"type": "string"} for n in range(400, 500)}
    schema, found = convert({"$ref": "#/components/schemas/S0"}, **parts)
    assert schema == {"$ref": "#/$defs/S0"}
    assert count_members(found, 20_000) < 8_000
    assert any(set(each) == {"description"} for each in found.values())
    assert convert({"type": "string", "enum": [str(n) for n in range(100_000)]})[0] == {"type": "string"}


async def test_a_schema_that_never_ends_refuses_the_call_and_not_the_server():
    """Two schemas that only refer to each other say nothing that could be checked."""
    described = describe(
        "post", "/p", requestBody={"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}
    )
    described["components"] = {"schemas": {"A": {"allOf": [{"$ref": "#/components/schemas/A"}]}}}
    async with Client(Server.from_openapi(described, client=print, base_url="https://a.test")) as client:
        assert (await client.call_tool("op", {"body": 1})).is_error
        assert len((await client.list_tools()).tools) == 1


@pytest.mark.parametrize("answer", [False, True])
def test_one_of_several_is_any_of_them(answer):
    """What is left out of a schema here makes more of them fit, and no value may be refused for that."""
    closed = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    schema = {"type": "array", "items": {"oneOf": [closed, {"type": "object"}]}}
    assert list(convert(schema, answer=answer)[0]["items"]) == ["anyOf"]


@pytest.mark.parametrize(
    "wide", [{"properties": {f"p{n}": {"type": "string"} for n in range(20_000)}}, {"anyOf": [{}] * 9_000}]
)
def test_what_is_too_large_in_one_place_may_be_anything(wide):
    """Documents without references have all of an answer in one schema; the rest of it is described."""
    schema = {"type": "array", "items": {"type": "object", "properties": {"a": wide, "b": {"type": "string"}}}}
    for answer in (False, True):
        assert convert(schema, answer=answer)[0]["items"]["properties"] == {"a": {}, "b": {"type": "string"}}


def test_parts_of_python_that_are_shared_are_counted_each_time():
    """Aliases of YAML become one object at many places; twenty-four of them in each other are millions of schemas."""
    schema = {"type": "string"}
    for _ in range(24):
        schema = {"type": "object", "properties": {"x": schema, "y": schema}}
    assert count_members(convert(schema)[0], 20_000) < 8_000


def test_dates_of_yaml_are_text():
    """A mapping that was read by another library may hold them."""
    day = dt.date(2020, 1, 1)
    assert convert({"type": "string", "default": day, "enum": [day]})[0] == {
        "type": "string",
        "default": "2020-01-01",
        "enum": ["2020-01-01"],
    }


async def test_text_that_is_not_unicode_spoils_no_tool():
    """Python's own reader of JSON takes it; a schema with it could be neither listed nor compiled."""
    odd = "a\ud800"
    schema = {"type": "object", "properties": {odd: {"readOnly": True}, "b": {"enum": [odd], "example": odd}}}
    described = describe(
        "post",
        "/p",
        summary=odd,
        parameters=[{"name": odd, "in": "query", "description": odd, "schema": {"type": "string", "default": odd}}],
        requestBody={"content": {"application/json": {"schema": {**schema, "title": odd}}}},
    )

    async def answer(request):
        return ApiAnswer(status=200, headers={}, body=request.body)

    async with Client(Server.from_openapi(described, client=answer, base_url="https://a.test")) as client:
        assert len((await client.list_tools()).tools) == 1
        assert (await client.call_tool("op", {"a": "x", "body": {"c": 1}})).content[0].text == '{"c":1}'
