"""The official Python SDK 2.x as a server: ``stdio``, or ``http PORT``.

``JSON=1`` for JSON answers, ``EXTRA_TOOLS=n`` for more tools.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Resolve, Sample
from mcp.types import CreateMessageResult, SamplingMessage, TextContent

BIG = "x" * (1 << 20)
server = MCPServer("bench", log_level="ERROR")
tool = server.tool(structured_output=False)


@tool
async def echo(text: str) -> str:
    """Echo the text back."""
    return text


@tool
async def big(n: int) -> str:
    """Return n characters."""
    return BIG if n == len(BIG) else "x" * n


@tool
async def blob(data: str) -> str:
    """Return the length of data."""
    return str(len(data))


def ask(text: str) -> Sample:
    """Make the request; the SDK sends it as the era wants."""
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text=text))], max_tokens=64)


@tool
async def sample(text: str, answer: Annotated[CreateMessageResult, Resolve(ask)]) -> str:
    """Ask the client's model."""
    return answer.content.text


async def extra(a: int, b: str, c: bool) -> str:
    """Do nothing."""
    return "ok"


for number in range(int(os.environ.get("EXTRA_TOOLS", "0"))):
    text = f"Synthetic tool number {number} used for the listing benchmark."
    server.tool(name=f"tool_{number:03d}", description=text, structured_output=False)(extra)

if sys.argv[1] == "stdio":
    server.run()
else:
    import uvicorn

    app = server.streamable_http_app(json_response=bool(os.environ.get("JSON")))
    uvicorn.run(app, port=int(sys.argv[2]), loop="uvloop", http="httptools", access_log=False, log_level="error")
