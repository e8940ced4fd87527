"""Tools made of functions and of schemas."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from pydantic import Field

from antiphon import Client, Server
from antiphon.errors import ConfigError, ResultInvalid, ToolError
from antiphon.server.context import Context
from antiphon.server.features.tools import ServedTool
from antiphon.server.functions.arguments import ArgumentError
from antiphon.wire.common import Icon
from antiphon.wire.envelope import encode_value
from antiphon.wire.tools import Tool, ToolAnnotations


@dataclass
class Item:
    name: str
    price: float


async def describe(product: str, count: Annotated[int, "own words"] = 1) -> str:
    """Describe a product.

    Args:
        product: Its name.
        count: How many.
    """
    return f"{count} {product}"


def test_a_function_is_listed_with_schema_and_words():
    """Everything from the signature and the docstring."""
    definition = ServedTool.from_function(describe).definition
    assert definition.name == "describe"
    assert definition.description == "Describe a product."
    assert definition.input_schema == {
        "type": "object",
        "properties": {
            "product": {"type": "string", "description": "Its name."},
            "count": {"type": "integer", "description": "own words", "default": 1},
        },
        "required": ["product"],
        "additionalProperties": False,
    }
    assert definition.output_schema is None


def test_options_take_the_place_of_what_was_read():
    """And add what a function cannot say."""
    tool = ServedTool.from_function(
        describe,
        name="shop.describe",
        title="Describe",
        description="Words.",
        annotations=ToolAnnotations(read_only_hint=True),
        icons=[Icon(src="https://example.com/a.png")],
        meta={"a": 1},
        timeout=5,
        requires="sampling",
    )
    definition = tool.definition
    assert (tool.name, tool.timeout, tool.requires) == ("shop.describe", 5, "sampling")
    assert (definition.name, definition.title, definition.description) == ("shop.describe", "Describe", "Words.")
    assert definition.annotations == ToolAnnotations(read_only_hint=True)
    assert (len(definition.icons or ()), definition.meta) == (1, {"a": 1})


async def test_a_call_runs_the_function():
    """JSON in, result out."""
    result = await ServedTool.from_function(describe).call(b'{"product": "sweater", "count": 2}')
    assert (result.text, result.is_error, result.structured_content) == ("2 sweater", False, None)


async def test_a_result_fits_the_listed_output_schema():
    """For a dataclass."""

    async def find(name: str) -> list[Item]:
        return [Item(name, 1.5)]

    tool = ServedTool.from_function(find)
    result = await tool.call(b'{"name": "a"}')
    structured = {"result": [{"name": "a", "price": 1.5}]}
    assert result.text == '[{"name":"a","price":1.5}]'
    assert encode_value(result.structured_content) == encode_value(structured)
    jsonschema_rs.validate(tool.definition.output_schema, structured)


async def test_the_context_is_passed_and_not_listed():
    """To a tool that wants it."""

    async def ask(ctx: Context, text: str) -> str:
        return f"{text} {ctx}"

    tool = ServedTool.from_function(ask)
    assert tool.wants_context
    assert list(tool.definition.input_schema["properties"]) == ["text"]
    assert (await tool.call(b'{"text": "a"}', "context")).text == "a context"
    assert not ServedTool.from_function(describe).wants_context


@pytest.mark.parametrize("inline", [False, True])
async def test_a_plain_function_is_a_tool_too(inline):
    """In a thread, or not."""

    def add(a: int, b: int = 2) -> int:
        return a + b

    tool = ServedTool.from_function(add, inline=inline)
    assert (await tool.call(b'{"a": 1}')).text == "3"


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    async def greet(self, who: str) -> str:
        """Greet somebody."""
        return f"{self.name} greets {who}"

    async def __call__(self, who: str) -> str:
        return await self.greet(who)


@pytest.mark.parametrize(
    ("function", "name"), [(Shop("s").greet, "greet"), (Shop("s"), "Shop"), (partial(Shop("s").greet), "greet")]
)
async def test_methods_objects_and_partials_are_tools(function, name):
    """Whatever can be called by name."""
    tool = ServedTool.from_function(function)
    assert tool.name == name
    assert (await tool.call(b'{"who": "you"}')).text == "s greets you"


async def test_bad_arguments_run_nothing():
    """The error names the argument."""
    ran: list[int] = []

    async def note(count: int) -> None:
        ran.append(count)

    with pytest.raises(ArgumentError, match='argument "count": expected integer, got string'):
        await ServedTool.from_function(note).call(b'{"count": "1"}')
    assert ran == []


@pytest.mark.parametrize("error", [ToolError("out of stock"), KeyError("x")])
async def test_exceptions_pass_through(error):
    """What they become on the wire is the dispatcher's decision."""

    async def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        await ServedTool.from_function(fail).call(b"")


async def test_a_result_that_breaks_the_schema_by_hand_is_an_error():
    """Of the author's."""

    async def find() -> dict[str, int]:
        return {"b": 1}

    tool = ServedTool.from_function(find, output_schema={"type": "object", "required": ["a"]})
    assert tool.definition.output_schema == {"type": "object", "required": ["a"]}
    with pytest.raises(ResultInvalid, match=r'tool "find" .* missing "a"'):
        await tool.call(b"")


async def test_structure_can_be_declined():
    """Text only, and no output schema."""

    async def find() -> dict[str, int]:
        return {"b": 1}

    tool = ServedTool.from_function(find, structured=False)
    result = await tool.call(b"")
    assert (tool.definition.output_schema, result.structured_content, result.text) == (None, None, '{"b":1}')


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "x" * 129, "a\n"])
def test_a_name_outside_of_the_rule_is_refused(name):
    """2025-11-25 server/tools, Tool Names."""

    def function() -> None: ...

    function.__name__ = name
    with pytest.raises(ConfigError, match="cannot be a tool's name; use 1 to 128 letters"):
        ServedTool.from_function(function)


def test_a_capability_that_there_is_not_is_refused():
    """No client could ever call the tool."""

    def function() -> None: ...

    with pytest.raises(ConfigError, match=r"tool 'function': requires= is one of sampling, .*, not 'samplin'"):
        ServedTool.from_function(function, requires="samplin")


@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_bytes_have_to_be_something(kind: type):
    """A client could not tell what they are, so that every call would fail."""

    def picture():
        return b""

    picture.__annotations__["return"] = kind
    with pytest.raises(ConfigError, match="returns bytes: say what they are, by ImageContent"):
        Server("shop").tool(picture)


async def test_a_short_way_leads_to_the_body():
    """At most three of our frames, because every call pays for them."""

    async def depth() -> str:
        frame, count = sys._getframe(1), 0
        while frame is not None and "antiphon" in frame.f_code.co_filename and "tests" not in frame.f_code.co_filename:
            frame, count = frame.f_back, count + 1
        return str(count)

    assert int((await ServedTool.from_function(depth).call(b"")).text) <= 3


# --- raw tools ------------------------------------------------------------------------------------------------------

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "unevaluatedProperties": False,
}


async def show(arguments: dict, ctx: Context) -> str:
    """Show what came."""
    return f"{arguments} {ctx}"


async def test_a_raw_tool_hands_over_a_dict():
    """Validated, and with the context if it wants it."""
    tool = ServedTool.of_definition(Tool(name="shown", input_schema=SCHEMA, description="Words."), show)
    assert tool.wants_context
    assert (await tool.call(b'{"a": 1}', "context")).text == "{'a': 1} context"


def test_a_raw_tool_lists_its_schema_verbatim():
    """Keywords of 2020-12 included."""
    definition = ServedTool.of_definition(
        Tool(name="shown", input_schema=SCHEMA, title="T", output_schema={"type": "object"}), show
    ).definition
    assert definition.input_schema == SCHEMA
    assert definition.output_schema == {"type": "object"}
    assert (definition.name, definition.title) == ("shown", "T")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": "1"}', 'argument "a": "1" is not of type "integer"'),
        (b"{}", 'missing argument "a"'),
        (b'{"a": 1, "b": 2}', "arguments: Unevaluated properties are not allowed"),
        (b"{", "arguments: not JSON"),
        (b"[]", 'arguments: .* is not of type "object"'),
    ],
)
async def test_a_raw_tool_refuses_what_does_not_fit(data, message):
    """Naming the argument."""
    with pytest.raises(ArgumentError, match=message):
        await ServedTool.of_definition(Tool(name="shown", input_schema=SCHEMA), show).call(data)


async def test_a_raw_tool_structures_what_it_returns():
    """By the same rule as others."""
    tool = ServedTool.of_definition(
        Tool(name="given", input_schema={"type": "object"}), lambda arguments: {"a": 1}, inline=True
    )
    result = await tool.call(b"")
    assert (result.text, encode_value(result.structured_content)) == ('{"a":1}', b'{"a":1}')


@pytest.mark.parametrize(
    ("schema", "handler", "problem"),
    [
        ({"type": "string"}, show, 'input schema must say "type": "object"'),
        ({}, show, 'input schema must say "type": "object"'),
        ({"type": "object", "$schema": "urn:own"}, show, "input schema: unknown JSON Schema dialect 'urn:own'"),
        (SCHEMA, lambda: None, r"a handler takes \(arguments\)"),
        (SCHEMA, lambda a, b: None, r"a handler takes \(arguments\)"),
    ],
)
def test_a_raw_tool_that_cannot_work_is_refused(schema, handler, problem):
    """When it is made."""
    with pytest.raises(ConfigError, match=f'tool "shown" .*{problem}'):
        ServedTool.of_definition(Tool(name="shown", input_schema=schema), handler)


def counted(work: Callable[[], object]) -> Counter[str]:
    """Count the calls of functions of ours, by their names, while something is done."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and "/antiphon/" in frame.f_code.co_filename:
            calls[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def functions(count: int) -> list[Callable[..., object]]:
    """Make functions of which no two have the same parameters."""
    made: dict[str, Callable[..., object]] = {}
    for number in range(count):
        exec(f"async def f{number}(sku_{number}: str, limit: int = {number}) -> str: ...", made)
    return [made[f"f{number}"] for number in range(count)]


def test_a_hundred_functions_are_added_without_a_schema_of_each() -> None:
    """With 100,000 tools a server has to start in seconds: a type is looked at once, the rest when it is listed."""
    many = functions(100)
    ServedTool.from_function(many[0])
    calls = counted(lambda: [ServedTool.from_function(function) for function in many])
    assert not calls["input_schema"] + calls["schemas_of"] + calls["_make_decoder"]
    assert calls.total() <= 100 * 42


def test_definitions_are_counted_when_a_value_is_checked_and_not_before() -> None:
    """A schema written by hand is checked and compiled when it is added; what a value costs is asked with the value."""

    async def handler(arguments: dict[str, object]) -> str: ...

    schema = {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
    calls = counted(
        lambda: [
            ServedTool.of_definition(Tool(name=f"t{number}", input_schema=schema), handler) for number in range(100)
        ]
    )
    assert calls["_compile_schema"] == 100
    assert not calls["total"]
    assert calls.total() <= 100 * 40


@pytest.mark.parametrize(
    ("returns", "value", "text"),
    [
        (dict[str, float], {"secret": float("nan")}, '"[...]": expected number, got null'),
        (list[Literal["a"]], ["a", "secret"], '"result[1]": invalid enum value'),
        (dict[str, Annotated[float, Field(ge=0)]], {"secret": -7}, '"*": expected minimum: 0'),
    ],
)
async def test_a_client_learns_the_place_that_breaks_the_schema(returns, value, text, caplog):
    """The value is for the log, unless error_details is on."""

    def make() -> Any:
        return value

    make.__annotations__["return"] = returns
    server = Server("s")
    server.add_tool(make)
    async with Client(server) as client:
        result = await client.call_tool("make", {})
    assert result.is_error
    assert result.text == f"make failed: its result does not fit its output schema: {text}"
    assert "does not fit" in caplog.text
