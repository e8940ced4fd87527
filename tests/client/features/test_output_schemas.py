"""Structured content is checked against what the tool has promised."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon import Client
from antiphon.client.features.output_schemas import Outputs
from antiphon.errors import ResultInvalid, TooCostly
from antiphon.wire.tools import Tool
from tests.support import hostile

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Listing:
    """A server's list of tools, that counts how often it is read."""

    def __init__(self, outputs: Outputs, **schemas: dict[str, Any] | None) -> None:
        self.reads = 0
        self.outputs = outputs
        self.tools = [Tool(name=name, input_schema={}, output_schema=schema) for name, schema in schemas.items()]

    async def __call__(self) -> AsyncIterator[Tool]:
        self.reads += 1
        self.outputs.learn(self.tools)
        for tool in self.tools:
            yield tool


async def test_content_that_fits_passes() -> None:
    """The tools are listed once, when the first structured result comes."""
    outputs = Outputs()
    listing = Listing(outputs, count=NUMBER)
    await outputs.check("count", {"n": 1}, listing)
    await outputs.check("count", {"n": 2}, listing)
    assert listing.reads == 1


async def test_content_that_does_not_fit_is_refused_with_the_place() -> None:
    """The message names tool and member."""
    outputs = Outputs()
    with pytest.raises(ResultInvalid, match=r"'count' does not fit its output schema: .*n"):
        await outputs.check("count", {"n": "one"}, Listing(outputs, count=NUMBER))


async def test_a_tool_without_a_schema_may_return_anything() -> None:
    """As may one that is not listed at all; neither makes us list again and again."""
    outputs = Outputs()
    listing = Listing(outputs, free=None)
    await outputs.check("free", ["anything"], listing)
    await outputs.check("unlisted", 1, listing)
    await outputs.check("unlisted", 1, listing)
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
    outputs = Outputs()
    listing = Listing(outputs, t=hostile)
    await outputs.check("t", {"x": 1}, listing)
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
    outputs = Outputs()
    await outputs.check("count", {"n": 1}, Listing(outputs, count=NUMBER))
    outputs.forget()
    again = Listing(outputs, count=None)
    await outputs.check("count", {"n": "one"}, again)
    assert again.reads == 1
