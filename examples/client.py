"""A client in 10 lines: it starts the server beside it and calls its tool."""

import asyncio
from pathlib import Path

from antiphon import Client


async def main() -> None:
    """Call a tool."""
    async with Client(Path(__file__).with_name("server.py")) as client:
        print((await client.call_tool("add", {"a": 2, "b": 40})).text)


asyncio.run(main())
