"""Arguments that a tool wants mirrored into HTTP headers, learnt from its definition."""

from __future__ import annotations

import pytest

from antiphon.client.features.mirrored_headers import ToolHeaders
from antiphon.wire.tools import Tool


def tool(name: str, header: str, kind: str = "string") -> Tool:
    """Make a tool whose argument ``region`` travels in a header."""
    schema = {"type": "object", "properties": {"region": {"type": kind, "x-mcp-header": header}}}
    return Tool(name=name, input_schema=schema)


def test_a_tool_that_was_listed_gets_its_headers() -> None:
    """From the arguments as they are sent."""
    headers = ToolHeaders()
    assert headers.learn([tool("query", "Region")]) == [tool("query", "Region")]
    assert headers.of("query", b'{"region":"eu"}') == {"Mcp-Param-Region": "eu"}


@pytest.mark.parametrize("arguments", [b"", b"{}", b"[]", b'{"region":null}'])
def test_an_argument_that_is_not_there_has_no_header(arguments: bytes) -> None:
    """Nor has one that is null."""
    headers = ToolHeaders()
    headers.learn([tool("query", "Region")])
    assert headers.of("query", arguments) == {}


def test_an_unknown_tool_has_no_headers() -> None:
    """It is called as it is."""
    assert ToolHeaders().of("query", b'{"region":"eu"}') == {}


@pytest.mark.parametrize(("header", "kind"), [("", "string"), ("a b", "string"), ("Region", "object")])
def test_a_tool_with_an_invalid_annotation_is_left_out(
    header: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says why."""
    good = tool("good", "Region")
    assert ToolHeaders().learn([tool("bad", header, kind), good]) == [good]
    assert "'bad' cannot be used over HTTP" in caplog.text
