"""The official Python SDK 1.x as a server: ``stdio``, or ``http PORT``.

``JSON=1`` for JSON answers, ``EXTRA_TOOLS=n`` for more tools.
"""

from __future__ import annotations

import os
import sys

from mcp.server.fastmcp import Context, FastMCP
from mcp.types import SamplingMessage, TextContent

BIG = "x" * (1 << 20)
server = FastMCP("bench", log_level="ERROR", json_response=bool(os.environ.get("JSON")))
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


@tool
async def sample(text: str, ctx: Context) -> str:
    """Ask the client's model."""
    messages = [SamplingMessage(role="user", content=TextContent(type="text", text=text))]
    answer = await ctx.session.create_message(messages, max_tokens=64, related_request_id=ctx.request_id)
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

    app = server.streamable_http_app()
    uvicorn.run(app, port=int(sys.argv[2]), loop="uvloop", http="httptools", access_log=False, log_level="error")
