"""The official Python SDK 2.x as a client; how to call it says ``drive.py``. Before that: ``auto`` or ``legacy``."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import uvloop
from drive import drive
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer


def server() -> MCPServer:
    """Make the server for ``mem``."""
    made = MCPServer("mem", log_level="ERROR")

    @made.tool(structured_output=False)
    async def echo(text: str) -> str:
        """Echo the text back."""
        return text

    return made


def where(transport: str, target: str) -> Any:
    """Make what its client is given."""
    if transport == "mem":
        return server()
    if transport == "http":
        return target
    command, *arguments = json.loads(target)
    return StdioServerParameters(command=command, args=arguments)


async def main(mode: str, transport: str, target: str) -> None:
    """Connect and measure."""
    began = time.perf_counter()
    async with Client(where(transport, target), mode=mode) as client:

        async def call(text: str) -> str:
            return (await client.call_tool("echo", {"text": text})).content[0].text

        await drive(call, began, client.protocol_version)


uvloop.run(main(*sys.argv[1:4]))
