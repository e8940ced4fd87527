"""The official Python SDK 1.x as a client that is checked: lists the tools of a URL, page by page, and calls each."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp import ClientSession
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


async def main(url: str, *, is_bare: bool) -> None:
    """List the tools, and call the first ones."""
    answers: dict[str, Any] = (
        {} if is_bare else {"sampling_callback": sample, "elicitation_callback": elicit, "list_roots_callback": roots}
    )
    async with (
        streamable_http_client(url) as (reading, writing, *_),
        ClientSession(reading, writing, **answers) as session,
    ):
        await session.initialize()
        page = await session.list_tools()
        names = [tool.name for tool in page.tools]
        while page.nextCursor is not None:
            page = await session.list_tools(page.nextCursor)
            names += [tool.name for tool in page.tools]
        for name in dict.fromkeys(names):
            await session.call_tool(name, {})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], is_bare="bare" in sys.argv))
