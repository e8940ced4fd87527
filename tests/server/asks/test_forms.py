"""Types as forms, and what the user filled in."""

from __future__ import annotations

import datetime as dt
import enum
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest

from antiphon.errors import ConfigError
from antiphon.server.asks.forms import Form


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclass
class Order:
    name: Annotated[str, msgspec.Meta(min_length=1, title="Name", description="Whose")]
    count: Annotated[int, msgspec.Meta(gt=0, lt=10)]
    note: str | None
    price: Annotated[float, msgspec.Meta(ge=0)] = 1.5
    gift: bool = False
    colour: Colour = Colour.RED
    extras: list[Literal["bag", "bow"]] = field(default_factory=list)
    due: dt.date | None = None
    size: Literal["s", "l"] | None = None


class Struct(msgspec.Struct):
    x: int


class Typed(TypedDict):
    x: int


class Model(pydantic.BaseModel):
    x: int = pydantic.Field(ge=1, description="An x")
    colour: Colour = Colour.RED
    note: str | None = None


@dataclass
class Nested:
    order: Struct


@dataclass
class Tags:
    tags: list[str]


@dataclass
class Level:
    level: Literal[1, 2]


def test_a_form_says_only_what_forms_can_say():
    """Flat members, each a primitive schema."""
    schema = Form.of(Order).schema
    properties = schema["properties"]
    properties["colour"]["enum"].sort()
    properties["extras"]["items"]["enum"].sort()
    assert schema["required"] == ["name", "count"]
    assert properties == {
        "name": {"type": "string", "minLength": 1, "title": "Name", "description": "Whose"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "note": {"type": "string"},
        "price": {"type": "number", "minimum": 0, "default": 1.5},
        "gift": {"type": "boolean", "default": False},
        "colour": {"type": "string", "enum": ["green", "red"], "default": "red"},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["bag", "bow"]}},
        "due": {"type": "string", "format": "date"},
        "size": properties["size"],
    }


@pytest.mark.parametrize("kind", [Order, Struct, Typed, Model, bool, str, Colour, Literal["a"], list[Colour]])
def test_every_form_is_valid_by_the_specification(kind):
    """``requestedSchema`` of 2026-07-28, with no member beyond it."""
    path = Path(__file__).parents[2] / "schemas" / "2026-07-28.json"
    definitions = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    schema = {"$ref": "#/$defs/ElicitRequestFormParams", "$defs": definitions}
    form = Form.of(kind).schema
    jsonschema_rs.validate(schema, {"message": "m", "mode": "form", "requestedSchema": form})
    assert set(form) <= {"type", "properties", "required"}


async def test_what_was_filled_in_becomes_a_value():
    """An empty member is its default, or ``None`` where that may be."""
    value = await Form.of(Order).read({"name": "a", "count": 2.0, "extras": ["bow"], "due": "2026-01-02"})
    assert value == Order("a", 2, None, extras=["bow"], due=dt.date(2026, 1, 2))


@pytest.mark.parametrize(
    ("kind", "content", "value"),
    [
        (Struct, {"x": 1}, Struct(1)),
        (Typed, {"x": 1}, {"x": 1}),
        (Model, {"x": 1}, Model(x=1)),
        (bool, {"result": True}, True),
        (Colour, {"result": "red"}, Colour.RED),
    ],
)
async def test_the_value_has_the_type_that_was_asked_for(kind, content, value):
    """A single type has one member, ``result``."""
    assert await Form.of(kind).read(content) == value


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"name": "a"}, 'missing "count"'),
        ({"name": "", "count": 1}, '"name": expected string of length >= 1'),
        ({"name": "a", "count": "1"}, '"count": expected integer, got string'),
        ({"name": "a", "count": 1, "colour": "blue"}, '"colour": invalid enum value'),
    ],
)
async def test_what_does_not_fit_names_the_member(content, problem):
    """As a ``ValueError``."""
    with pytest.raises(ValueError, match=problem):
        await Form.of(Order).read(content)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Nested, 'form "Nested": member "order" cannot be shown in a form'),
        (Tags, 'member "tags" is a list of anything; a form only has lists of choices'),
        (Level, 'member "level" is a choice of something other than strings'),
        (dict[str, int], "a form is an object with named members"),
        ({"type": "string"}, "form: a form is an object with named members"),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, 'member "a" cannot be shown'),
    ],
)
def test_what_no_form_can_show_is_refused(kind, problem):
    """Naming the member."""
    with pytest.raises(ConfigError, match=problem):
        Form.of(kind)


async def test_a_schema_is_a_form_too():
    """What is filled in is then a plain dict, validated."""
    titled = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}]}
    named = {"type": "string", "enum": ["a"], "enumNames": ["A"]}
    form = Form.of({"type": "object", "properties": {"c": titled, "n": named}, "required": ["c"]})
    assert form.schema["properties"] == {
        "c": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "g"}]},
        "n": named,
    }
    assert await form.read({"c": "r"}) == {"c": "r"}
    with pytest.raises(ValueError, match='missing "c"'):
        await form.read({})


@pytest.mark.parametrize("kind", [Annotated[int, pydantic.Field(default=3)], Annotated[int | None, pydantic.Field(3)]])
async def test_a_single_value_left_empty_has_its_default(kind):
    """As an argument of a tool has."""
    form = Form.of(kind)
    assert "required" not in form.schema
    assert form.schema["properties"]["result"]["default"] == 3
    assert await form.read({}) == 3
    assert await form.read({"result": 4}) == 4
