"""What is learnt of a server's tools: by what results are checked, what may be repeated, what travels in headers."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon import Client
from antiphon.client import known_tools
from antiphon.client.known_tools import KnownTools
from antiphon.errors import ResultInvalid, TooCostly
from antiphon.wire.tools import Tool, ToolAnnotations
from tests.support import hostile

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Listing:
    """A server's list of tools, that counts how often it is read."""

    def __init__(self, known: KnownTools, **schemas: dict[str, Any] | None) -> None:
        self.reads = 0
        self.known = known
        self.tools = [Tool(name=name, input_schema={}, output_schema=schema) for name, schema in schemas.items()]

    async def __call__(self) -> AsyncIterator[Tool]:
        self.reads += 1
        self.known.learn(self.tools)
        for tool in self.tools:
            yield tool


async def check(known: KnownTools, name: str, content: Any, tools: Listing) -> None:
    """Check what a tool returned, as it is done after a call."""
    await known.look_up(name, tools)
    await known.check_output(name, content)


async def test_content_that_fits_passes() -> None:
    """The tools are listed once, when the first structured result comes."""
    known = KnownTools()
    listing = Listing(known, count=NUMBER)
    await check(known, "count", {"n": 1}, listing)
    await check(known, "count", {"n": 2}, listing)
    assert listing.reads == 1


async def test_content_that_does_not_fit_is_refused_with_the_place() -> None:
    """The message names tool and member."""
    known = KnownTools()
    with pytest.raises(ResultInvalid, match=r"'count' does not fit its output schema: .*n"):
        await check(known, "count", {"n": "one"}, Listing(known, count=NUMBER))


async def test_a_tool_without_a_schema_may_return_anything() -> None:
    """As may one that is not listed at all; neither makes us list again and again."""
    known = KnownTools()
    listing = Listing(known, free=None)
    await check(known, "free", ["anything"], listing)
    await check(known, "unlisted", 1, listing)
    await check(known, "unlisted", 1, listing)
    assert listing.reads == 1


@pytest.mark.parametrize(
    "hostile",
    [
        {"type": "object", "$ref": "http://169.254.169.254/latest/meta-data"},
        {"type": "object", "$ref": "file:///etc/passwd"},
        {"type": "object", "$schema": "https://example.com/own-dialect"},
        {"type": 12},
        {"type": "object", "properties": {str(n): {} for n in range(20_000)}},
    ],
)
async def test_a_schema_that_cannot_be_used_checks_nothing(hostile: dict[str, Any]) -> None:
    """It is not fetched, not compiled, and costs the result nothing."""
    known = KnownTools()
    listing = Listing(known, t=hostile)
    await check(known, "t", {"x": 1}, listing)
    assert listing.reads == 1


async def test_a_schema_that_expands_without_end_is_refused() -> None:
    """The structured content is not used, the error says why, and the client goes on with the same server."""
    target = [sys.executable, hostile.__file__]
    async with Client(target, revision="2026-07-28", timeout=30) as client:
        with pytest.raises(TooCostly, match=r"structured content of 'bomb' cannot be checked by its output schema: "):
            await client.call_tool("bomb")
        assert (await client.call_tool("ok")).text == "done"


async def test_changed_tools_are_listed_again() -> None:
    """After a notification the old promise is void."""
    known = KnownTools()
    await check(known, "count", {"n": 1}, Listing(known, count=NUMBER))
    known.forget()
    again = Listing(known, count=None)
    await check(known, "count", {"n": "one"}, again)
    assert again.reads == 1


def tool(**hints: Any) -> Tool:
    """Make a tool with these hints."""
    return Tool(name="t", input_schema={"type": "object"}, annotations=ToolAnnotations(**hints) if hints else None)


@pytest.mark.parametrize(
    ("hints", "may"),
    [
        ({}, False),
        ({"read_only_hint": True}, True),
        ({"idempotent_hint": True}, True),
        ({"read_only_hint": False}, False),
        ({"destructive_hint": False}, False),
    ],
)
def test_a_tool_may_be_called_twice_if_it_says_so(hints: dict[str, bool], may: bool) -> None:
    """And as long as its list says so."""
    known = KnownTools()
    assert not known.is_repeatable("t")
    known.learn([tool(**hints)])
    assert known.is_repeatable("t") is may
    known.learn([tool()])
    assert not known.is_repeatable("t")
    known.learn([tool(read_only_hint=True)])
    known.forget()
    assert not known.is_repeatable("t")


def test_the_tools_that_are_remembered_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may have any number of them."""
    monkeypatch.setattr(known_tools, "MAX_TOOLS", 1)
    known = KnownTools()
    for name in "ab":
        hints = ToolAnnotations(read_only_hint=True)
        known.learn([Tool(name=name, input_schema={}, annotations=hints)])
    assert known.is_repeatable("a")
    assert not known.is_repeatable("b")


def mirroring(name: str, header: str, kind: str = "string") -> Tool:
    """Make a tool whose argument ``region`` travels in a header."""
    schema = {"type": "object", "properties": {"region": {"type": kind, "x-mcp-header": header}}}
    return Tool(name=name, input_schema=schema)


def test_a_tool_that_was_listed_gets_its_headers() -> None:
    """From the arguments as they are sent."""
    known = KnownTools()
    assert known.learn([mirroring("query", "Region")], have_headers=True) == [mirroring("query", "Region")]
    assert known.headers("query", b'{"region":"eu"}') == {"Mcp-Param-Region": "eu"}


@pytest.mark.parametrize("arguments", [b"", b"{}", b"[]", b'{"region":null}'])
def test_an_argument_that_is_not_there_has_no_header(arguments: bytes) -> None:
    """Nor has one that is null."""
    known = KnownTools()
    known.learn([mirroring("query", "Region")], have_headers=True)
    assert known.headers("query", arguments) == {}


def test_an_unknown_tool_has_no_headers() -> None:
    """It is called as it is."""
    assert KnownTools().headers("query", b'{"region":"eu"}') == {}


@pytest.mark.parametrize(("header", "kind"), [("", "string"), ("a b", "string"), ("Region", "object")])
def test_a_tool_with_an_invalid_annotation_is_left_out(
    header: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says why."""
    good = mirroring("good", "Region")
    assert KnownTools().learn([mirroring("bad", header, kind), good], have_headers=True) == [good]
    assert "'bad' cannot be used over HTTP" in caplog.text
