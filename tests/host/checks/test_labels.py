"""Labels of tools, and the rule about all three."""

from __future__ import annotations

import pytest

from antiphon.host.checks.labels import LabelRule, claim_labels, find_labels, list_links, meets_all
from antiphon.wire.content import ImageContent, TextContent
from antiphon.wire.tools import CallToolResult, Tool, ToolAnnotations
from tests.host.asks import origin

ALL = frozenset({"private", "untrusted", "outbound"})


def tool(**hints: bool) -> Tool:
    """Make a tool with these hints."""
    return Tool(name="t", input_schema={}, annotations=ToolAnnotations(**hints) if hints else None)


@pytest.mark.parametrize(
    ("made", "labels"),
    [
        (None, ALL),
        (tool(), ALL),
        (tool(read_only_hint=True), ALL),
        (tool(open_world_hint=False), {"private"}),
        (tool(open_world_hint=True), {"untrusted", "outbound"}),
    ],
)
def test_labels_follow_from_the_annotations(made: Tool | None, labels: set[str]):
    """A server that does not say how far its tool reaches gets all three."""
    assert claim_labels(made) == labels


def test_a_rule_outranks_a_person_who_outranks_the_server():
    """Of the rules, the first that covers the tool counts."""
    rules = (LabelRule(labels=("private",), name="read_*"), LabelRule(labels=("outbound",)))
    assert find_labels(rules, "read_a", origin(), ("untrusted",)) == {"private"}
    assert find_labels(rules, "send", origin(), ()) == {"outbound"}
    assert find_labels((), "send", origin(), ("untrusted",)) == {"untrusted"}


@pytest.mark.parametrize(
    ("labels", "flowed", "meets"),
    [
        ({"outbound"}, {"private", "untrusted"}, True),
        ({"outbound"}, {"private"}, False),
        ({"untrusted", "outbound"}, {"private"}, False),
        ({"private"}, {"private", "untrusted"}, False),
        (ALL, set(), True),
    ],
)
def test_all_three_must_meet(labels: set[str], flowed: set[str], meets: bool):
    """What a call itself would bring arrives after it has sent, unless it can do all of it alone."""
    assert meets_all(frozenset(labels), frozenset(flowed)) is meets


@pytest.mark.parametrize(
    ("text", "links"),
    [
        (
            "See https://example.com/a, and (http://b.example/?x=1#y).",
            ["https://example.com/a", "http://b.example/?x=1#y"],
        ),
        ("www.example.com!", ["www.example.com"]),
        ('<a href="https://example.com/%20">', ["https://example.com/%20"]),
        ("example.com, ftp://example.com and mail@example.com", []),
        ("https://", []),
        ("http://a.example\u200b/b", ["http://a.example"]),
        (" " * 100_000 + "https://example.com", []),
    ],
)
def test_addresses_are_found_as_people_write_them(text: str, links: list[str]):
    """Without what follows them in a sentence."""
    blocks = [ImageContent(data="", mime_type="image/png"), TextContent(text=text)]
    assert list(list_links(CallToolResult(content=blocks))) == links
