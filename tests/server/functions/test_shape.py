"""Types and their JSON: schema, reading, writing."""

from __future__ import annotations

import array
import collections
import datetime as dt
import enum
import ipaddress
import pathlib
import sqlite3
import types
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict
from unittest import mock

import jsonschema_rs
import msgspec
import pydantic
import pytest

from antiphon.errors import ConfigError
from antiphon.json_schema.validator import MismatchError
from antiphon.server.functions.arguments import ArgumentError, Arguments
from antiphon.server.functions.shape import (
    Shape,
    adapt_type,
    encode_value,
    schemas_of,
    simplify_schema,
    with_text_metadata,
)
from antiphon.server.functions.signature import REQUIRED, Parameter


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclass
class Item:
    """An item."""

    price: Annotated[float, msgspec.Meta(ge=0)]
    kids: list[Item] = field(default_factory=list)


class Struct(msgspec.Struct, rename="camel"):
    due_at: dt.datetime
    colour: Colour = Colour.RED


class Typed(TypedDict):
    name: str


class Model(pydantic.BaseModel):
    x: int
    inner: Model | None = None


@pytest.mark.parametrize(
    ("annotation", "value", "wrapped"),
    [
        (int, 3, True),
        (list[int], [1], True),
        (str | None, None, True),
        (Colour, Colour.GREEN, True),
        (Literal["a", 1], 1, True),
        (tuple[int, str], (1, "a"), True),
        (uuid.UUID, uuid.UUID(int=1), True),
        (Decimal, Decimal("1.5"), True),
        (Item, Item(1.0, [Item(2.0)]), False),
        (Item | None, Item(1.0), True),
        (list[Item], [Item(1.0)], True),
        (Struct, Struct(dt.datetime(2026, 1, 2, tzinfo=dt.UTC)), False),
        (Typed, {"name": "a"}, False),
        (dict[str, int], {"a": 1}, False),
        (Model, Model(x=1, inner=Model(x=2)), False),
        (list[Model], [Model(x=1)], True),
        (dict[str, Model], {"a": Model(x=1)}, False),
        (Annotated[int, pydantic.Field(ge=1)], 2, True),
        (dict[str, object], {"a": [None, 1]}, False),
    ],
)
def test_what_is_written_fits_the_schema_and_reads_back(annotation, value, wrapped):
    """For every kind of type, in both libraries; what is no object is under ``result``."""
    shape = Shape(annotation, place="here")
    raw = shape.encode(value)
    document = b'{"result":' + raw + b"}" if wrapped else raw
    assert shape.wrapped is wrapped
    assert shape.schema["type"] == "object"
    jsonschema_rs.validate(shape.schema, msgspec.json.decode(document))
    assert shape.decode(document) == value


def test_a_recursive_type_keeps_its_definition():
    """The top is the object itself, and ``$defs`` holds what it refers to."""
    schema = Shape(Item, place="here").schema
    assert schema["properties"]["kids"]["items"] == {"$ref": "#/$defs/Item"}
    assert list(schema["$defs"]) == ["Item"]


def test_a_host_finds_definitions_where_they_are_used():
    """Words beside a reference count more than those of the definition, and choices have a type."""
    size = {"enum": ["S", "L"], "description": "any"}
    small = {"$ref": "#/$defs/Size", "description": "small", "default": "S"}
    schema = {
        "type": "object",
        "properties": {
            "a": small,
            "b": {"type": "array", "items": {"$ref": "#/$defs/Pair"}},
            "enum": {"enum": [1, "1"]},
        },
        "$defs": {"Size": size, "Pair": {"type": "object", "properties": {"x": {"$ref": "#/$defs/Size"}}}},
    }
    typed = {"type": "string", **size}
    assert simplify_schema(schema) == {
        "type": "object",
        "properties": {
            "a": {**typed, "description": "small", "default": "S"},
            "b": {"type": "array", "items": {"type": "object", "properties": {"x": typed}}},
            "enum": {"enum": [1, "1"]},
        },
    }


def test_references_that_cannot_be_replaced_stay_with_their_definitions():
    """A definition within itself, a reference beside a bound, and one of more than any author writes."""
    definitions = {"N": {"properties": {"n": {"$ref": "#/$defs/N"}}}, "I": {"type": "integer"}}
    once = simplify_schema({"properties": {"a": {"$ref": "#/$defs/N"}}, "$defs": definitions})
    assert once == {"properties": {"a": definitions["N"]}, "$defs": definitions}
    bounded = {"properties": {"a": {"$ref": "#/$defs/I", "minimum": 3}}, "$defs": definitions}
    assert simplify_schema(bounded) == bounded
    tree = {f"D{at}": {"anyOf": [{"$ref": f"#/$defs/D{at + 1}"}] * 2} for at in range(40)}
    large = simplify_schema({"properties": {"a": {"$ref": "#/$defs/D0"}}, "$defs": {**tree, "D40": {}}})
    assert len(msgspec.json.encode(large)) < 20_000


def test_a_union_needs_no_discriminator_once_its_choices_are_in_place():
    """It names definitions that are gone; the same name for an argument stays."""
    tagged = {"propertyName": "kind", "mapping": {"i": "#/$defs/I"}}
    schema = {"properties": {"discriminator": {"oneOf": [{"$ref": "#/$defs/I"}], "discriminator": tagged}}}
    found = simplify_schema({**schema, "$defs": {"I": {"type": "integer"}}})
    assert found == {"properties": {"discriminator": {"oneOf": [{"type": "integer"}]}}}


def model(name: str, **members: Any) -> Any:
    """Make a model whose schema is a definition, because it may hold more of itself."""
    made = pydantic.create_model(name, **members, more=(list[name], []))
    made.model_rebuild(_types_namespace={name: made})
    return made


@pytest.mark.parametrize(("more", "last"), [({}, "C"), ({"c": (int, 1)}, "A2")])
def test_models_of_one_name_are_told_apart(more, last):
    """Also if the name that is given to one is that of another, and if they differ in what they refer to alone."""
    first, second = model("A", b=(model("B", x=(int, ...)), ...)), model("A", b=(model("B", x=(str, ...)), ...), **more)
    third = model(last, x=(bool, ...))
    kinds = [first, dict[Literal["second", "third"], second | third]]
    arguments = Arguments(
        [Parameter(name=f"p{n}", annotation=kind, default=REQUIRED) for n, kind in enumerate(kinds)], "t"
    )
    check = jsonschema_rs.validator_for(arguments.schema)
    for x, y, z, fits in ((1, "a", True, True), ("a", "a", True, False), (1, 1, True, False), (1, "a", 1, False)):
        given = {"p0": {"b": {"x": x}}, "p1": {"second": {"b": {"x": y}}, "third": {"x": z}}}
        assert check.is_valid(given) is fits
        if fits:
            arguments.decode(msgspec.json.encode(given))
        else:
            with pytest.raises(ArgumentError):
                arguments.decode(msgspec.json.encode(given))


def test_a_definition_nobody_needs_goes():
    """A type that only the top used is not repeated."""
    assert "$defs" not in Shape(Typed, place="here").schema


@pytest.mark.parametrize(
    ("annotation", "raw", "problem"),
    [
        (Item, b'{"price": "1"}', '"price": expected number, got string'),
        (Item, b'{"price": 1, "kids": [{}]}', 'missing "kids[0].price"'),
        (int, b'{"result": "1"}', "expected integer, got string"),
        (int, b"{}", 'missing "result"'),
        (int, b"{", "not JSON"),
        (Model, b'{"x": 1, "inner": {}}', 'missing "inner.x"'),
    ],
)
def test_what_does_not_fit_names_the_place(annotation, raw, problem):
    """As one error for all libraries."""
    with pytest.raises(MismatchError, match=problem.replace("[", r"\[")):
        Shape(annotation, place="here").decode(raw)


@pytest.mark.parametrize("kind", [int, Annotated[int, pydantic.Field(ge=0)]])
def test_a_whole_number_with_a_fraction_is_an_integer(kind):
    """JSON Schema counts 1.0 as one, and some writers write every number so; 1.5 is none."""
    shape = Shape(list[kind], place="here")
    assert shape.decode(b'{"result": [1.0, 2]}') == [1, 2]
    with pytest.raises(MismatchError, match="integer"):
        shape.decode(b'{"result": [1.5]}')


def test_a_whole_number_with_a_fraction_changes_no_number_beside_it():
    """Neither one that pydantic reads nor one with more digits than a float has."""
    kinds = {"n": int, "model": Model, "exact": Decimal}
    arguments = Arguments(
        [Parameter(name=name, annotation=kind, default=REQUIRED) for name, kind in kinds.items()], "t"
    )
    values = arguments.decode(b'{"n": 1.0, "model": {"x": 2.0}, "exact": 0.12345678901234567891}')
    assert values["n"] == 1
    assert values["model"].x == 2
    assert values["exact"] == Decimal("0.12345678901234567891")


@pytest.mark.parametrize(
    "annotation", [Callable[[int], int], list[int] | Iterable[int], type[int], type("Own", (), {})]
)
def test_a_type_without_a_json_form_is_refused(annotation):
    """The message begins with the place."""
    with pytest.raises(ConfigError, match=r"^here: "):
        Shape(annotation, place="here")


class Own:
    pass


class Soup(str):
    """A text with methods of its own, as those of BeautifulSoup, lxml and Django are."""

    __slots__ = ()


class Real(float):
    """A number of a library, as ``numpy.float64`` is."""


class Moment(dt.datetime):
    """A time of a library, as those of pandas and pendulum are."""


def row() -> sqlite3.Row:
    """Return a row of a database."""
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    found: sqlite3.Row = connection.execute("select 'hat' as name, 3 as price").fetchone()
    connection.close()
    return found


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (Model | Own, "pydantic cannot use its type"),
        (dict[str, pydantic.SkipValidation[Callable[[], int]]], "its type has no JSON Schema"),
        (make_dataclass("Lost", [("x", "Absent")]), "its type names something unknown: name 'Absent' is not defined"),
    ],
)
def test_a_type_no_library_can_use_is_refused(annotation, problem):
    """Saying which library, and why."""
    with pytest.raises(ConfigError, match=f"^here: .*{problem}"):
        Shape(annotation, place="here")


def test_several_types_share_definitions():
    """One definition for both, and another name where two different types have the same."""
    other = type("Model", (pydantic.BaseModel,), {"__annotations__": {"y": str}})
    kinds = {"a": Item, "b": list[Item], "c": Model, "d": list[other]}
    typed = [(name, adapt_type(kind, name)) for name, kind in kinds.items()]
    schemas, definitions = schemas_of(typed, mode="validation")
    assert schemas[0] == {"$ref": "#/$defs/Item"}
    assert schemas[1] == {"type": "array", "items": {"$ref": "#/$defs/Item"}}
    found = [schemas[2]["$ref"], schemas[3]["items"]["$ref"]]
    assert set(found) == {"#/$defs/Model", "#/$defs/Model2"}
    members = [list(definitions[target.removeprefix("#/$defs/")]["properties"]) for target in found]
    assert members == [["x", "inner"], ["y"]]


def test_the_place_of_an_impossible_type_is_named():
    """Among several."""
    with pytest.raises(ConfigError, match=r"^second: "):
        schemas_of([("first", int), ("second", Callable[[int], int])], mode="validation")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"m": Model(x=1)}, '{"m":{"x":1,"inner":null}}'),
        (pathlib.PurePosixPath("a/b"), '"a/b"'),
        (types.MappingProxyType({"a": 1}), '{"a":1}'),
        ([Colour.RED, dt.date(2026, 1, 2)], '["red","2026-01-02"]'),
        ({"a": Soup("b"), "n": Real(0.5)}, '{"a":"b","n":0.5}'),
        (Moment(2026, 1, 2, tzinfo=dt.UTC), '"2026-01-02T00:00:00+00:00"'),
        ([array.array("d", [0.5, 1.0])], "[[0.5,1.0]]"),
        ([collections.deque([1]), {"a": 1}.keys(), range(2)], '[[1],["a"],[0,1]]'),
        (ipaddress.ip_address("::1"), '"::1"'),
        ([row()], '[{"name":"hat","price":3}]'),
        ({"u": pydantic.AnyUrl("http://a/"), "h": pydantic.HttpUrl("http://b/")}, '{"u":"http://a/","h":"http://b/"}'),
        ([pydantic.SecretStr("s"), pydantic.SecretBytes(b"s")], '["**********","**********"]'),
        ([pydantic.ByteSize(5), pydantic.PostgresDsn("postgres://h/d")], '[5,"postgres://h/d"]'),
    ],
)
def test_any_value_with_a_json_form_can_be_written(value, text):
    """Even where its type was never declared."""
    assert encode_value(value).decode() == text


def test_a_value_without_a_json_form_cannot():
    """The error names the type."""
    with pytest.raises(TypeError, match="object has no JSON form"):
        encode_value(object())


def test_an_array_as_numpy_has_it_is_a_list_of_its_numbers():
    """So are its scalars; a mock, which has every method, is none of either."""

    class Scalar:
        def tolist(self) -> float:
            return 1.5

    assert encode_value({"a": Scalar()}) == b'{"a":1.5}'
    with pytest.raises(TypeError, match="Mock has no JSON form"):
        encode_value(mock.Mock(spec_set=["tolist"]))


class Doc:
    documentation = "The words."


@pytest.mark.parametrize("metadata", ["The words.", Doc()])
def test_text_in_metadata_is_the_description(metadata):
    """A plain string, or PEP 727's ``Doc``."""
    annotation: Any = with_text_metadata(Annotated[int, metadata, msgspec.Meta(ge=1)])
    assert Shape(annotation, place="here").schema["properties"]["result"] == {
        "type": "integer",
        "description": "The words.",
        "minimum": 1,
    }


async def test_a_coroutine_is_told_to_be_awaited() -> None:
    """The usual cause of a result that has no JSON form."""

    async def sample() -> str:
        return "x"

    forgotten = sample()
    with pytest.raises(TypeError, match="coroutine was not awaited: an `await` is missing"):
        encode_value(forgotten)
    assert await forgotten == "x"
