"""What a model gets of the results of tools, and what it is told of failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from antiphon import Client, Server
from antiphon.errors import CallTimeout, ConfigError, MethodNotFound, Rejected
from antiphon.host.agent_run.offered_tools import (
    OfferedTool,
    call_tool,
    describe_failure,
    fit_for_model,
    offer_tools,
    refusal_of,
)
from antiphon.types import AudioContent, CallToolResult, EmbeddedResource, ImageContent, ResourceContents, TextContent
from antiphon.wire.content import UnknownContent
from antiphon.wire.origin import ChangedCall, Origin
from antiphon.wire.tools import CallToolRequestParams, Tool

PNG = b"\x89PNG\r\n\x1a\n"


def test_content_that_models_cannot_read_is_named():
    """A binary resource and an unknown kind; an image among the resources is an image."""
    blocks = [
        EmbeddedResource(resource=ResourceContents.of("file:///a.zip", b"123456", "application/zip")),
        EmbeddedResource(resource=ResourceContents.of("file:///a.png", PNG, "image/png")),
        EmbeddedResource(resource=ResourceContents.of("file:///a.txt", "text")),
        UnknownContent("hologram", {}),
    ]
    fit = fit_for_model(CallToolResult(content=blocks)).content
    assert fit[0] == TextContent(text="[resource file:///a.zip: application/zip, 6 bytes]")
    assert fit[1] == ImageContent.of(PNG, "image/png")
    assert fit[2] == blocks[2]
    assert fit[3] == TextContent(text="[content of the unknown kind 'hologram']")


def test_a_refusal_says_why_and_what_the_person_wants_to_tell():
    """Only data that has the form of ours is read: a server may send the same error."""
    refused = Rejected("Refused", data={"reason": "user", "note": "ask for less"})
    assert describe_failure(refused).text == "Refused: ask for less"
    assert refusal_of(refused) == "user"
    assert [refusal_of(Rejected("x", data=data)) for data in (None, ["reason"], {"reason": 7})] == [None] * 3
    assert refusal_of(CallTimeout("late")) is None


def test_a_mistake_of_the_program_is_raised():
    """A model cannot mend it."""
    with pytest.raises(ConfigError):
        describe_failure(ConfigError("no"))


class PlainSource:
    """Tools without a server: ``call_tool`` gives the arguments back."""

    async def tools(self) -> AsyncIterator[Tool]:
        """List the tool."""
        yield Tool(name="say", input_schema={"oneOf": [{}], "required": None})

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Return the arguments."""
        return CallToolResult(content=[TextContent(text=str(arguments["word"]))])


class Changing:
    """Wants something else in place of each call."""

    def __init__(self, changed: ChangedCall) -> None:
        self._changed = changed

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> ChangedCall:
        """Return it."""
        return self._changed

    async def examine(self, result: CallToolResult, params: CallToolRequestParams, origin: Origin) -> CallToolResult:
        """Pass it on."""
        return result


async def test_what_a_person_wants_in_place_of_a_call_of_a_plain_source():
    """The changed call is made, and the model is told; an answer by hand calls nothing."""
    offered = OfferedTool(name="say", tool=Tool(name="say", input_schema={}), source=PlainSource())
    changed = ChangedCall(params=CallToolRequestParams.of("say", {"word": "two"}), note="A person changed it.")
    result = await call_tool(offered, {"word": "one"}, Changing(changed))
    assert [block.text for block in result.content if isinstance(block, TextContent)] == ["two", "A person changed it."]
    by_hand = ChangedCall(result=CallToolResult(content=[TextContent(text="mine")]))
    assert (await call_tool(offered, {}, Changing(by_hand))).text == "mine"


def test_a_result_of_very_many_blocks_becomes_few():
    """A request to the model has room for 1,000: a hostile server must not end the run."""
    many = [TextContent(text="x" * (number % 2)) for number in range(5_000)]
    fit = fit_for_model(CallToolResult(content=many)).content
    assert (len(fit), fit[-1]) == (101, TextContent(text="[left out: 4,900 more blocks]"))


@pytest.mark.parametrize(
    ("data", "kind", "problem"),
    [
        ("@@", "image/png", "not valid base64"),
        ("PHN2Zy8+", "image/svg+xml", "not in an accepted format"),
        ("PHN2Zy8+", "audio/wav", "not in an accepted format"),
        ("R0lGODlh", "image/png", "another type"),
    ],
)
def test_media_that_a_host_refuses_are_named(data, kind, problem):
    """In the next request they would end the run."""
    block = (AudioContent if kind.startswith("audio") else ImageContent)(data=data, mime_type=kind)
    [fit] = fit_for_model(CallToolResult(content=[block])).content
    assert isinstance(fit, TextContent)
    assert problem in fit.text


@pytest.mark.parametrize("content", [[], [TextContent(text="ok")]])
def test_structured_content_is_bounded_as_blocks_are(content):
    """What is too long or too deep for a request is left out; a model reads its beginning, or that it is missing."""
    deep: list[Any] = []
    for _ in range(70):
        deep = [deep]
    for structured in ({"x": "y" * 1_000}, {"x": deep}):
        fit = fit_for_model(CallToolResult(content=content, structured_content=structured), 500)
        assert fit.structured_content is None
        last = fit.content[-1]
        assert isinstance(last, TextContent)
        assert "left out: structured content" in last.text if content else last.text.startswith('{"x":')
    small = CallToolResult(content=content, structured_content={"x": 1})
    assert fit_for_model(small, 500).structured_content == {"x": 1}


async def test_a_model_is_offered_a_schema_that_its_vendor_takes():
    """Vendors refuse the whole request for one tool whose parameters are no object."""
    offered = await offer_tools([PlainSource()])
    assert offered["say"].tool.input_schema == {"oneOf": [{}], "type": "object"}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_server_without_tools_costs_the_others_nothing(revision: str):
    """One that has only prompts may stand beside others; alone, its error says that there are no tools."""
    shop, desk = Server("shop"), Server("desk")
    shop.tool(lambda: "3", name="price")
    desk.prompt(lambda: "Hello", name="greeting")
    async with Client(desk, revision=revision) as one, Client(shop, revision=revision) as other:
        assert list(await offer_tools([one, other])) == ["price"]
        with pytest.raises(MethodNotFound, match="does not offer tools"):
            await offer_tools([one])
