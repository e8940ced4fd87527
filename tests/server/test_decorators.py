"""What a server offers: decorators, what they return, and what is declared of them."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon import Client, ConfigError, Server, Tool
from antiphon.server.features.checked_options import AccessOptions
from antiphon.server.features.tools import ServedTool, ToolOptions

ANY = Tool(name="t", input_schema={"type": "object"})


def test_a_decorator_returns_the_function() -> None:
    """With parentheses or without, it can still be called."""
    server = Server("s")

    def one() -> str:
        return "one"

    assert server.tool(one) is one
    assert server.tool(name="again")(one) is one
    assert server.prompt(one) is one
    assert server.prompt(name="again")(one) is one
    assert server.resource("s://one")(one) is one
    assert server.tools.names() == server.prompts.names() == ["one", "again"]


def test_a_completer_is_returned_too() -> None:
    """It belongs to a prompt's argument."""
    server = Server("s")

    @server.prompt
    def brief(topic: str) -> str:
        return topic

    def topics(value: str) -> list[str]:
        return [value]

    assert server.complete("brief", "topic")(topics) is topics
    assert len(server._completions) == 1


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])
def test_a_name_is_taken_once(kind: str) -> None:
    """The second one is a mistake, and is told when it is made."""
    server = Server("s")

    def one() -> str:
        return "one"

    def family(gap: str) -> str:
        return gap

    add: dict[str, Any] = {
        "tool": lambda: server.tool(one),
        "prompt": lambda: server.prompt(one),
        "resource": lambda: server.resource("s://one")(one),
        "template": lambda: server.resource("s://{gap}")(family),
    }
    add[kind]()
    with pytest.raises(ConfigError, match="is there already"):
        add[kind]()


def test_a_template_has_no_size() -> None:
    """Its members differ."""
    with pytest.raises(ConfigError, match="leave size= out"):
        Server("s").resource("s://{gap}", size=3)(lambda gap: gap)


def test_a_tool_may_be_made_elsewhere() -> None:
    """``add_tool`` is what the decorator does."""
    server = Server("s")
    server.add_tool(ServedTool.from_function(lambda: "x", name="made"))
    assert server.tools.names() == ["made"]


def test_an_empty_server_offers_nothing() -> None:
    """But it can log."""
    offered = Server("s")._service.core.capabilities()
    assert (offered.tools, offered.prompts, offered.resources, offered.completions) == (None, None, None, None)
    assert offered.logging == {}


def test_capabilities_follow_what_was_added() -> None:
    """A template alone makes resources."""
    server = Server("s")
    server.tool(name="t")(lambda: "x")
    assert server._service.core.capabilities().tools is not None
    assert server._service.core.capabilities().resources is None
    server.resource("s://{gap}")(lambda gap: gap)
    assert server._service.core.capabilities().resources is not None
    assert server._service.core.capabilities().prompts is None


async def test_a_resource_is_read_before_a_template() -> None:
    """A fixed URI wins over a gap that would fit."""
    server = Server("s")
    server.resource("s://{gap}")(lambda gap: f"any {gap}")
    server.resource("s://hat")(lambda: "the hat")
    async with Client(server) as client:
        hat, cap = await client.read_resource("s://hat"), await client.read_resource("s://cap")
    assert [result.contents[0].text for result in (hat, cap)] == ["the hat", "any cap"]


async def test_a_definition_is_added_with_its_handler() -> None:
    """Listed as it is, and its arguments are checked against its schema."""
    server = Server("s")
    schema = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    definition = Tool(name="square", description="Square.", input_schema=schema)
    server.add_tool(definition, lambda arguments: str(arguments["x"] ** 2))
    async with Client(server) as client:
        assert (await client.list_tools()).tools == [definition]
        assert (await client.call_tool("square", {"x": 3})).text == "9"
        assert (await client.call_tool("square", {"x": "3"})).is_error


def test_a_function_is_added_without_a_decorator() -> None:
    """With the options of one."""
    server = Server("s")
    server.add_tool(lambda: "x", name="t", title="T")
    server.add_prompt(lambda: "x", name="p")
    server.add_resource("shop://motto", "Buy.")
    server.add_resource("shop://{item}", lambda item: item, name="item")
    assert [t.definition.title for t in server.tools] == ["T"]
    assert (server.prompts.names(), server.resources.names()) == (["p"], ["shop://motto"])
    assert server.templates.names() == ["shop://{item}"]


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (
            (Tool(name="t", input_schema={"type": "object"}),),
            {},
            r"needs its handler: server.add_tool\(tool, handler\)",
        ),
        ((Tool(name="t", input_schema={"type": "object"}), str), {"title": "T"}, "says this itself: leave out title"),
        ((str, str), {}, "takes no handler"),
    ],
)
def test_what_add_tool_cannot_use_is_said(arguments: tuple[Any, ...], options: dict[str, Any], words: str) -> None:
    """With the remedy."""
    with pytest.raises(ConfigError, match=words):
        Server("s").add_tool(*arguments, **options)


def test_every_option_that_a_definition_has_is_refused_beside_it() -> None:
    """All but those that no definition has a member for."""
    beside = {"confirm", "inline", "once", "requires", "task", "timeout", *AccessOptions.__annotations__}
    for option in set(ToolOptions.__annotations__) - beside:
        options: dict[str, Any] = {option: None}
        with pytest.raises(ConfigError, match=f"says this itself: leave out {option}"):
            Server("s").add_tool(ANY, str, **options)
