"""Subscribing to changes. The same code works on every revision, although each sends changes in another way."""

import asyncio

from antiphon import Client, Server

server = Server("thermometer")
reading = {"celsius": 20}


@server.resource("sensor://room", mime_type="text/plain")
async def room() -> str:
    """Temperature of the room."""
    return f"{reading['celsius']} degrees"


@server.tool
async def heat(degrees: int) -> str:
    """Heat the room, and notify the subscribers."""
    reading["celsius"] += degrees
    server.resource_updated("sensor://room")
    return "warmer"


@server.tool
async def install() -> str:
    """Install one more tool: the list changes, and clients are told."""

    @server.tool
    async def cool() -> str:
        """Cool the room."""
        return "cooler"

    return "installed"


async def main() -> None:
    """Listen to both kinds of change."""
    async with Client(server) as client, client.listen(uris=["sensor://room"], tools=True) as changes:
        await client.call_tool("heat", {"degrees": 3})
        change = await anext(changes)
        text = (await client.read_resource("sensor://room")).contents[0].text
        print(change.kind, change.uri, "->", text)
        await client.call_tool("install")
        change = await anext(changes)
        print(change.kind, "->", sorted([tool.name async for tool in client.tools()]))


asyncio.run(main())
