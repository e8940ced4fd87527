"""The official Python SDK 1.x as a client: the walk of ``python2_client.py``, with the API most clients still use.

Usage: python1_client.py legacy COMMAND... (it knows no other era); instead of a command, a URL.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from mcp.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    LoggingMessageNotificationParams,
    PromptReference,
    Root,
    SamplingCapability,
    SamplingToolsCapability,
    TextContent,
    ToolUseContent,
)
from pydantic import AnyUrl, FileUrl

Step = Callable[[], Awaitable[Any]]
SEEN: dict[str, list[Any]] = {"asks": [], "progress": [], "logs": []}


def plain(value: Any) -> Any:
    """Make a model JSON."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def sample(context: Any, params: CreateMessageRequestParams) -> Any:
    """Answer as a model would: with a tool use when tools are offered, else with text."""
    SEEN["asks"].append(plain(params))
    last = params.messages[-1].content
    blocks = last if isinstance(last, list) else [last]
    if params.tools and not any(block.type == "tool_result" for block in blocks):
        use = ToolUseContent(type="tool_use", id="use-1", name=params.tools[0].name, input={"city": "Oslo"})
        return CreateMessageResultWithTools(role="assistant", content=use, model="peer", stopReason="toolUse")
    text = " ".join(getattr(block, "text", block.type) for block in blocks)
    answer = TextContent(type="text", text=f"answer to {text}")
    return CreateMessageResult(role="assistant", content=answer, model="peer", stopReason="endTurn")


async def elicit(context: Any, params: ElicitRequestParams) -> ElicitResult:
    """Accept the form."""
    SEEN["asks"].append(plain(params))
    return ElicitResult(action="accept", content={"guests": 4, "window": True})


async def roots(context: Any) -> ListRootsResult:
    """Offer one folder."""
    return ListRootsResult(roots=[Root(uri=FileUrl("file:///project"), name="project")])


async def log(params: LoggingMessageNotificationParams) -> None:
    """Keep a log message."""
    SEEN["logs"].append([params.level, params.data])


async def on_progress(progress: float, total: float | None, message: str | None) -> None:
    """Keep a progress message."""
    SEEN["progress"].append([progress, total, message])


async def attempt(step: Step) -> Any:
    """Do one step; an error is an outcome."""
    try:
        return plain(await asyncio.wait_for(step(), 15))
    except McpError as error:
        return {"error": {"code": error.error.code, "message": error.error.message}}


def steps(session: ClientSession) -> dict[str, Step]:
    """List the walk."""
    review = PromptReference(type="ref/prompt", name="review")
    return {
        "level": lambda: session.set_logging_level("info"),
        "ping": session.send_ping,
        "tools": session.list_tools,
        "resources": session.list_resources,
        "templates": session.list_resource_templates,
        "prompts": session.list_prompts,
        "read": lambda: session.read_resource(AnyUrl("note://welcome")),
        "read_template": lambda: session.read_resource(AnyUrl("note://tuesday")),
        "read_unknown": lambda: session.read_resource(AnyUrl("nowhere://at/all")),
        "prompt": lambda: session.get_prompt("review", {"language": "python"}),
        "complete": lambda: session.complete(review, {"name": "language", "value": "p"}),
        "echo": lambda: session.call_tool("echo", {"text": "héllo ☃"}),
        "add": lambda: session.call_tool("add", {"a": 2, "b": 40}),
        "fail": lambda: session.call_tool("fail", {"reason": "on purpose"}),
        "wrong": lambda: session.call_tool("add", {"a": "two", "b": 40}),
        "unknown": lambda: session.call_tool("no-such-tool", {}),
        "describe": lambda: session.call_tool("describe", {"product": "sweater"}),
        "use_tool": lambda: session.call_tool("use_tool", {"city": "Oslo"}),
        "forecast": lambda: session.call_tool("forecast", {"city": "Oslo"}),
        "compare": lambda: session.call_tool("compare", {"products": ["hat", "cap"]}),
        "survey": lambda: session.call_tool("survey", {"topic": "Cloth", "questions": 12}),
        "long_survey": lambda: session.call_tool("survey", {"topic": "Thread", "questions": 18}),
        "book": lambda: session.call_tool("book", {"day": "Friday"}),
        "folders": lambda: session.call_tool("folders", {}),
        "count": lambda: session.call_tool("count", {"to": 3}, progress_callback=on_progress),
        "speak": lambda: session.call_tool("speak", {"text": "up"}),
    }


def connected(command: list[str]) -> Any:
    """Reach a server: start it, or go to where it is."""
    if "://" in command[0]:
        return streamable_http_client(command[0])
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:]))


async def walk(command: list[str]) -> dict[str, Any]:
    """Walk through the server and return what was seen."""
    async with (
        connected(command) as (reading, writing, *_),
        ClientSession(
            reading,
            writing,
            sampling_callback=sample,
            sampling_capabilities=SamplingCapability(tools=SamplingToolsCapability()),
            elicitation_callback=elicit,
            list_roots_callback=roots,
            logging_callback=log,
        ) as session,
    ):
        opened = await session.initialize()
        record: dict[str, Any] = {"version": opened.protocolVersion, "server": plain(opened.serverInfo)}
        for name, step in steps(session).items():
            record[name] = await attempt(step)
        describe = steps(session)["describe"]
        record["together"] = await asyncio.gather(*(attempt(describe) for _ in range(5)))
    return record | SEEN


if __name__ == "__main__":
    print(json.dumps(asyncio.run(walk(sys.argv[2:]))))
