"""Our own client as it is checked: lists the tools of a URL, or of a command, and calls each."""

from __future__ import annotations

import asyncio
import sys

from antiphon import Client, ElicitResult


async def sample(params: object, origin: object) -> str:
    """Answer as a model would."""
    return "hello"


async def elicit(params: object, origin: object) -> ElicitResult:
    """Accept the form."""
    return ElicitResult(action="accept", content={"number": 3})


async def main(target: list[str]) -> None:
    """List the tools, and call each."""
    client = Client(target[0] if len(target) == 1 else target, sampling=sample, elicitation=elicit, roots=["/project"])
    async with client:
        for name in dict.fromkeys([tool.name async for tool in client.tools()]):
            await client.call_tool(name, {})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
