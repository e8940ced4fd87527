"""The server the official conformance suite is run against: one feature for each thing it looks for.

``python tests/conformance/server.py --port N`` serves http://127.0.0.1:N/mcp, all revisions at one address. With
``REPLICAS_ENGINE`` and ``REPLICAS_FOLDER`` in the environment it is one of several replicas. What asks the client back
is in ``asking``, what works as a task in ``working``, what is only a schema in ``schemas``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
import zlib
from pathlib import Path
from typing import Any

from asking import add_asking
from schemas import DIALECT_2020_12, REGION_HEADER
from working import add_working

from antiphon import AudioContent, Context, EmbeddedResource, ImageContent, Server, TextContent, ToolError
from antiphon.server import Cluster, PostgresCluster, RedisCluster, SqlTaskStore, TaskOptions
from antiphon.server.features.tools import ServedTool
from antiphon.types import Tool
from antiphon.wire.content import ResourceContents


def _png() -> bytes:
    """Make the smallest picture: one red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


PNG = _png()
# One sample of silence, mono, 8 bit, 8 kHz.
WAV = (
    b"RIFF"
    + struct.pack("<I4s4sIHHIIHH4sI", 38, b"WAVE", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8, b"data", 1)
    + b"\x80\x00"
)

IS_REPLICA = "REPLICAS_ENGINE" in os.environ


def _shared() -> dict[str, Any]:
    """Return what replicas share, if this is one: keys, sessions, and tasks."""
    if not IS_REPLICA:
        return {}
    engine = os.environ["REPLICAS_ENGINE"]
    cluster: Cluster = RedisCluster(engine) if engine.startswith("redis") else PostgresCluster(engine)
    tasks = TaskOptions(store=SqlTaskStore(Path(os.environ["REPLICAS_FOLDER"]) / "tasks.db"))
    return {"cluster": cluster, "keys": [b"k" * 32], "tasks": tasks}


server = Server("antiphon-conformance", version="1.0", tool_rate=None, **_shared())


# --- content ---------------------------------------------------------------------------------------------------------


@server.tool
async def test_simple_text() -> str:
    """Return text."""
    return "This is a simple text response for testing."


@server.tool
async def test_image_content() -> ImageContent:
    """Return an image."""
    return ImageContent.of(PNG, "image/png")


@server.tool
async def test_audio_content() -> AudioContent:
    """Return a sound."""
    return AudioContent.of(WAV, "audio/wav")


def embedded(uri: str, text: str) -> EmbeddedResource:
    """Make a resource that travels within a message."""
    return EmbeddedResource(resource=ResourceContents.of(uri, text, "text/plain"))


@server.tool
async def test_embedded_resource() -> EmbeddedResource:
    """Return a resource."""
    return embedded("test://embedded-resource", "This is an embedded resource content.")


@server.tool
async def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Return text, an image and a resource."""
    return [
        TextContent(text="Multiple content types test:"),
        ImageContent.of(PNG, "image/png"),
        embedded("test://mixed-content-resource", "Mixed content"),
    ]


@server.tool
async def test_error_handling() -> str:
    """Fail as a tool."""
    raise ToolError("This tool intentionally returns an error for testing")


# --- during the call -------------------------------------------------------------------------------------------------


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three times."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(message)
        await asyncio.sleep(0.05)
    return "Logged"


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100)
        await asyncio.sleep(0.05)
    return "Done"


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Log, which only a client that asked for it may hear."""
    await ctx.info("Nobody asked for this")
    return "Logged"


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Close the stream of the call, and go on working."""
    await asyncio.sleep(0.05)
    ctx.close_stream()
    await asyncio.sleep(0.2)
    return "Reconnection test completed"


# --- schemas and capabilities ----------------------------------------------------------------------------------------


async def echo_arguments(arguments: dict[str, Any]) -> str:
    """Say what the arguments were."""
    return f"Arguments: {sorted(arguments)}"


server.add_tool(
    ServedTool.of_definition(
        Tool(
            name="json_schema_2020_12_tool",
            input_schema=DIALECT_2020_12,
            description="Has a schema of the 2020-12 dialect",
        ),
        echo_arguments,
    )
)
server.add_tool(
    ServedTool.of_definition(
        Tool(
            name="test_x_mcp_header", input_schema=REGION_HEADER, description="Has an argument that is a header as well"
        ),
        echo_arguments,
    )
)


@server.tool(requires="sampling")
async def test_missing_capability(ctx: Context) -> str:
    """Need a client that offers sampling."""
    return (await ctx.sample("Hello")).text


# --- changes ---------------------------------------------------------------------------------------------------------


@server.tool
async def test_trigger_tool_change() -> str:
    """Add or remove a tool, of which listeners hear; a replica does both, since the others have lists of their own."""
    if "test_added_tool" not in server.tools:
        server.add_tool(ADDED_TOOL)
        if not IS_REPLICA:
            return "Added"
    server.tools.remove("test_added_tool")
    return "Removed"


@server.tool
async def test_trigger_prompt_change() -> str:
    """Add or remove a prompt, likewise."""
    if "test_added_prompt" not in server.prompts:
        server.prompt(name="test_added_prompt")(test_simple_prompt)
        if not IS_REPLICA:
            return "Added"
    server.prompts.remove("test_added_prompt")
    return "Removed"


ADDED_TOOL = ServedTool.from_function(test_simple_text, name="test_added_tool")

# --- resources -------------------------------------------------------------------------------------------------------


@server.resource("test://static-text", mime_type="text/plain")
async def static_text() -> str:
    """Text that never changes."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """Bytes that never change."""
    return PNG


@server.resource("test://watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """Text to subscribe to."""
    return "Watched resource content"


@server.resource("test://template/{id}/data", mime_type="application/json")
async def template_data(id: str) -> str:
    """Data of one id."""
    return f'{{"id": "{id}", "templateTest": true}}'


# --- prompts ---------------------------------------------------------------------------------------------------------


@server.prompt
async def test_simple_prompt() -> str:
    """Write a prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Write a prompt of two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.complete("test_prompt_with_arguments", "arg1")
async def complete_arg1(typed: str) -> list[str]:
    """Complete the first argument."""
    return [value for value in ("paris", "park", "party") if value.startswith(typed)]


@server.prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
    """Write a prompt that carries a resource."""
    return [embedded(resourceUri, "Embedded resource content for testing."), "Please process the resource above."]


@server.prompt
async def test_prompt_with_image() -> list[Any]:
    """Write a prompt that carries an image."""
    return [ImageContent.of(PNG, "image/png"), "Please analyze the image above."]


server.skills(Path(__file__).parent / "skills")
add_asking(server)
add_working(server)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    server.run("http", port=parser.parse_args().port)


if __name__ == "__main__":
    main()
