"""FastMCP 4 as a server: ``stdio``, or ``http PORT``. ``EXTRA_TOOLS=n``."""

from __future__ import annotations

import os
import sys

os.environ |= {"FASTMCP_LOG_LEVEL": "ERROR", "FASTMCP_CHECK_FOR_UPDATES": "off"}

from fastmcp import Context, FastMCP
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)

BIG = "x" * (1 << 20)
server = FastMCP("bench")
tool = server.tool(output_schema=None)


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
async def sample(text: str, ctx: Context) -> str | InputRequiredResult:
    """Ask the client's model: by a request, or, at 2026-07-28, by a round."""
    messages = [SamplingMessage(role="user", content=TextContent(type="text", text=text))]
    if "2026" not in str(ctx.request_context.protocol_version if ctx.request_context else ""):
        answer = await ctx.session.create_message(messages, max_tokens=64, related_request_id=ctx.request_id)
        return answer.content.text
    if ctx.input_responses is not None:
        return ctx.input_responses["s"].content.text
    params = CreateMessageRequestParams(messages=messages, max_tokens=64)
    return InputRequiredResult(input_requests={"s": CreateMessageRequest(params=params)})


async def extra(a: int, b: str, c: bool) -> str:
    """Do nothing."""
    return "ok"


for number in range(int(os.environ.get("EXTRA_TOOLS", "0"))):
    text = f"Synthetic tool number {number} used for the listing benchmark."
    server.tool(name=f"tool_{number:03d}", description=text, output_schema=None)(extra)

if sys.argv[1] == "stdio":
    server.run(show_banner=False)
else:
    import uvicorn

    uvicorn.run(
        server.http_app(), port=int(sys.argv[2]), loop="uvloop", http="httptools", access_log=False, log_level="error"
    )
