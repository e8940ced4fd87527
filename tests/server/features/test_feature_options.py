"""What an author says beside a function arrives where clients read it."""

from __future__ import annotations

from typing import Any

from antiphon import Annotations, Icon, Server, ToolAnnotations
from tests.support.raw_client import raw_client

ICON = Icon(src="https://example.org/i.png")


async def listed(server: Server, method: str, member: str) -> dict[str, Any]:
    """Return the one entry of a list."""
    async with raw_client(server) as client:
        (entry,) = (await client.reply(client.modern(method)))["result"][member]
    return entry


async def test_the_options_of_a_tool_are_listed() -> None:
    """As far as they are a client's business."""
    server = Server("s")
    server.tool(
        name="n", title="t", description="d", annotations=ToolAnnotations(read_only_hint=True), icons=[ICON],
        meta={"x.y/z": 1}, timeout=3, structured=False, inline=True,
    )(lambda: "x")  # fmt: skip
    entry = await listed(server, "tools/list", "tools")
    assert (entry["name"], entry["title"], entry["description"]) == ("n", "t", "d")
    assert entry["annotations"] == {"readOnlyHint": True}
    assert entry["icons"] == [{"src": "https://example.org/i.png"}]
    assert entry["_meta"] == {"x.y/z": 1}
    assert "timeout" not in entry


async def test_an_output_schema_replaces_the_annotation() -> None:
    """And is listed as it is."""
    server, schema = Server("s"), {"type": "object", "properties": {"a": {"type": "integer"}}}
    server.tool(name="n", output_schema=schema)(lambda: {"a": 1})
    assert (await listed(server, "tools/list", "tools"))["outputSchema"] == schema


async def test_the_options_of_a_resource_are_listed() -> None:
    """Size and audience too."""
    server = Server("s")
    server.resource(
        "s://r", name="n", title="t", description="d", mime_type="text/csv", size=9, icons=[ICON],
        annotations=Annotations(priority=0.5), meta={"x.y/z": 1},
    )(lambda: "x")  # fmt: skip
    entry = await listed(server, "resources/list", "resources")
    assert (entry["uri"], entry["mimeType"], entry["size"]) == ("s://r", "text/csv", 9)
    assert entry["annotations"] == {"priority": 0.5}
    assert (entry["name"], entry["title"], entry["description"], entry["_meta"]) == ("n", "t", "d", {"x.y/z": 1})


async def test_the_options_of_a_template_are_listed() -> None:
    """The same, but for the size."""
    server = Server("s")
    server.resource("s://{gap}", name="n", title="t", mime_type="text/csv")(lambda gap: gap)
    entry = await listed(server, "resources/templates/list", "resourceTemplates")
    assert (entry["uriTemplate"], entry["name"], entry["title"], entry["mimeType"]) == (
        "s://{gap}",
        "n",
        "t",
        "text/csv",
    )


async def test_the_options_of_a_prompt_are_listed() -> None:
    """Name, title, description and icons."""
    server = Server("s")
    server.prompt(name="n", title="t", description="d", icons=[ICON])(lambda: "x")
    entry = await listed(server, "prompts/list", "prompts")
    assert (entry["name"], entry["title"], entry["description"], len(entry["icons"])) == ("n", "t", "d", 1)
