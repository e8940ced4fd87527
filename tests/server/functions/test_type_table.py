"""One table of types and places: each type is published, checked and passed on in the same way wherever it stands."""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import pathlib
import uuid
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Required, TypeVar
from urllib.parse import quote

import annotated_types
import attrs
import jsonschema_rs
import msgspec
import pydantic
import pytest
from msgspec import Meta
from pydantic import Field
from typing_extensions import TypeAliasType, TypedDict

from antiphon import Client, ConfigError, InvalidParams, PeerError, Server
from antiphon.json_schema.validator import MismatchError
from antiphon.server.asks.elicitations import TypedForm
from antiphon.server.asks.tool_loop import TypedAnswer
from antiphon.server.functions.arguments import Arguments
from antiphon.server.functions.shape import Shape
from antiphon.server.functions.signature import REQUIRED, Parameter

BINARY = b"\x89\xfb\xff\x00"
TEXT = base64.b64encode(BINARY).decode()
UUID = "12345678-1234-5678-1234-567812345678"
T = TypeVar("T")


class Size(enum.Enum):
    S = "s"
    L = "l"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Colour(enum.StrEnum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: Annotated[int, Meta(ge=0)]
    name: str = "p"


@dataclasses.dataclass
class Blob:
    data: bytes


@dataclasses.dataclass
class Crate(Generic[T]):
    item: T


@attrs.define
class Case(Generic[T]):
    item: T


class Grade(enum.Enum):
    FIRST = 1
    OTHER = "a"


class Step(enum.Enum):
    HALF = 0.5
    WHOLE = 1.0


class Span(enum.Enum):
    SHORT = (1, 2)


class Pair(NamedTuple):
    x: int
    name: str = "p"


class Typed(TypedDict, total=False):
    x: Required[int]
    name: str


class Loose(TypedDict):
    x: int
    name: NotRequired[str]


class Plain(msgspec.Struct, rename="camel"):
    item_id: int
    item_name: str = "n"


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    legs: int


class Box(msgspec.Struct, Generic[T]):
    item: T


class Model(pydantic.BaseModel):
    item_id: int = Field(alias="itemId", ge=1)


class Small(pydantic.BaseModel):
    size: Literal[Size.S]


class Binary(pydantic.BaseModel):
    data: bytes


class Hexed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_bytes="hex", val_json_bytes="hex")
    data: bytes


@dataclasses.dataclass
class Mixed:
    n: Annotated[int, Meta(ge=1)]
    data: bytes
    model: Model


class MixedPair(NamedTuple):
    n: Annotated[int, Meta(ge=1)]
    model: Model


class MixedTyped(TypedDict):
    n: Annotated[list[Annotated[int, Meta(ge=1)]], Meta(min_length=1)]
    model: Model


class Tree(pydantic.BaseModel):
    data: bytes
    below: list[Tree] = []


Id = NewType("Id", int)
Alias = TypeAliasType("Alias", Annotated[int, Meta(ge=1)])
Ages = dict[str, Annotated[int, Meta(ge=0)]]
MODEL = {"itemId": 1}

# Name: the type, JSON that fits, JSON that does not (``...`` if all JSON fits).
TYPES: dict[str, tuple[Any, Any, Any]] = {
    "str": (str, "a", 1),
    "int": (int, 3, "x"),
    "float": (float, 1.5, "x"),
    "bool": (bool, True, "x"),
    "any": (Any, {"a": [1]}, ...),
    "object": (object, [1], ...),
    "int bounds": (Annotated[int, Meta(ge=1, le=5)], 3, 6),
    "float bounds": (Annotated[float, Meta(gt=0)], 0.5, 0),
    "multiple": (Annotated[int, Meta(multiple_of=5)], 10, 3),
    "pattern": (Annotated[str, Meta(pattern="^a+$")], "aa", "b"),
    "length": (Annotated[str, Meta(min_length=2)], "ab", "a"),
    "field bounds": (Annotated[int, Field(ge=1)], 1, 0),
    "field and meta": (Annotated[int, Field(le=5), Meta(ge=1)], 1, 0),
    "meta and field": (Annotated[str, Meta(pattern="^a+$"), Field(description="d")], "a", "b"),
    "annotated types": (Annotated[int, annotated_types.Ge(1)], 1, 0),
    "described": (Annotated[int, "how many"], 1, "x"),
    "literal": (Literal["b", "a"], "a", "c"),
    "literal numbers": (Literal[1, 2], 1, 3),
    "literal flag": (Literal[True], True, False),
    "enum": (Size, "s", "m"),
    "int enum": (Level, 1, 3),
    "str enum": (Colour, "red", "blue"),
    "optional": (int | None, None, "x"),
    "union": (int | str, "a", []),
    "optional bounds": (Annotated[int | None, Field(ge=1)], 1, 0),
    "list": (list[int], [1, 2], ["x"]),
    "list bounds": (Annotated[list[int], Meta(min_length=1)], [1], []),
    "set": (set[int], [1], ["x"]),
    "frozenset": (frozenset[str], ["a"], [1]),
    "tuple": (tuple[int, str], [1, "a"], [1]),
    "tuple of any length": (tuple[int, ...], [1, 2], ["x"]),
    "dict": (dict[str, int], {"a": 1}, {"a": "x"}),
    "dict by number": (dict[int, str], {"1": "a"}, {"x": "a"}),
    "dict by float": (dict[float, str], {"1.5": "a"}, {"x": "a"}),
    "dict by enum": (dict[Size, int], {"s": 1}, {"m": 1}),
    "dict by literal": (dict[Literal["a"], int], {"a": 1}, {"b": 1}),
    "dict by pattern": (dict[Annotated[str, Meta(pattern="^a")], int], {"ab": 1}, {"b": 1}),
    "dict by date": (dict[dt.date, int], {"2026-01-02": 1}, {"x": 1}),
    "dict by uuid": (dict[uuid.UUID, int], {UUID: 1}, {"x": 1}),
    "dict by bounds": (dict[Annotated[int, Meta(ge=-5, lt=120)], int], {"-5": 1, "119": 1}, {"120": 1}),
    "dict by bounds of a field": (dict[Annotated[int, Field(gt=0)], int], {"1": 1}, {"0": 1}),
    "dict of models by number": (dict[int, Model], {"1": MODEL}, {"x": MODEL}),
    "dict of models by bounds": (dict[Annotated[int, Meta(ge=1)], Model], {"1": MODEL}, {"0": MODEL}),
    "dict of models by enum": (dict[Level, Model], {"1": MODEL}, {"3": MODEL}),
    "dict of models by pattern": (dict[Annotated[str, Meta(pattern="^a")], Model], {"ab": MODEL}, {"b": MODEL}),
    "dict of models by number or enum": (dict[int | Size, Model], {"1": MODEL, "s": MODEL}, {"x": MODEL}),
    "date": (dt.date, "2026-01-02", "x"),
    "datetime": (dt.datetime, "2026-01-02T03:04:05Z", "x"),
    "datetime with zone": (Annotated[dt.datetime, Meta(tz=True)], "2026-01-02T03:04:05Z", "x"),
    "datetime by field": (Annotated[dt.datetime, Field(description="d")], "2026-01-02T03:04:05Z", "x"),
    "time": (dt.time, "03:04:05Z", "x"),
    "timedelta": (dt.timedelta, "P1D", "x"),
    "uuid": (uuid.UUID, UUID, "x"),
    "decimal": (decimal.Decimal, "1.50", []),
    "decimal by field": (Annotated[decimal.Decimal, Field(gt=0)], "1.50", []),
    "bytes": (bytes, TEXT, 1),
    "bytearray": (bytearray, TEXT, 1),
    "bytes by field": (Annotated[bytes, Field(description="d")], TEXT, 1),
    "bytes or none by field": (Annotated[bytes | None, Field(description="d")], TEXT, 1),
    "list of bytes by field": (Annotated[list[bytes], Field(max_length=9)], [TEXT], [1]),
    "dict of bytes": (dict[str, bytes], {"a": TEXT}, {"a": 1}),
    "url": (pydantic.AnyUrl, "https://example.org/", "x"),
    "secret": (pydantic.Base64Bytes, TEXT, 1),
    "dataclass": (Point, {"x": 1, "name": "a"}, {"x": -1}),
    "dataclass of bytes": (Blob, {"data": TEXT}, {"data": 1}),
    "named tuple": (Pair, [1, "a"], ["x"]),
    "typed dict": (Typed, {"x": 1}, {"name": "a"}),
    "typed dict not required": (Loose, {"x": 1}, {"x": "a"}),
    "struct": (Plain, {"itemId": 1, "itemName": "a"}, {"itemId": "x"}),
    "tagged structs": (Cat | Dog, {"type": "Dog", "legs": 4}, {"type": "Bird"}),
    "tagged structs or time": (Cat | Dog | dt.time | None, "03:04:05Z", {"type": "Bird"}),
    "generic": (Box[Annotated[int, Meta(ge=1)]], {"item": 1}, {"item": 0}),
    "model": (Model, MODEL, {"itemId": 0}),
    "models": (Annotated[list[Model], Meta(min_length=1, description="d")], [MODEL], []),
    "binary model": (Binary, {"data": TEXT}, {"data": 1}),
    "binary models": (list[Binary], [{"data": TEXT}], [{"data": 1}]),
    "hexed model": (Hexed, {"data": BINARY.hex()}, {"data": 1}),
    "recursive model": (Tree, {"data": TEXT, "below": [{"data": TEXT, "below": []}]}, {"data": 1}),
    "model in a dataclass": (Mixed, {"n": 1, "data": TEXT, "model": MODEL}, {"n": 0, "data": TEXT, "model": MODEL}),
    "model in a tuple": (MixedPair, [1, MODEL], [0, MODEL]),
    "model in a typed dict": (MixedTyped, {"n": [1], "model": MODEL}, {"n": [0], "model": MODEL}),
    "model or bounds": (Annotated[int, Meta(ge=1)] | Model, MODEL, 0),
    "new type": (Id, 1, "x"),
    "alias": (Annotated[Alias, Field(le=5)], 1, 0),
    "ages": (Annotated[Ages, Field(min_length=1)], {"a": 1}, {"a": -1}),
    "path": (pathlib.Path, "a/b", 1),
    "path or none": (pathlib.PurePosixPath | None, "a/b", 1),
    "paths": (list[pathlib.Path], ["a"], [1]),
    "address": (ipaddress.IPv4Address, "10.0.0.1", 1.5),
    "network": (ipaddress.IPv6Network, "fe80::/10", 1.5),
    "deque": (collections.deque[int], [1], ["x"]),
    "counter": (collections.Counter[str], {"a": 1}, {"a": "x"}),
    "mixed enum": (Grade, "a", "c"),
    "float enum": (Step, 0.5, 0.7),
    "member of an enum": (Literal[Colour.RED], "red", "blue"),
    "two dataclasses": (Point | Blob, {"data": TEXT}, {"data": 1}),
    "date or text": (dt.date | str, "2026-01-02", 1),
    "list or set": (list[str] | set[int], ["a"], [None]),
    "generic dataclass": (Crate[int], {"item": 1}, {"item": "x"}),
    "generic class of attrs": (Case[int], {"item": 1}, {"item": "x"}),
}


FLAT = [
    "str", "int", "float", "bool", "int bounds", "float bounds", "multiple", "pattern", "length", "field bounds",
    "field and meta", "meta and field", "annotated types", "described", "literal", "enum", "str enum", "optional",
    "optional bounds", "date", "datetime", "datetime with zone", "datetime by field", "time", "timedelta", "uuid",
    "decimal", "decimal by field", "bytes", "bytearray", "bytes by field", "bytes or none by field", "url", "secret",
    "dataclass", "dataclass of bytes", "typed dict", "typed dict not required", "struct", "generic", "model",
    "binary model", "hexed model", "new type", "alias", "path", "path or none", "address", "network",
    "member of an enum", "generic dataclass", "generic class of attrs",
]  # fmt: skip
"""The types that a form can show: flat members that are text, numbers, booleans or choices."""

TEXTS = {"optional": 3}
"""Null has no text; another value stands for it in prompts and templates."""

ANY_TEXT = {"str", "any", "object", "union", "path", "path or none", "date or text"}
"""Types that take any text as it is, so that prompts and templates refuse none."""

TEXT_RESULTS = {"url", "datetime by field"}
"""Types whose results are text with a format, which is a note and no rule (JSON Schema 2020-12, validation 7.2.1).

Pydantic writes any text for them; msgspec's own types are held to their format.
"""


class Bad(msgspec.Struct):
    model: Model


class Wrong(pydantic.BaseModel):
    n: Annotated[int, Meta(ge=1)]


REFUSED = {
    "keys that are tuples": dict[tuple[int, int], int],
    "keys that are sets": dict[str, dict[frozenset[int], int]],
    "keys that are tuples beside a model": dict[tuple[int, int], Model],
    "keys that are other than text beside a model": dict[Literal[1, 2], Model],
    "a model in a struct": Bad,
    "bounds of msgspec in a model": Wrong,
    "values that are read when they are used": Iterable[int],
    "an enum of tuples": Span,
    "a class": type[int],
    "a function's type": type(lambda: None),
    "members of an enum that are no text": Literal[Size.S, "b"],
    "a model with a member of an enum that is no text": Small,
}


def function_of(kind: Any, *, returns: Any = str, use: Any = None) -> Any:
    """Make a function with a parameter of this type."""

    def call(x: Any) -> Any:
        seen.append(x)
        return "ok" if use is None else use(x)

    seen: list[Any] = []
    call.__annotations__ = {"x": kind, "return": returns}
    call.seen = seen
    return call


def fits_argument(kind: Any, value: Any) -> Any:
    """Return a value as a tool gets it."""
    arguments = Arguments([Parameter(name="x", annotation=kind, default=REQUIRED)], "t")
    return arguments.decode(msgspec.json.encode({"x": value}))["x"]


def written(value: Any) -> str:
    """Write a value as the text that stands for it in a prompt or URI."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def address(value: Any) -> str:
    """Return the URI of a value."""
    return "r://" + quote(written(value))


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Tell whether a schema takes a value, its formats included."""
    return jsonschema_rs.validator_for(dict(schema), validate_formats=True).is_valid(value)


@pytest.mark.parametrize("name", TYPES)
async def test_a_tool_publishes_and_checks_the_type_of_an_argument(name):
    """Schema and check agree on what fits, and the function gets a value of the type."""
    kind, good, bad = TYPES[name]
    server, function = Server("s"), function_of(kind)
    server.add_tool(function, name="t")
    async with Client(server) as client:
        (tool,) = [tool async for tool in client.tools()]
        assert fits(tool.input_schema, {"x": good})
        result = await client.call_tool("t", {"x": good})
        assert not result.is_error, result.text
        if bad is not ...:
            assert not fits(tool.input_schema, {"x": bad})
            assert (await client.call_tool("t", {"x": bad})).is_error
    if "base64" in str(tool.input_schema):
        assert repr(BINARY) in repr(function.seen)


@pytest.mark.parametrize("name", TYPES)
async def test_a_tool_publishes_and_returns_its_result(name):
    """The value that came as an argument goes back as the JSON it came from; one that does not fit is an error."""
    kind, good, bad = TYPES[name]
    server = Server("s")
    server.add_tool(function_of(kind, returns=kind, use=lambda value: value), name="t", structured=True)
    server.add_tool(function_of(Any, returns=kind, use=lambda value: value), name="unchecked", structured=True)
    async with Client(server) as client:
        tools = {tool.name: tool async for tool in client.tools()}
        result = await client.call_tool("t", {"x": good})
        assert not result.is_error, result.text
        sent = result.structured_content
        assert fits(tools["t"].output_schema, sent)
        assert good in (sent, sent.get("result") if isinstance(sent, dict) else None)
        if bad is not ... and name not in TEXT_RESULTS:
            broken = await client.call_tool("unchecked", {"x": bad})
            assert broken.is_error
            assert "does not fit its output schema" in broken.text


@pytest.mark.parametrize("name", TYPES)
async def test_a_prompt_and_a_template_read_the_type_from_text(name):
    """Text that stands for the value arrives as the value that a tool gets; other text is refused."""
    kind, good, bad = TYPES[name]
    server, prompt, tool, resource = Server("s"), function_of(kind), function_of(kind), function_of(kind)
    server.add_prompt(prompt, name="p")
    server.add_resource("r://{+x}", resource)
    server.add_tool(tool, name="t")
    async with Client(server) as client:
        (listed,) = [prompt async for prompt in client.prompts()]
        assert [(argument.name, argument.required) for argument in listed.arguments] == [("x", True)]
        if good is None:
            good = TEXTS[name]
        await client.call_tool("t", {"x": good})
        await client.get_prompt("p", {"x": written(good)})
        await client.read_resource(address(good))
        if bad is not ... and name not in ANY_TEXT:
            with pytest.raises(InvalidParams, match='argument "x'):
                await client.get_prompt("p", {"x": written(bad)})
            with pytest.raises(PeerError, match='argument "x'):
                await client.read_resource(address(bad))
    assert prompt.seen == resource.seen
    assert [*map(str, prompt.seen)] == [written(good)] if name in ANY_TEXT else prompt.seen == tool.seen


@pytest.mark.parametrize("name", TYPES)
def test_an_answer_of_a_model_has_the_type(name):
    """``result_type`` publishes and reads what a tool does, and refuses what a tool refuses."""
    kind, good, bad = TYPES[name]
    answer = TypedAnswer(kind)
    text = good if kind is str else msgspec.json.encode(good).decode()
    wrapped = Shape(kind, place="x").wrapped
    if text.startswith("{") and wrapped:
        text = f'{{"result": {text}}}'
    assert fits_argument(kind, good) == answer.read(text)
    if kind is not str:
        # Any answer of a model is text, so that none needs an instruction or is refused.
        published = msgspec.json.decode(answer.add_instructions(None).partition("\n")[2])
        assert fits(published, {"result": good} if wrapped else good)
        if bad is not ...:
            assert not fits(published, {"result": bad} if wrapped else bad)
            with pytest.raises(MismatchError):
                answer.read(msgspec.json.encode(bad).decode())


@pytest.mark.parametrize("name", FLAT)
async def test_a_form_asks_for_the_type(name):
    """The form publishes what the answer is checked for; the handler gets a value of the type."""
    kind, good, bad = TYPES[name]
    form = TypedForm.of(kind)
    is_single = list(form.schema["properties"]) == ["result"]
    answer = {"result": good} if is_single else good
    assert await form.read(answer) == fits_argument(kind, good)
    # A form has no null: a member that may be null is left empty.
    assert fits(form.schema, {} if good is None else answer)
    with pytest.raises(ValueError, match=r"expected|input|invalid|missing|should"):
        await form.read({"result": bad} if is_single else bad)


@pytest.mark.parametrize("name", [name for name in TYPES if name not in FLAT])
def test_a_form_refuses_a_type_that_is_not_flat(name):
    """The error names the member and the remedy."""
    with pytest.raises(ConfigError, match=r"form \".*(cannot be shown|only has|is an object with)"):
        TypedForm.of(TYPES[name][0])


@pytest.mark.parametrize(("kind", "place"), [(dt.date, "date"), (dt.datetime, "date-time"), (dt.time, "time")])
def test_dates_and_times_have_their_format(kind, place):
    """Also in a list and beside null; forms have no format for a time."""
    schema = Arguments([Parameter(name="x", annotation=dict[str, list[kind | None]], default=REQUIRED)], "t").schema
    assert f"'format': '{place}'" in str(schema)
    form = TypedForm.of(kind).schema["properties"]["result"]
    assert form.get("format") == (None if place == "time" else place)


@pytest.mark.parametrize("name", REFUSED)
def test_a_type_that_no_json_can_be_is_refused_at_the_decorator(name):
    """The error names the parameter."""
    server = Server("s")
    for add in (server.add_tool, server.add_prompt, lambda f: server.add_resource("r://{x}", f)):
        with pytest.raises(ConfigError, match='parameter "x": '):
            add(function_of(REFUSED[name]))
