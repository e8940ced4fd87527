"""Reports of three libraries in one kind of sentence."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jsonschema_rs
import msgspec
import pydantic
import pytest

from antiphon.json_schema.validator import (
    MismatchError,
    SchemaMismatch,
    describe_mismatch,
    describe_rule,
    join_path,
    prefix_place,
    suggest_name,
)


class Item(msgspec.Struct, forbid_unknown_fields=True):
    price: Annotated[float, msgspec.Meta(ge=0)]
    name: Annotated[str, msgspec.Meta(min_length=2)] = "ab"


def of_msgspec(kind: Any, data: str) -> SchemaMismatch:
    """Provoke a report of msgspec's."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(data, type=kind)
    return describe_mismatch(caught.value)


@pytest.mark.parametrize(
    ("kind", "data", "sentence"),
    [
        (Item, '{"price": "1"}', '"price": expected number, got string'),
        (Item, '{"price": -1}', '"price": expected number >= 0'),
        (Item, '{"price": 1, "name": ""}', '"name": expected string of length >= 2'),
        (Item, "{}", 'missing "price"'),
        (Item, '{"price": 1, "prize": 2}', 'unknown "prize"'),
        (Item, "[]", "expected object, got array"),
        (list[Item], '[{"price": 1}, {}]', 'missing "[1].price"'),
        (dict[str, list[int]], '{"a b": [1, null]}', '"[...][1]": expected integer, got null'),
        (int | None, '"x"', "expected integer or null, got string"),
        (dict[int, int], '{"a": 1}', "key: expected integer, got string"),
        (Annotated[float, msgspec.Meta(ge=1.05)], "1", "expected number >= 1.05"),
    ],
)
def test_msgspec_reports_are_told_in_json_words(kind, data, sentence):
    """Types have their JSON names, and places are as JavaScript writes them."""
    assert of_msgspec(kind, data).sentence() == sentence


def test_a_noun_stands_before_the_place():
    """For arguments, the sentence says so."""
    assert of_msgspec(Item, "{}").sentence("argument") == 'missing argument "price"'
    assert of_msgspec(Item, '{"price": null}').sentence("argument") == ('argument "price": expected number, got null')


def test_pydantic_reports_name_the_first_place():
    """However many there are."""
    adapter = pydantic.TypeAdapter(list[Annotated[int, pydantic.Field(ge=3)]])
    with pytest.raises(ValueError, match="2 validation errors") as caught:
        adapter.validate_json(b"[4, 1, 2]", strict=True)
    assert describe_mismatch(caught.value).sentence() == '"[1]": input should be greater than or equal to 3'


def test_a_missing_member_of_a_model_is_missing():
    """Not "field required" at a place that does not exist."""
    model = pydantic.create_model("Model", x=(int, ...))
    with pytest.raises(ValueError, match="1 validation error") as caught:
        model.model_validate_json("{}")
    assert describe_mismatch(caught.value) == SchemaMismatch("x", "", "missing")


@pytest.mark.parametrize(
    ("instance", "sentence"),
    [
        ({"a": [1, "x"], "q": 1}, '"a[1]": "x" is not of type "integer"'),
        ({"a": []}, 'missing "q"'),
        ([], '[] is not of type "object"'),
    ],
)
def test_jsonschema_reports_name_the_place(instance, sentence):
    """The message is the library's, the place is in our form."""
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}, "required": ["q"]}
    with pytest.raises(jsonschema_rs.ValidationError) as caught:
        jsonschema_rs.validate(schema, instance)
    assert describe_mismatch(caught.value).sentence() == sentence


def test_what_is_no_json_says_so():
    """A decode error has no place."""
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(b"{")
    assert describe_mismatch(caught.value).sentence() == "not JSON: Input data was truncated"


def test_long_reports_are_cut():
    """A report may quote what a peer sent."""
    assert len(of_msgspec(Item, '{"price": 1, "' + "x" * 9_999 + '": 2}').sentence()) < 400


def test_a_mismatch_keeps_its_report():
    """The exception's text is the sentence."""
    error = MismatchError(SchemaMismatch("a", "expected integer"))
    assert str(error) == '"a": expected integer'
    assert describe_mismatch(error) is error.mismatch


def test_paths_are_joined():
    """Numbers are indices."""
    assert join_path(["items", 2, "price"]) == "items[2].price"
    assert join_path([0, "a"]) == "[0].a"


def test_an_inner_place_is_put_under_the_outer():
    """With a dot only where a name follows."""
    assert prefix_place("a", SchemaMismatch("b", "x")).place == "a.b"
    assert prefix_place("a", SchemaMismatch("[0]", "x")).place == "a[0]"
    assert prefix_place("a", SchemaMismatch("", "x")).place == "a"


@pytest.mark.parametrize(
    ("name", "known", "words"),
    [
        ("cuont", ["product", "count"], '; did you mean "count"?'),
        ("zzz", ["product", "count"], '; known: "product", "count"'),
        ("zzz", [], "; none is taken"),
    ],
)
def test_the_nearest_name_is_suggested(name, known, words):
    """Models misspell; the answer should let them go on."""
    assert suggest_name(name, known) == words


SCHEMA = {
    "type": "object",
    "properties": {
        "price": {"$ref": "#/$defs/price"},
        "by_name": {"type": "object", "additionalProperties": {"$ref": "#/$defs/price"}},
        "size": {"enum": ["s", "l"]},
        "items": {"type": "array", "items": {"required": ["id"]}},
    },
    "additionalProperties": False,
    "$defs": {"price": {"type": "number", "minimum": 0}},
}


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"price": "secret"}, '"price": expected type: "number"'),
        ({"price": -7}, '"price": expected minimum: 0'),
        ({"by_name": {"secret": -7}}, '"by_name.*": expected minimum: 0'),
        ({"size": "secret"}, '"size": expected enum: ["s","l"]'),
        ({"items": [{"id": 1}, {}]}, 'missing "items[1].id"'),
        ({"secret": 1}, "expected additionalProperties: false"),
        ([7], 'expected type: "object"'),
    ],
)
def test_a_rule_is_described_without_the_value(value, sentence):
    """Place and rule are in the schema; a key of the value is not."""
    with pytest.raises(jsonschema_rs.ValidationError) as caught:
        jsonschema_rs.validator_for(SCHEMA).validate(value)
    assert describe_rule(describe_mismatch(caught.value), SCHEMA) == sentence


def test_a_rule_within_a_schema_of_its_own_address_is_named_alone():
    """Its path begins there."""
    inner = {"$id": "https://example.org/b", "properties": {"x": {"type": "integer"}}}
    schema = {"$id": "https://example.org/a", "properties": {"r": {"$ref": "b"}}, "$defs": {"b": inner}}
    with pytest.raises(jsonschema_rs.ValidationError) as caught:
        jsonschema_rs.validator_for(schema).validate({"r": {"x": "secret"}})
    assert describe_rule(describe_mismatch(caught.value), schema) == '"r.x": expected type'


@pytest.mark.parametrize(
    ("kind", "data", "sentence"),
    [
        (Literal["a", "b"], '"secret"', "invalid enum value"),
        (dict[str, int], '{"secret": "secret"}', '"[...]": expected integer, got string'),
        (Item, '{"price": 1, "secret": 1}', 'unknown "*"'),
    ],
)
def test_reports_of_msgspec_are_described_without_the_value(kind, data, sentence):
    """They name no rule, but what was expected."""
    assert describe_rule(of_msgspec(kind, data), SCHEMA) == sentence
