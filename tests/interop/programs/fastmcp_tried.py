"""FastMCP as a client that is checked: lists the tools of a URL, or of a command, and calls each."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def sample(messages: Any, params: Any, context: Any) -> str:
    """Answer as a model would."""
    return "hello"


async def elicit(message: str, kind: Any, params: Any, context: Any) -> dict[str, int]:
    """Accept the form."""
    return {"number": 3}


async def main(target: list[str]) -> None:
    """List the tools, and call each."""
    where = target[0] if len(target) == 1 else StdioTransport(target[0], target[1:], keep_alive=False)
    async with Client(where, sampling_handler=sample, elicitation_handler=elicit, roots=["file:///project"]) as client:
        for name in dict.fromkeys(tool.name for tool in await client.list_tools()):
            await client.call_tool(name, {})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
