"""FastMCP 4 as a client; how to call it says ``drive.py``."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ |= {"FASTMCP_LOG_LEVEL": "ERROR", "FASTMCP_CHECK_FOR_UPDATES": "off"}

import uvloop
from drive import drive
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport


def server() -> FastMCP:
    """Make the server for ``mem``."""
    made = FastMCP("mem")

    @made.tool(output_schema=None)
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
    return StdioTransport(command=command, args=arguments)


async def main(transport: str, target: str) -> None:
    """Connect and measure."""
    began = time.perf_counter()
    async with Client(where(transport, target)) as client:

        async def call(text: str) -> str:
            return (await client.call_tool("echo", {"text": text})).content[0].text

        await drive(call, began, "")


uvloop.run(main(*sys.argv[1:3]))
