"""From return values to results."""

from __future__ import annotations

import enum
import math
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from antiphon.errors import ConfigError, ResultInvalid
from antiphon.json_schema.validator import SchemaValidator
from antiphon.server.functions.results import ResultConverter, content_of, output_shape, text_result
from antiphon.server.functions.signature import REQUIRED
from antiphon.wire.content import (
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from antiphon.wire.envelope import encode_value
from antiphon.wire.tools import CallToolResult

IMAGE = ImageContent.of(b"\x89PNG", "image/png")
LINK = ResourceLink(uri="a:b", name="b")


@dataclass
class Item:
    price: float


class Struct(msgspec.Struct):
    price: float


class Typed(TypedDict):
    price: float


class Model(pydantic.BaseModel):
    price: float


class Colour(enum.Enum):
    RED = "red"


class Bits(enum.IntFlag):
    R = 1
    W = 2


@dataclass
class Bounded:
    price: Annotated[float, msgspec.Meta(ge=1)]

    def __post_init__(self):
        made.append(self)


made: list[Bounded] = []

PLAIN = ResultConverter("here", shape=None, validator=None)


def converter(annotation: Any, *, structured: bool | None = None) -> ResultConverter:
    """Make the converter of a function with this return annotation."""
    return ResultConverter("here", shape=output_shape(annotation, "here", structured=structured), validator=None)


def checked(schema: dict[str, Any]) -> ResultConverter:
    """Make a converter with an output schema of the author's."""
    return ResultConverter("here", shape=None, validator=SchemaValidator(schema, place="here"))


def structure(result: CallToolResult) -> Any:
    """Read structured content as a client would."""
    return msgspec.json.decode(encode_value(result)).get("structuredContent")


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", [TextContent(text="text")]),
        (None, []),
        (IMAGE, [IMAGE]),
        ([IMAGE, "text", LINK], [IMAGE, TextContent(text="text"), LINK]),
        ((IMAGE, {"a": 1}), [IMAGE, TextContent(text='{"a":1}')]),
        ([UnknownContent("new", {"a": 1})], [UnknownContent("new", {"a": 1})]),
        (
            [EmbeddedResource(resource=ResourceContents.of("a:b", b"\0"))],
            [EmbeddedResource(resource=ResourceContents.of("a:b", b"\0"))],
        ),
    ],
)
def test_content_stays_content(value, content):
    """And has no structure."""
    result = PLAIN.convert(value)
    assert list(result.content) == content
    assert result.structured_content is None


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        ({"a": 1}, '{"a":1}', {"a": 1}),
        (Item(1.5), '{"price":1.5}', {"price": 1.5}),
        (Struct(1.5), '{"price":1.5}', {"price": 1.5}),
        (Model(price=1.5), '{"price":1.5}', {"price": 1.5}),
        ([Model(price=1.5)], '[{"price":1.5}]', {"result": [{"price": 1.5}]}),
        (5, "5", {"result": 5}),
        (True, "true", {"result": True}),
        (["a", "b"], '["a","b"]', {"result": ["a", "b"]}),
        (Colour.RED, '"red"', {"result": "red"}),
    ],
)
def test_everything_else_is_structured_and_also_text(value, text, structured):
    """An object as it is, anything else under ``result``."""
    result = PLAIN.convert(value)
    assert result.text == text
    assert structure(result) == structured


def test_a_finished_result_passes():
    """Untouched."""
    result = CallToolResult(content=[], is_error=True)
    assert PLAIN.convert(result) is result


@pytest.mark.parametrize(
    ("annotation", "value", "text", "structured"),
    [
        (int, 5, "5", {"result": 5}),
        (int | None, None, "null", {"result": None}),
        (list[str], ["a"], '["a"]', {"result": ["a"]}),
        (dict[str, int], {"a": 1}, '{"a":1}', {"a": 1}),
        (str | int, "a", "a", {"result": "a"}),
        (Typed, {"price": 1}, '{"price":1}', {"price": 1}),
        (Model, Model(price=1), '{"price":1.0}', {"price": 1.0}),
        (Model | Item, Item(2.5), '{"price":2.5}', {"result": {"price": 2.5}}),
        (Annotated[Item, "x"], Item(2), '{"price":2}', {"price": 2}),
    ],
)
def test_a_declared_type_decides_the_structure(annotation, value, text, structured):
    """Whatever the single value looks like."""
    result = converter(annotation).convert(value)
    assert result.text == text
    assert structure(result) == structured


@pytest.mark.parametrize(
    "annotation",
    [
        REQUIRED, Any, object, None, type(None), str, str | None, Literal["a"], bytes, list, tuple, TextContent,
        ImageContent | str,
        list[TextContent | ImageContent], Sequence[TextContent | str], list[Any], CallToolResult, Awaitable[str],
        Annotated[str, "x"],
    ],
)  # fmt: skip
def test_text_and_content_promise_nothing(annotation):
    """Nor does what nobody can know."""
    assert output_shape(annotation, "here") is None


@pytest.mark.parametrize(
    "annotation", [int, bool, list[int], list[str], dict, dict[str, Any], Item, Item | None, Typed, Awaitable[Item]]
)
def test_other_types_promise_their_schema(annotation):
    """An object at the top."""
    shape = output_shape(annotation, "here")
    assert shape is not None
    assert shape.schema["type"] == "object"


def test_the_author_may_decline_or_demand_structure():
    """With ``structured``."""
    assert output_shape(Item, "here", structured=False) is None
    assert converter(str, structured=True).convert("a") == CallToolResult(
        content=[TextContent(text="a")], structured_content=msgspec.Raw(b'{"result":"a"}')
    )
    with pytest.raises(ConfigError, match="here: structured=True needs a return annotation"):
        output_shape(REQUIRED, "here", structured=True)


def test_without_structure_the_text_remains():
    """``structured=False`` leaves JSON text."""
    quiet = ResultConverter("here", shape=None, validator=None, structured=False)
    assert quiet.convert({"a": 1}) == CallToolResult(content=[TextContent(text='{"a":1}')])


def test_a_return_type_without_json_is_refused():
    """When the tool is made, not when it is called."""
    with pytest.raises(ConfigError, match=r"here: return type: type .* is not supported"):
        output_shape(type("Own", (), {}), "here")


def test_bytes_are_refused_with_a_remedy():
    """Nobody can know what they are."""
    with pytest.raises(ResultInvalid, match=r"here returned bytes: say what they are, as in ImageContent\.of"):
        PLAIN.convert(b"\0")


def test_a_value_without_json_is_refused():
    """Naming the type."""
    with pytest.raises(ResultInvalid, match="here returned what has no JSON form: object"):
        PLAIN.convert(object())


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


async def test_a_schema_by_hand_is_obeyed():
    """What fits passes, what does not is the author's error."""
    assert structure(await checked(SCHEMA).checked({"a": 1})) == {"a": 1}
    with pytest.raises(ResultInvalid, match='here: its result does not fit the output schema: "a": "x" is not of type'):
        await checked(SCHEMA).checked({"a": "x"})


async def test_a_schema_by_hand_holds_for_finished_results():
    """Unless they are errors; and structured content must be there."""
    fine = CallToolResult(content=[], structured_content={"a": 1})
    failed = CallToolResult(content=[], is_error=True)
    assert await checked(SCHEMA).checked(fine) is fine
    assert await checked(SCHEMA).checked(failed) is failed
    with pytest.raises(ResultInvalid, match="returned no structured content"):
        await checked(SCHEMA).checked(CallToolResult(content=[]))


async def test_a_schema_by_hand_wraps_nothing():
    """From 2026-07-28 structured content is any JSON."""
    assert structure(await checked({"type": "array"}).checked([1])) == [1]


def test_a_plain_converter_says_so():
    """So that text can take a shorter way."""
    assert PLAIN.is_plain
    assert not checked(SCHEMA).is_plain
    assert not converter(int).is_plain
    assert text_result("a") == PLAIN.convert("a")


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("a", [TextContent(text="a")]),
        ({"a": 1}, [TextContent(text='{"a":1}')]),
        ([1, 2], [TextContent(text="[1,2]")]),
        (None, [TextContent(text="null")]),
        ([], [TextContent(text="[]")]),
        (IMAGE, [IMAGE]),
        (["a", IMAGE], [TextContent(text="a"), IMAGE]),
    ],
)
def test_any_value_becomes_content(value, content):
    """Never none at all."""
    assert content_of(value) == content


def test_a_value_without_json_becomes_no_content():
    """The error says so."""
    with pytest.raises(ResultInvalid, match="no JSON form"):
        content_of(object())


@pytest.mark.parametrize(
    ("annotation", "value", "place"),
    [
        (float, math.nan, "result"),
        (list[float], [1.0, -math.inf], "result[1]"),
        (dict[str, float], {"mean": math.inf}, "[...]"),
        (Item, Item(math.nan), "price"),
        (Item, Item("far"), "price"),  # pyright: ignore[reportArgumentType]
        (Struct, Struct(math.nan), "price"),
        (Typed, {}, "price"),
        (list[Typed], [{}], "result[0].price"),
        (Model, Model(price=math.nan), "price"),
        (Model, Model.model_construct(price="far"), "price"),
        (list[Model], [Model.model_construct()], "result[0].price"),
        (Annotated[float, pydantic.Field(ge=1)], 0.5, "result"),
        (Annotated[int, msgspec.Meta(ge=1)], 0, "result"),
        (int, "seven", "result"),
        (Bits, Bits.R | Bits.W, "result"),
        (list[Bits], [Bits.R | Bits.W], "result[0]"),
        (Literal["a"] | int, "b", "result"),
        (Bounded, Bounded(0), "price"),
        (Item, CallToolResult(content=[], structured_content={"price": "far"}), "price"),
    ],
)
async def test_a_result_that_breaks_its_schema_is_refused(annotation, value, place):
    """2025-11-25 server/tools, "Output Schema": servers MUST provide structured results that conform to it.

    The error names the place, and so does the part of it that clients read.
    """
    made.clear()
    with pytest.raises(ResultInvalid, match="does not fit the output schema") as caught:
        await converter(annotation).checked(value)
    assert caught.value.mismatch.startswith((f'"{place}": ', f'missing "{place}"'))
    assert not made


@pytest.mark.parametrize("number", [float("nan"), float("-inf")])
async def test_a_key_that_is_no_number_in_json_is_refused(number):
    """Text stands for a key, and would be read as this number."""
    place = "tool"
    converter = ResultConverter(place, shape=output_shape(dict[str, dict[float, int]], place), validator=None)
    with pytest.raises(ResultInvalid, match="does not fit the output schema"):
        await converter.checked({"a": {number: 1}})
    assert (await converter.checked({"a": {1.5: 1}})).structured_content is not None


async def test_what_no_schema_calls_a_number_becomes_null():
    """JSON has neither NaN nor infinity; a bare ``dict`` promises nothing about its members."""
    result = await ResultConverter("tool", shape=output_shape(dict, "tool"), validator=None).checked(
        {"mean": math.nan, "most": math.inf}
    )
    assert [msgspec.json.decode(block.text) for block in result.content] == [{"mean": None, "most": None}]


async def test_a_finished_result_needs_the_structure_that_its_tool_declares():
    """The schema is published, so that clients wait for it; a failure has none."""
    with pytest.raises(ResultInvalid, match="no structured content"):
        await converter(Item).checked(CallToolResult(content=[]))
    failed = CallToolResult(content=[], is_error=True)
    assert await converter(Item).checked(failed) is failed


class Unbounded(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_inf_nan="constants")

    price: float


@pytest.mark.parametrize("annotation", [Unbounded, Any])
async def test_a_number_that_is_no_json_is_refused(annotation):
    """The model's configuration writes it as NaN, at which a client's reader would stop."""
    with pytest.raises(ResultInvalid, match="no JSON form"):
        await converter(annotation).checked(Unbounded(price=math.nan))
