"""Forms: their fields, and the values that fit."""

from __future__ import annotations

import pytest

from antiphon.errors import InvalidParams
from antiphon.host.checks.form_fields import Field, FormOption, check_content, check_value, fields_of, parse_value
from antiphon.wire.elicitation import ElicitRequestParams

TITLED = {"oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}


def fields(properties: object, required: list[str] | None = None) -> list[Field]:
    """Read a form with these properties."""
    schema = {"type": "object", "properties": properties, "required": required or []}
    return fields_of(ElicitRequestParams.form("?", schema))


def field(**schema) -> Field:
    """Read a form of one field."""
    return fields({"it": schema}, ["it"])[0]


def test_fields_keep_their_order_and_titles():
    """The form is asked as it was written."""
    read = fields({"b": {"type": "string", "title": "Bee"}, "a": {"type": "integer"}}, ["a"])
    assert [(each.name, each.title, each.required) for each in read] == [("b", "Bee", False), ("a", "a", True)]


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ({"type": "string", "enum": ["r", "b"]}, [FormOption("r", "r"), FormOption("b", "b")]),
        ({"type": "string", "enum": ["r", "b"], "enumNames": ["Red"]}, [FormOption("r", "Red"), FormOption("b", "b")]),
        ({"type": "string", **TITLED}, [FormOption("r", "Red"), FormOption("b", "Blue")]),
        ({"type": "array", "items": {"type": "string", "enum": ["r"]}}, [FormOption("r", "r")]),
        ({"type": "array", "items": {"anyOf": TITLED["oneOf"]}}, [FormOption("r", "Red"), FormOption("b", "Blue")]),
    ],
)
def test_choices_are_read_in_every_spelling(schema: dict, options: list[FormOption]):
    """Enums with and without titles, single and multiple, old and new."""
    assert list(field(**schema).options) == options


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"type": "string"}, " hello ", "hello"),
        ({"type": "integer"}, "42", 42),
        ({"type": "integer"}, "42.0", 42),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "boolean"}, "\u662f", True),
        ({"type": "boolean"}, "\u5426", False),
        ({"type": "string", **TITLED}, "2", "b"),
        ({"type": "string", **TITLED}, "Red", "r"),
        ({"type": "array", "items": {"enum": ["x", "y", "z"]}}, "1, z", ["x", "z"]),
        ({"type": "string", "format": "email"}, "a@b.c", "a@b.c"),
        ({"type": "string", "format": "date"}, "2026-01-31", "2026-01-31"),
        ({"type": "string", "format": "date-time"}, "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ({"type": "string", "format": "uri"}, "https://x.example", "https://x.example"),
    ],
)
def test_what_a_person_types_becomes_a_value(schema: dict, typed: str, value: object):
    """Of the type the schema wants."""
    assert parse_value(field(**schema), typed) == value


@pytest.mark.parametrize(
    ("schema", "typed", "problem"),
    [
        ({"type": "string"}, "", "needed"),
        ({"type": "string", "minLength": 3}, "ab", "at least 3 characters"),
        ({"type": "string", "maxLength": 1}, "ab", "at most 1"),
        ({"type": "integer"}, "1.5", "whole"),
        ({"type": "integer", "minimum": 2}, "1", "at least 2"),
        ({"type": "number", "maximum": 2}, "3", "at most 2"),
        ({"type": "integer", "minimum": 1_234_567}, "1", "at least 1234567$"),
        ({"type": "number", "maximum": 1_234_567.25}, "9999999", r"at most 1234567\.25$"),
        ({"type": "integer", "minimum": 10**18 + 1}, str(10**18), "at least 1000000000000000001$"),
        ({"type": "number"}, "nan", "number"),
        ({"type": "number"}, "many", "number"),
        ({"type": "boolean"}, "perhaps", "yes or no"),
        ({"type": "string", "enum": ["a"]}, "2", "one of the 1"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2}, "a", "at least 2 choices"),
        ({"type": "string", "format": "email"}, "a b", "e-mail"),
        ({"type": "string", "format": "date"}, "2026-02-31", "date"),
        ({"type": "string", "format": "date-time"}, "2026-01-31", "moment"),
        ({"type": "string", "format": "uri"}, "//[", "address"),
    ],
)
def test_what_does_not_fit_is_explained(schema: dict, typed: str, problem: str):
    """The text says what would."""
    with pytest.raises(ValueError, match=problem):
        parse_value(field(**schema), typed)


def test_a_number_of_any_size_is_compared():
    """A whole number may be larger than any fraction; a client can send it, though nobody types it."""
    assert check_value(field(type="integer"), 10**400) == 10**400
    with pytest.raises(ValueError, match="at most 2"):
        check_value(field(type="number", maximum=2), 10**400)
    with pytest.raises(ValueError, match="a number is needed"):
        check_value(field(type="number"), float("-inf"))


def test_an_optional_field_may_be_left_out():
    """Nothing typed is no value, whatever the server suggests."""
    assert parse_value(fields({"it": {"type": "string"}})[0], "") is None
    assert parse_value(fields({"it": {"type": "boolean", "default": True}})[0], "") is None
    with pytest.raises(ValueError, match="a value is needed"):
        parse_value(field(type="string", default="x"), "")


def test_a_default_that_does_not_fit_is_no_default():
    """The server's slip is not the person's problem."""
    assert field(type="integer", default="many").default is None


@pytest.mark.parametrize(
    ("properties", "place"),
    [
        ({"x": "text"}, "requestedSchema.properties.x"),
        ({"x": {"type": "object"}}, "requestedSchema.properties.x.type"),
        ({"x": {"type": "string", "enum": []}}, "requestedSchema.properties.x"),
        ({"x": {"type": "array"}}, "requestedSchema.properties.x"),
        ({"x": {"type": "string", "title": 7}}, "requestedSchema.properties.x"),
        ({"x": {"type": "string", "enum": [1]}}, "requestedSchema.properties.x"),
        ({str(at): {"type": "string"} for at in range(101)}, "requestedSchema"),
        ({"x": {"type": "string", "enum": ["a" * 300_000]}}, "requestedSchema"),
        ([], "requestedSchema.properties"),
    ],
)
def test_a_form_that_cannot_be_read_is_refused(properties: object, place: str):
    """With the place named."""
    with pytest.raises(InvalidParams) as caught:
        fields(properties)
    assert caught.value.data == {"place": place}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({}, "a: a value"),
        ({"a": 1}, "a: a text"),
        ({"a": "x", "c": "y"}, "c: no such"),
        ({"a": "x", "b": True}, "b: a num"),
    ],
)
def test_a_filled_in_form_is_checked_as_a_whole(content: dict, problem: str):
    """Whoever filled it in."""
    form = fields({"a": {"type": "string"}, "b": {"type": "integer"}}, ["a"])
    check_content(form, {"a": "x"})
    with pytest.raises(ValueError, match=problem):
        check_content(form, content)


def test_an_address_has_no_fields():
    """There is nothing to fill in."""
    assert fields_of(ElicitRequestParams.visit("Pay", "https://x.example")) == []
