"""From the JSON of a call to keyword arguments."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.errors import ConfigError, InvalidParams
from antiphon.server.functions.arguments import ArgumentError, Arguments, input_schema, list_choices, text_choices
from antiphon.server.functions.shape import adapt_type
from antiphon.server.functions.signature import REQUIRED, Parameter, read_signature


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclass
class Item:
    price: Annotated[float, msgspec.Meta(ge=0)]
    tags: list[str] | None = None


class Untagged(msgspec.Struct):
    price: float


class Typed(TypedDict, total=False):
    name: str


class Model(pydantic.BaseModel):
    x: int


def order(
    product: str,
    items: list[Item],
    *,
    count: int = 3,
    colour: Colour = Colour.RED,
    size: Literal["s", "l"] = "s",
    model: Model | None = None,
    limit: int = pydantic.Field(5, ge=1),
) -> None:
    """Take what a tool could."""


def arguments_of(function) -> Arguments:
    """Read a function's arguments."""
    signature = read_signature(function, noun="tool")
    return Arguments(signature.parameters, signature.place)


ORDER = arguments_of(order)


def test_arguments_become_typed_values():
    """Defaults included."""
    found = ORDER.decode(
        b'{"product": "a", "items": [{"price": 1, "tags": ["x"]}], "colour": "green", "model": {"x": 2}}'
    )
    assert found == {
        "product": "a",
        "items": [Item(1.0, ["x"])],
        "count": 3,
        "colour": Colour.GREEN,
        "size": "s",
        "model": Model(x=2),
        "limit": 5,
    }


@pytest.mark.parametrize(
    ("annotation", "data", "value"),
    [
        (bool, "true", True),
        (float, "1", 1.0),
        (int, "2.0", 2),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (set[int], "[1, 1]", {1}),
        (dict[str, list[int]], '{"a": [1]}', {"a": [1]}),
        (Typed, '{"name": "a"}', {"name": "a"}),
        (int | str | None, '"a"', "a"),
        (dt.datetime, '"2026-01-02T03:04:05Z"', dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
        (uuid.UUID, f'"{uuid.UUID(int=5)}"', uuid.UUID(int=5)),
        (Decimal, '"1.50"', Decimal("1.50")),
        (Any, '{"a": [null]}', {"a": [None]}),
        (object, "[1]", [1]),
        (list[Model], '[{"x": 1}]', [Model(x=1)]),
        (Annotated[str, "a description"], '"a"', "a"),
    ],
)
def test_every_kind_of_type_is_read(annotation, data, value):
    """As msgspec and pydantic do."""

    def function(x) -> None: ...

    function.__annotations__["x"] = annotation
    assert arguments_of(function).decode(f'{{"x": {data}}}'.encode()) == {"x": value}


@pytest.mark.parametrize(
    ("data", "message", "argument"),
    [
        ('{"items": []}', 'missing argument "product"', "product"),
        ('{"product": 3, "items": []}', 'argument "product": expected string, got integer', "product"),
        ('{"product": "a", "items": [], "count": "3"}', 'argument "count": expected integer, got string', "count"),
        ('{"product": "a", "items": [], "count": 1.5}', 'argument "count": expected integer, got number', "count"),
        (
            '{"product": "a", "items": [{"price": 1}, {"price": -1}]}',
            'argument "items[1].price": expected number >= 0',
            "items[1].price",
        ),
        ('{"product": "a", "items": [{}]}', 'missing argument "items[0].price"', "items[0].price"),
        ('{"product": "a", "items": [], "cuont": 1}', 'unknown argument "cuont"; did you mean "count"?', "cuont"),
        (
            '{"product": "a", "items": [], "size": "m"}',
            'argument "size": invalid enum value \'m\', expected one of "s", "l"',
            "size",
        ),
        (
            '{"product": "a", "items": [], "model": {"x": "1"}}',
            'argument "model.x": input should be a valid integer',
            "model.x",
        ),
        ('{"product": "a", "items": [], "model": {}}', 'missing argument "model.x"', "model.x"),
        (
            '{"product": "a", "items": [], "limit": 0}',
            'argument "limit": input should be greater than or equal to 1',
            "limit",
        ),
        ("[1]", "arguments: expected object, got array", ""),
        ("{", "arguments: not JSON: Input data was truncated", ""),
        ('{"product": "\\ud800", "items": []}', "arguments: not JSON", ""),
    ],
)
def test_what_does_not_fit_names_the_argument(data, message, argument):
    """So that a model can correct itself."""
    with pytest.raises(ArgumentError) as caught:
        ORDER.decode(data.encode())
    assert caught.value.message.startswith(message)
    assert caught.value.argument == argument


def test_an_argument_error_is_invalid_params():
    """The dispatcher decides by the revision which of the two it is."""
    assert issubclass(ArgumentError, InvalidParams)
    assert ArgumentError("x").code == InvalidParams.CODE


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b" null ", b"[]", msgspec.Raw(b"")])
def test_nothing_is_no_arguments(data):
    """Left out, empty, ``null`` as some clients write, or the empty list that PHP has for an empty object."""

    def function(x: int = 1) -> None: ...

    assert arguments_of(function).decode(data) == {"x": 1}


def test_a_mutable_default_is_that_of_the_function():
    """As in any call without the argument."""
    default = [1]

    def function(x: list[int] = default) -> None: ...

    assert arguments_of(function).decode(b"{}")["x"] is default


def test_a_type_that_cannot_be_read_names_the_parameter():
    """Even where each part of it could."""

    def function(a: int, b: Item | Untagged) -> None: ...

    with pytest.raises(ConfigError, match=r'tool "function" .*: parameter "b": Type unions may not contain'):
        arguments_of(function)


def prompt(
    n: int,
    *,
    flag: bool = False,
    tags: list[int] | None = None,
    item: Item | None = None,
    text: str = "",
    when: dt.date | None = None,
    colour: Colour = Colour.RED,
    model: Model | None = None,
    limit: Annotated[int, pydantic.Field(ge=3)] = 3,
) -> None:
    """Take what a prompt could."""


PROMPT = arguments_of(prompt)


class Size(enum.Enum):
    LARGE = "large"
    SMALL = "small"


class PricedItem(msgspec.Struct):
    price: float


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
    model = adapt_type(dict[str, Model], "b")
    parameters = [parameter("a", list[PricedItem]), parameter("b", model), parameter("c", Size, Size.SMALL)]
    schema = input_schema(parameters, "here")
    assert set(schema["$defs"]) == {"PricedItem", "Model", "Size"}
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
        (PricedItem, set()),
    ],
)
def test_the_choices_of_a_property_are_found(annotation, expected):
    """Directly, by reference, or beside null."""
    schema = input_schema([parameter("a", annotation)], "here")
    assert {one for one in list_choices(schema, "a") if one is not None} == expected


def test_only_text_can_be_completed():
    """Numbers are not offered, and properties without choices are not listed."""
    schema = input_schema([parameter("a", Literal["x", 1]), parameter("b", Literal[1]), parameter("c", str)], "here")
    assert text_choices(schema) == {"a": ("x",)}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("flag", "true", True),
        ("flag", "0", False),
        ("tags", "[1, 2]", [1, 2]),
        ("tags", ["1", "2"], [1, 2]),
        ("item", '{"price": 1}', Item(1.0)),
        ("text", "3", "3"),
        ("text", "null", "null"),
        ("when", "2026-01-02", dt.date(2026, 1, 2)),
        ("colour", "green", Colour.GREEN),
        ("model", '{"x": 1}', Model(x=1)),
        ("limit", "4", 4),
    ],
)
def test_text_is_read_as_the_type_wants(name, text, value):
    """Scalars as they are written, everything else as JSON; what is text stays text."""
    assert PROMPT.from_text({"n": "1", name: text}) == {"n": 1, name: value}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({}, 'missing argument "n"'),
        ({"n": "x"}, 'argument "n": expected integer, got string'),
        ({"n": "1", "m": "1"}, 'unknown argument "m"; known: "n", "flag"'),
        ({"n": "1", "tags": "a"}, 'argument "tags": expected array or null, got string'),
        ({"n": "1", "item": '{"price": -1}'}, 'argument "item.price": expected number >= 0'),
        ({"n": "1", "colour": "blue"}, "argument \"colour\": invalid enum value 'blue', expected one of"),
        ({"n": "1", "limit": "1"}, 'argument "limit": input should be greater than or equal to 3'),
        ({"n": "1", "model": '{"x": "1"}'}, 'argument "model.x": input should be a valid integer'),
    ],
)
def test_text_that_does_not_fit_names_the_argument(texts, message):
    """As for JSON."""
    with pytest.raises(ArgumentError) as caught:
        PROMPT.from_text(texts)
    assert caught.value.message.startswith(message)


def test_names_and_required_are_listed():
    """In order."""
    assert ORDER.names[:3] == ("product", "items", "count")
    assert ORDER.schema["required"] == ["product", "items"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["product", "items", "count", "colour", "model", "limit", "x"]), _JSON))
def test_any_json_is_taken_or_refused_by_name(document):
    """No other exception, whatever comes."""
    try:
        found = ORDER.decode(msgspec.json.encode(document))
    except ArgumentError:
        return
    assert set(found) == set(ORDER.names)


@given(st.binary(max_size=40))
@example(b"0E0\x00")
def test_any_bytes_are_taken_or_refused(data):
    """Not even JSON is certain."""
    with pytest.raises(ArgumentError):
        ORDER.decode(data)


def test_a_parameter_may_begin_with_two_underscores() -> None:
    """Python mangles such names in classes, and there is one behind the arguments."""
    made = Arguments([Parameter(name="__y", annotation=int, default=REQUIRED)], "f")
    assert made.decode(b'{"__y": 3}') == {"__y": 3}


def test_functions_of_the_same_parameters_share_what_is_made_of_them() -> None:
    """A hundred thousand tools of an interface that somebody generated have mostly a few signatures."""

    async def one(sku: str, count: int = 3, note: str | None = None) -> None: ...

    async def other(sku: str, count: int = 3, note: str | None = None) -> None: ...

    first, second = arguments_of(one), arguments_of(other)
    assert first.schema is second.schema
    assert first.decode(b'{"sku": "a"}') == second.decode(b'{"sku": "a"}') == {"sku": "a", "count": 3, "note": None}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Parameter(name="a", annotation=int, default=1), Parameter(name="a", annotation=int, default=True)),
        (Parameter(name="a", annotation=int, default=0), Parameter(name="a", annotation=int, default=0.0)),
        (Parameter(name="a", annotation=float, default=0.0), Parameter(name="a", annotation=float, default=-0.0)),
        (Parameter(name="a", annotation=int, default=REQUIRED), Parameter(name="a", annotation=int, default=None)),
        (Parameter(name="a", annotation=int, default=REQUIRED), Parameter(name="b", annotation=int, default=REQUIRED)),
        (
            Parameter(name="a", annotation=int | str, default=REQUIRED),
            Parameter(name="a", annotation=str | int, default=REQUIRED),
        ),
    ],
)
def test_parameters_that_are_only_equal_to_python_share_nothing(one: Parameter, other: Parameter) -> None:
    """1 is True, and int | str is str | int; on the wire they differ."""
    first, second = Arguments([one], "f"), Arguments([other], "g")
    assert first.schema is not second.schema


def test_what_is_shared_ends_with_those_who_share_it() -> None:
    """A server whose tools come and go keeps nothing of those that went."""
    parameter = Parameter(name="of_this_test_alone", annotation=int, default=REQUIRED)
    made = Arguments([parameter], "f")
    schema = made.schema
    del made
    assert Arguments([parameter], "f").schema is not schema


def test_a_type_without_json_fails_when_it_is_added_however_many_others_are_lazy() -> None:
    """The error names the function that has it, and not the one that had it first."""

    def first(good: int, bad: type[int]) -> None: ...

    def second(good: int, bad: type[int]) -> None: ...

    for function in (first, second):
        with pytest.raises(ConfigError, match=f'{function.__name__}.*parameter "bad"'):
            arguments_of(function)


def test_an_argument_whose_default_is_none_takes_null():
    """Models write null for what they leave out, and the default says that the function can do with it."""

    def function(
        a: int, b: Annotated[str, "a name"], c: Annotated[int, pydantic.Field(ge=1)], d: str, e: Any, f: int
    ) -> None: ...

    # As in ``a: int = None``, which linters refuse.
    function.__defaults__ = (None, None, None, pydantic.Field(None, min_length=2), None, 3)
    made = arguments_of(function)
    assert made.decode(b'{"a":null,"b":null,"c":null,"d":null,"e":null}') == made.decode(b"{}")
    properties = made.schema["properties"]
    assert properties["a"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert properties["b"]["description"] == "a name"
    jsonschema_rs.validate(made.schema, {"a": None, "b": None, "c": None, "d": None, "e": None})
    for wrong in ('{"a":"x"}', '{"c":0}', '{"d":"x"}', '{"f":null}'):
        with pytest.raises(ArgumentError):
            made.decode(wrong.encode())


def test_a_factory_makes_a_default_for_each_call():
    """Also for text, where Python itself knows only pydantic's ``Field``; the schema names no default."""
    parameters = (
        Parameter(name="x", annotation=list[str], default=pydantic.Field(default_factory=list)),
        Parameter(name="y", annotation=int, default=3),
        Parameter(name="z", annotation=str, default=pydantic.Field("a", description="b")),
    )
    made = Arguments(parameters, "tool")
    assert "required" not in made.schema
    first, second = made.decode(b"{}"), made.decode(b"{}")
    assert first == second == {"x": [], "y": 3, "z": "a"}
    assert first["x"] is not second["x"]
    assert made.from_text({}) == {"x": [], "z": "a"}
    assert "default" not in made.schema["properties"]["x"]


@pytest.mark.parametrize("default", [None, float("nan")])
def test_a_default_that_its_type_refuses_is_not_published(default: object):
    """A client that sends it back would be refused."""
    made = Arguments((Parameter(name="x", annotation=float, default=default),), "tool")
    assert "default" not in made.schema["properties"]["x"]
    assert "required" not in made.schema


def test_descriptions_from_a_docstring_fill_gaps():
    """A description in the annotation wins; the docstring has the function's name of a parameter."""
    own = Annotated[int, msgspec.Meta(description="own")]
    typed = {"a": int, "b": own, "c": int, "d": Annotated[int, pydantic.Field(alias="e")]}
    made = Arguments([Parameter(name=name, annotation=kind, default=REQUIRED) for name, kind in typed.items()], "f")
    found = made.describe({"a": "words", "b": "words", "d": "words", "other": "words"})["properties"]
    assert [found[name].get("description") for name in ("a", "b", "c", "e")] == ["words", "own", None, "words"]
    assert "description" not in made.schema["properties"]["a"]


def test_two_arguments_with_one_name_are_refused():
    """An alias may be the name of another parameter."""
    given = [
        Parameter(name="a", annotation=int, default=pydantic.Field(alias="b")),
        Parameter(name="b", annotation=int, default=1),
    ]
    with pytest.raises(ConfigError, match="f: two arguments have one name"):
        Arguments(given, "f")
