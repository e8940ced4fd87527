"""The input schema of a function."""

from __future__ import annotations

import enum
from typing import Any, Literal

import jsonschema_rs
import msgspec
import pydantic
import pytest

from antiphon.errors import ConfigError
from antiphon.server.functions.schema import choices, input_schema, text_choices
from antiphon.server.functions.signature import REQUIRED, Parameter


class Size(enum.Enum):
    LARGE = "large"
    SMALL = "small"


class Item(msgspec.Struct):
    price: float


class Model(pydantic.BaseModel):
    x: int


def parameter(name: str, annotation: Any, default: Any = REQUIRED) -> Parameter:
    """Make a parameter."""
    return Parameter(name=name, annotation=annotation, default=default)


def test_the_schema_lists_properties_in_order_and_what_is_required():
    """And refuses what it does not list, as the call will."""
    schema = input_schema([parameter("product", str), parameter("count", int, 3)], "here")
    assert schema == {
        "type": "object",
        "properties": {"product": {"type": "string"}, "count": {"type": "integer", "default": 3}},
        "required": ["product"],
        "additionalProperties": False,
    }


def test_no_parameters_is_an_empty_object():
    """2025-11-25 server/tools recommends exactly this for tools without parameters."""
    assert input_schema([], "here") == {"type": "object", "properties": {}, "additionalProperties": False}


def test_definitions_of_both_libraries_stand_together():
    """The schema refers to nothing outside of itself, and is valid."""
    parameters = [parameter("a", list[Item]), parameter("b", dict[str, Model]), parameter("c", Size, Size.SMALL)]
    schema = input_schema(parameters, "here")
    assert set(schema["$defs"]) == {"Item", "Model", "Size"}
    assert schema["properties"]["c"]["default"] == "small"
    jsonschema_rs.meta.validate(schema)
    jsonschema_rs.validate(schema, {"a": [{"price": 1}], "b": {"k": {"x": 1}}, "c": "large"})


def test_a_default_that_is_no_json_is_not_shown():
    """A sentinel is the author's own affair."""
    schema = input_schema([parameter("a", int, object())], "here")
    assert schema["properties"]["a"] == {"type": "integer"}
    assert "required" not in schema


def test_a_type_without_a_schema_names_the_parameter():
    """Place, parameter, reason."""
    with pytest.raises(ConfigError, match=r'^here: parameter "b": type .* is not supported'):
        input_schema([parameter("a", int), parameter("b", type("Own", (), {}))], "here")


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Size, {"large", "small"}),
        (Size | None, {"large", "small"}),
        (Literal["a", "b"], {"a", "b"}),
        (Literal["a"], {"a"}),
        (Literal["a", 1], {"a", 1}),
        (str, set()),
        (Item, set()),
    ],
)
def test_the_choices_of_a_property_are_found(annotation, expected):
    """Directly, by reference, or beside null."""
    schema = input_schema([parameter("a", annotation)], "here")
    assert {one for one in choices(schema, "a") if one is not None} == expected


def test_only_text_can_be_completed():
    """Numbers are not offered, and properties without choices are not listed."""
    schema = input_schema([parameter("a", Literal["x", 1]), parameter("b", Literal[1]), parameter("c", str)], "here")
    assert text_choices(schema) == {"a": ("x",)}
