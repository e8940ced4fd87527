"""The official Python SDK 1.x calls a tool as a task of 2025-11-25, is asked, and gets the result.

Usage: python1_tasks.py COMMAND...
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, CreateMessageRequestParams, CreateMessageResult, TextContent

ASKED: list[str] = []


async def sample(context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Answer with the question."""
    text = params.messages[-1].content.text
    ASKED.append(text)
    answer = TextContent(type="text", text=text.upper())
    return CreateMessageResult(role="assistant", content=answer, model="peer", stopReason="endTurn")


def connected(command: list[str]) -> Any:
    """Reach a server: start it, or go to where it is."""
    if "://" in command[0]:
        return streamable_http_client(command[0])
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:]))


async def main(command: list[str]) -> None:
    """Call, look until the server wants something, and wait for the result; then cancel another one."""
    async with connected(command) as (read, write, *_), ClientSession(read, write, sampling_callback=sample) as session:
        await session.initialize()
        task = (await session.experimental.call_tool_as_task("publish", {}, ttl=60_000)).task
        statuses = [task.status]
        async for seen in session.experimental.poll_task(task.taskId):
            statuses.append(seen.status)
            if seen.status == "input_required":
                break
        result = await session.experimental.get_task_result(task.taskId, CallToolResult)
        other = (await session.experimental.call_tool_as_task("publish", {}, ttl=60_000)).task
        cancelled = await session.experimental.cancel_task(other.taskId)
    text = result.content[0].text
    print(json.dumps({"statuses": statuses, "text": text, "asked": ASKED, "cancelled": cancelled.status}))


asyncio.run(main(sys.argv[1:]))
