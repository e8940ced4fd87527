from __future__ import annotations

from antiphon.cli.commands.read import format_signature
from antiphon.wire.tools import Tool
from tests.cli.conftest import Cli
from tests.cli.program import SERVERS, SHOP, at_terminal, ended


def test_tools_are_listed_with_their_arguments(shop: Cli):
    """A tool a line."""
    done = shop("tools", SHOP)
    assert done.code == 0
    assert done.out.splitlines()[0] == (
        "price\tproduct: string, pieces: integer, discount?: number, express?: boolean\tCompute a price."
    )


def test_tools_are_printed_as_json(shop: Cli):
    """Whole, a tool a line."""
    tools = shop("tools", SHOP, "--json").objects
    assert tools[0]["name"] == "price"
    assert tools[0]["inputSchema"]["required"] == ["product", "pieces"]


def test_on_a_terminal_they_are_a_table():
    """And nothing of the server's commands it."""
    child = at_terminal("tools", str(SERVERS / "hostile.py"), NO_COLOR="1")
    assert ended(child) == 0
    printed = child.before or ""
    assert "description" in printed
    assert "⟦U+001B⟧" in printed
    assert "\x1b]0;" not in printed
    assert "\u202e" not in printed


def test_schemas_of_any_shape_have_a_signature():
    """A server may write what it likes."""
    schema = {"properties": {"a": {"type": ["string", "null"]}, "b": True, "c": {}}, "required": ["a"]}
    assert format_signature(Tool(name="t", input_schema=schema)) == "a: string or null, b?: any, c?: any"
    assert format_signature(Tool(name="t", input_schema={"properties": 3, "required": 4})) == ""


def test_an_optional_argument_has_the_type_of_its_choices():
    """A parameter ``str | None`` is written ``anyOf``, by this library as by others."""
    choices = {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "b": {"anyOf": 5}, "c": {"anyOf": [7, {}]}}
    listed = format_signature(Tool(name="t", input_schema={"properties": choices}))
    assert listed == "a?: string or null, b?: any, c?: any or any"


def test_resources_and_templates_are_listed(shop: Cli):
    """One below the other."""
    assert shop("resources", SHOP).out.splitlines() == [
        "shop://list\ttext/plain\tlisting\tWhat there is.",
        "shop://logo\timage/png\tlogo\tA picture.",
        "shop://{product}/label\ttext/plain\tlabel\tOne label.",
    ]


def test_resources_are_printed_as_json(shop: Cli):
    """Each as the server describes it."""
    printed = shop("resources", SHOP, "--json").objects
    assert [one.get("uri") or one["uriTemplate"] for one in printed][-1] == "shop://{product}/label"


def test_a_server_without_resources_says_so(cli: Cli):
    """By a named error, since it does not offer them."""
    done = cli("resources", str(SERVERS / "hostile.py"))
    assert done.code == 1
    assert "resources/list" in done.err


def test_prompts_are_listed_with_their_arguments(shop: Cli):
    """Optional ones with a question mark."""
    assert shop("prompts", SHOP).out.splitlines()[0] == "sell\tproduct, mood?\tSell a product."


def test_prompts_are_printed_as_json(shop: Cli):
    """Whole."""
    prompt, _ = shop("prompts", SHOP, "--json").objects
    assert [argument["name"] for argument in prompt["arguments"]] == ["product", "mood"]
