"""Walks through a server with FastMCP's client: steps as JSON, then the command line. Prints the answers as JSON."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main() -> None:
    steps, command, *arguments = sys.argv[1:]
    answers = []
    async with Client(StdioTransport(command, arguments)) as client:
        answers.append(sorted(tool.name for tool in await client.list_tools()))
        for kind, name, given in json.loads(steps):
            if kind == "tool":
                found = await client.call_tool(name, given, raise_on_error=False)
                blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in found.content]
                answers.append([blocks, found.structured_content, found.is_error])
            elif kind == "resource":
                answers.append([content.text for content in await client.read_resource(name)])
            else:
                messages = (await client.get_prompt(name, given)).messages
                answers.append([[message.role, message.content.text] for message in messages])
    print(json.dumps(answers))


asyncio.run(main())
