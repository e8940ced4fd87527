from __future__ import annotations

import pytest

from antiphon.cli.commands.doctor.command import examine_server, find_oddities
from antiphon.cli.commands.doctor.local import DoctorFinding
from antiphon.cli.options import Reach
from antiphon.wire.tools import Tool
from tests.cli.program import SERVERS, SHOP

FINE = {"type": "object", "properties": {}}


def tool(name: str = "t", description: str | None = "Does it.", schema: dict | None = None) -> Tool:
    """Make a tool with nothing odd about it but what is given."""
    return Tool(name=name, description=description, input_schema=FINE if schema is None else schema)


async def findings(target: str, **options: str) -> dict[str, DoctorFinding]:
    """Examine a server; return what is found by its subject."""
    found: list[DoctorFinding] = []
    await examine_server(target, Reach(**options), found.append)
    return {finding.subject: finding for finding in found}


async def test_a_good_server_has_nothing_odd():
    """It says what it is, what it offers, and how fast it answers."""
    found = await findings(SHOP)
    assert {finding.kind for finding in found.values()} == {"ok"}
    assert found["server"].text == "The shop 1.2"
    assert found["revision"].text == "2026-07-28 (modern)"
    assert "prompts" in found["offers"].text
    assert found["resources"].text == "2, and 1 templates"
    assert found["round trip"].text.endswith("ms (median of 5)")


async def test_an_older_revision_is_named():
    """With its era."""
    found = await findings(SHOP, revision="2025-03-26")
    assert found["revision"].text == "2025-03-26 (legacy: with a handshake)"


async def test_noise_among_the_messages_is_odd():
    """A banner on standard output is."""
    assert (await findings(str(SERVERS / "noisy.py")))["stdout"].kind == "odd"


async def test_hidden_characters_are_odd():
    """In instructions and descriptions."""
    found = await findings(str(SERVERS / "hostile.py"))
    assert found["instructions"].kind == found["tool tell"].kind == "odd"
    assert found["tool plain"].text == "has no description: a model cannot know what it is for"


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        (tool(name="two words"), "its name is not allowed by the specification"),
        (tool(description=None), "has no description"),
        (tool(description="x" * 4001), "its description has 4001 characters"),
        (tool(description="a\u202eb"), "its description contains invisible characters: 1 bidi"),
        (tool(schema={"type": "string"}), "its input schema is of type 'string', not object"),
        (tool(schema={"type": "object", "required": ["a"]}), "its input schema requires what it does not describe: a"),
        (tool(schema={"type": "object", "required": 1, "properties": 2}), ""),
    ],
)
def test_odd_tools_are_found(odd: Tool, text: str):
    """Each by what is odd."""
    assert [finding.text[: len(text)] for finding in find_oddities([odd])] == ([text] if text else [])


def test_odd_lists_are_found():
    """A name twice, and more than a model can choose from."""
    assert [finding.text for finding in find_oddities([tool(), tool()])] == ["is listed 2 times"]
    many = [tool(name=f"t{number}") for number in range(101)]
    assert [finding.subject for finding in find_oddities(many)] == ["tools"]
