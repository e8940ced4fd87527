"""Asking the user: forms of every kind of type, what comes back, and what the user may do instead."""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest

from antiphon import Client, Context, ElicitationUnavailable, Elicited, ElicitRequestParams, ElicitResult, Server
from antiphon.errors import CallTimeout, ConfigError, NotInRevision, RemoteProtocolError
from antiphon.server.asks.elicitations import TypedForm
from antiphon.testing import Recorder
from antiphon.wire.common import ClientCapabilities, ElicitationCapability
from antiphon.wire.origin import Origin

ERAS = ["2025-11-25", "2026-07-28"]


@dataclass
class AsDataclass:
    """A size."""

    width: int
    colour: Literal["red", "blue"] = "red"


class AsStruct(msgspec.Struct):
    width: int
    colour: Literal["red", "blue"] = "red"


class AsDict(TypedDict):
    width: int
    colour: Literal["red", "blue"]


class AsModel(pydantic.BaseModel):
    width: int
    colour: Literal["red", "blue"] = "red"


SCHEMA = {"type": "object", "properties": {"width": {"type": "integer"}, "colour": {"type": "string"}}}
GIVEN: dict[str, Any] = {"width": 3, "colour": "blue"}


class Visitor:
    """An answerer that opens addresses too."""

    capabilities = ClientCapabilities(elicitation=ElicitationCapability(form={}, url={}))

    async def __call__(self, _params: ElicitRequestParams, _origin: Origin) -> ElicitResult:
        return ElicitResult(action="accept")


def asking(ask: Callable[[Context], Any], seen: list[Any]) -> Server:
    """Make a server with a tool that asks, and keeps what came of it."""
    server = Server("s")

    @server.tool
    async def form(ctx: Context) -> str:
        try:
            seen.append(await ask(ctx))
        except Exception as error:
            seen.append(error)
            raise
        return "done"

    return server


async def outcome(ask: Callable[[Context], Any], answer: Any, revision: str = "2026-07-28", **options: Any) -> Any:
    """Return what a handler got for its ask, be it an exception."""
    seen: list[Any] = []

    async def elicit(_params: ElicitRequestParams, _origin: Origin) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with Client(asking(ask, seen), elicitation=elicit, revision=revision, **options) as client:
        await client.call_tool("form")
    (one,) = seen
    return one


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("form", "value"),
    [
        (AsDataclass, AsDataclass(3, "blue")),
        (AsStruct, AsStruct(3, "blue")),
        (AsDict, GIVEN),
        (AsModel, AsModel(width=3, colour="blue")),
        (SCHEMA, GIVEN),
    ],
)
async def test_the_answer_is_of_the_type_that_was_asked_for(form: Any, value: Any, revision: str) -> None:
    """In either era."""
    done = await outcome(lambda ctx: ctx.elicit("Which?", form), GIVEN, revision)
    assert isinstance(done, Elicited)
    assert done.accepted
    assert done.value == value
    assert type(done.value) is type(value)


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_may_say_no(action: Any) -> None:
    """It is no error, and there is no value."""
    done = await outcome(lambda ctx: ctx.elicit("Which?", AsDataclass), ElicitResult(action=action))
    assert (done.action, done.accepted, done.value) == (action, False, None)
    assert repr(done) == f"Elicited(action={action!r}, value=None)"


@pytest.mark.parametrize(
    "wrong", [{}, {"width": "three"}, {"width": 1.5}, {"width": 1, "colour": "green"}, {"width": ["1"]}]
)
@pytest.mark.parametrize("form", [AsDataclass, AsModel])
async def test_an_answer_that_does_not_fit_is_the_clients_fault(form: Any, wrong: Any) -> None:
    """The handler learns where it is wrong."""
    done = await outcome(lambda ctx: ctx.elicit("Which?", form), wrong)
    assert isinstance(done, RemoteProtocolError)
    assert "does not fit the form" in str(done)


async def test_a_form_may_be_accepted_without_content() -> None:
    """Where nothing is required, an absent content is an empty one."""
    empty = {"type": "object", "properties": {"note": {"type": "string"}}}
    done = await outcome(lambda ctx: ctx.elicit("Go on?", empty), ElicitResult(action="accept"))
    assert (done.action, done.value) == ("accept", {})


async def test_a_form_cannot_be_nested() -> None:
    """The author learns at once, and nothing is sent."""

    @dataclass
    class Nested:
        inner: AsDataclass

    done = await outcome(lambda ctx: ctx.elicit("?", Nested), GIVEN)
    assert isinstance(done, ConfigError)


async def test_a_client_without_forms_is_not_asked() -> None:
    """The error says what is missing."""
    seen: list[Any] = []
    async with Client(asking(lambda ctx: ctx.elicit("?", AsDataclass), seen), revision="2025-11-25") as client:
        result = await client.call_tool("form")
    assert isinstance(seen[0], ElicitationUnavailable)
    assert seen[0].data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    assert result.is_error


async def test_a_revision_without_forms_is_not_asked() -> None:
    """The error names it."""
    done = await outcome(lambda ctx: ctx.elicit("?", AsDataclass), GIVEN, "2025-03-26")
    assert isinstance(done, NotInRevision)
    assert "2025-03-26" in str(done)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_user_may_be_sent_to_an_address(revision: str) -> None:
    """What happens there is not the client's business; an id travels where the revision wants one."""
    recorder, seen = Recorder(), list[Any]()
    server = asking(lambda ctx: ctx.elicit_url("Sign in", "https://example.org/in"), seen)
    async with Client(server, elicitation=Visitor(), revision=revision, wrap=recorder) as client:
        await client.call_tool("form")
    if revision == "2025-11-25":
        (asked,) = recorder.received("elicitation/create")
        assert len(asked["elicitationId"]) == 32
    else:
        (ask,) = recorder.received("tools/call")[0]["inputRequests"].values()
        asked = ask["params"]
        assert "elicitationId" not in asked
    assert (asked["mode"], asked["url"], asked["message"]) == ("url", "https://example.org/in", "Sign in")
    assert (seen[0].action, seen[0].value) == ("accept", None)


async def test_two_visits_have_two_ids() -> None:
    """An id is never used again."""
    recorder = Recorder()

    async def both(ctx: Context) -> None:
        for _ in range(2):
            await ctx.elicit_url("Sign in", "https://example.org/in")

    async with Client(asking(both, []), elicitation=Visitor(), revision="2025-11-25", wrap=recorder) as client:
        await client.call_tool("form")
    first, second = recorder.received("elicitation/create")
    assert first["elicitationId"] != second["elicitationId"]


async def test_a_client_that_only_shows_forms_is_sent_nowhere() -> None:
    """The error says what is missing."""
    seen: list[Any] = []

    async def fill(*_: Any) -> ElicitResult:
        return ElicitResult(action="accept")

    server = asking(lambda ctx: ctx.elicit_url("Sign in", "https://example.org/in"), seen)
    async with Client(server, elicitation=fill, revision="2025-11-25") as client:
        await client.call_tool("form")
    assert isinstance(seen[0], ElicitationUnavailable)
    assert seen[0].data == {"requiredCapabilities": {"elicitation": {"url": {}}}}


async def test_a_revision_without_addresses_is_not_asked() -> None:
    """Url mode began with 2025-11-25."""
    seen: list[Any] = []
    server = asking(lambda ctx: ctx.elicit_url("Sign in", "https://example.org/in"), seen)
    async with Client(server, elicitation=Visitor(), revision="2025-06-18") as client:
        await client.call_tool("form")
    assert isinstance(seen[0], NotInRevision)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_user_may_be_too_slow(revision: str) -> None:
    """Only if the author set a limit."""
    seen: list[Any] = []
    ended = asyncio.Event()

    async def never(*_: Any) -> None:
        await ended.wait()

    async def ask(ctx: Context) -> Any:
        try:
            return await ctx.elicit("?", AsDataclass, timeout=0.01)
        finally:
            ended.set()

    async with Client(asking(ask, seen), elicitation=never, revision=revision) as client:
        assert (await client.call_tool("form")).is_error
    assert isinstance(seen[0], CallTimeout)


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
    schema = TypedForm.of(Order).schema
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
        "extras": {"type": "array", "items": {"type": "string", "enum": ["bag", "bow"]}, "default": []},
        "due": {"type": "string", "format": "date"},
        "size": properties["size"],
    }


@pytest.mark.parametrize("kind", [Order, Struct, Typed, Model, bool, str, Colour, Literal["a"], list[Colour]])
def test_every_form_is_valid_by_the_specification(kind):
    """``requestedSchema`` of 2026-07-28, with no member beyond it."""
    path = Path(__file__).parents[2] / "schemas" / "2026-07-28.json"
    definitions = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    schema = {"$ref": "#/$defs/ElicitRequestFormParams", "$defs": definitions}
    form = TypedForm.of(kind).schema
    jsonschema_rs.validate(schema, {"message": "m", "mode": "form", "requestedSchema": form})
    assert set(form) <= {"type", "properties", "required"}


async def test_what_was_filled_in_becomes_a_value():
    """An empty member is its default, or ``None`` where that may be."""
    value = await TypedForm.of(Order).read({"name": "a", "count": 2.0, "extras": ["bow"], "due": "2026-01-02"})
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
    assert await TypedForm.of(kind).read(content) == value


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
        await TypedForm.of(Order).read(content)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Nested, 'form "Nested": member "order" cannot be shown in a form'),
        (Tags, 'member "tags" is a list of anything; a form only has lists of choices'),
        (Level, 'member "level" is a choice of something other than strings'),
        (dict[str, int], "a form is an object with named members"),
        ({"type": "string"}, "form: a form is an object with named members"),
        (["a", "b"], r"form \['a', 'b'\] is no type: write Literal\['a', 'b'\] for choices"),
        (None, "form None is no type: .* for no values an empty schema"),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, 'member "a" cannot be shown'),
    ],
)
def test_what_no_form_can_show_is_refused(kind, problem):
    """Naming the member."""
    with pytest.raises(ConfigError, match=problem):
        TypedForm.of(kind)


async def test_a_schema_is_a_form_too():
    """What is filled in is then a plain dict, validated."""
    titled = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}]}
    named = {"type": "string", "enum": ["a"], "enumNames": ["A"]}
    form = TypedForm.of({"type": "object", "properties": {"c": titled, "n": named}, "required": ["c"]})
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
    form = TypedForm.of(kind)
    assert "required" not in form.schema
    assert form.schema["properties"]["result"]["default"] == 3
    assert await form.read({}) == 3
    assert await form.read({"result": 4}) == 4
