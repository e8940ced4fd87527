"""The official Python SDK 1.x as a client that is checked: lists the tools of a URL or command, and calls each."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent
from pydantic import FileUrl


async def sample(context: Any, params: Any) -> CreateMessageResult:
    """Answer as a model would."""
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="hello"), model="peer")


async def elicit(context: Any, params: Any) -> ElicitResult:
    """Accept the form."""
    return ElicitResult(action="accept", content={"number": 3})


async def roots(context: Any) -> ListRootsResult:
    """Offer one folder."""
    return ListRootsResult(roots=[Root(uri=FileUrl("file:///project"))])


def connect(target: list[str]) -> Any:
    """Connect to the URL, or start the command."""
    if len(target) == 1:
        return streamable_http_client(target[0])
    return stdio_client(StdioServerParameters(command=target[0], args=target[1:]))


async def main(target: list[str], *, is_bare: bool) -> None:
    """List the tools, and call the first ones."""
    answers: dict[str, Any] = (
        {} if is_bare else {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": roots}
    )
    async with connect(target) as (reading, writing, *_), ClientSession(reading, writing, **answers) as session:
        await session.initialize()
        page = await session.list_tools()
        names = [tool.name for tool in page.tools]
        while page.nextCursor is not None:
            page = await session.list_tools(page.nextCursor)
            names += [tool.name for tool in page.tools]
        for name in dict.fromkeys(names):
            await session.call_tool(name, {})


if __name__ == "__main__":
    asyncio.run(main([word for word in sys.argv[1:] if word != "bare"], is_bare="bare" in sys.argv))
