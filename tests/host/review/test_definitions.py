"""The definitions of tools as they were allowed."""

from __future__ import annotations

from msgspec import structs

from antiphon.host.review.definitions import MAX_KEPT, Digests, changes_of, row_of
from antiphon.wire.tools import Tool
from tests.host.asks import origin

TOOL = Tool(name="order", input_schema={"type": "object"}, description="Order something\nOf the shop")


async def hashed(tool: Tool) -> str | None:
    """Return the hash of a definition."""
    return await Digests().of(origin().identity, tool)


async def test_the_order_of_members_does_not_matter():
    """A server may encode the same schema differently each time."""
    one, two = ({"type": "object", "properties": {}}, {"properties": {}, "type": "object"})
    assert await hashed(structs.replace(TOOL, input_schema=one)) == await hashed(
        structs.replace(TOOL, input_schema=two)
    )


async def test_a_large_definition_is_hashed_the_same_aside():
    """In a side process, because it would hold the event loop; its text is not kept."""
    large = structs.replace(TOOL, description="x" * MAX_KEPT)
    found = await hashed(large)
    assert found is not None
    assert found == await hashed(structs.replace(large, icons=()))
    row = row_of(structs.replace(origin(), tool=large), large, found)
    assert row.body == ""
    assert changes_of(row.body, TOOL) is None


async def test_changes_are_shown_line_by_line():
    """Of a long description the lines that differ, and of schemas, too."""
    body = row_of(origin(), TOOL, "").body
    lines = changes_of(body, structs.replace(TOOL, description="Order something\nOf any shop"))
    assert lines is not None
    assert [(line.sign, line.text) for line in lines if line.sign != " "] == [
        ("-", "    Of the shop"),
        ("+", "    Of any shop"),
    ]
    gone = changes_of(body, None)
    assert gone is not None
    assert {line.sign for line in gone} == {"-"}
