"""The official Python SDK 2.x as a client that is checked: lists the tools of a URL or command, and calls each."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent


async def sample(context: Any, params: Any) -> CreateMessageResult:
    """Answer as a model would."""
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="hello"), model="peer")


async def elicit(context: Any, params: Any) -> ElicitResult:
    """Accept the form."""
    return ElicitResult(action="accept", content={"number": 3})


async def roots(context: Any) -> ListRootsResult:
    """Offer one folder."""
    return ListRootsResult(roots=[Root(uri="file:///project")])


async def main(target: list[str]) -> None:
    """List the tools, and call each."""
    answers = {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": roots}
    where = target[0] if len(target) == 1 else StdioServerParameters(command=target[0], args=target[1:])
    async with Client(where, mode="auto", **answers) as client:
        page = await client.list_tools()
        names = [tool.name for tool in page.tools]
        while page.next_cursor is not None:
            page = await client.list_tools(cursor=page.next_cursor)
            names += [tool.name for tool in page.tools]
        for name in dict.fromkeys(names):
            await client.call_tool(name, {})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
