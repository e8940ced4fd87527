"""The official Python SDK 1.x as a client; how to call it says ``drive.py``."""

from __future__ import annotations

import json
import sys
import time
from contextlib import AsyncExitStack

import uvloop
from drive import drive
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.fastmcp import FastMCP
from mcp.shared.memory import create_connected_server_and_client_session


def server() -> FastMCP:
    """Make the server for ``mem``."""
    made = FastMCP("mem", log_level="ERROR")

    @made.tool(structured_output=False)
    async def echo(text: str) -> str:
        """Echo the text back."""
        return text

    return made


async def connect(stack: AsyncExitStack, transport: str, target: str) -> ClientSession:
    """Open a session."""
    if transport == "mem":
        return await stack.enter_async_context(create_connected_server_and_client_session(server()))
    if transport == "http":
        reading, writing, *_ = await stack.enter_async_context(streamable_http_client(target))
    else:
        command, *arguments = json.loads(target)
        parameters = StdioServerParameters(command=command, args=arguments)
        reading, writing = await stack.enter_async_context(stdio_client(parameters))
    session = await stack.enter_async_context(ClientSession(reading, writing))
    await session.initialize()
    return session


async def main(transport: str, target: str) -> None:
    """Connect and measure."""
    began = time.perf_counter()
    async with AsyncExitStack() as stack:
        session = await connect(stack, transport, target)

        async def call(text: str) -> str:
            return (await session.call_tool("echo", {"text": text})).content[0].text

        await drive(call, began, "2025-11-25")


uvloop.run(main(*sys.argv[1:3]))
