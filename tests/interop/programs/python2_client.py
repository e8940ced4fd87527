"""The official Python SDK 2.x as a client: walks through a stdio server and prints what it saw as one JSON object.

Usage: python2_client.py ERA COMMAND...   with ERA ``legacy``, ``modern`` or ``auto``. The server is ``our_server.py``
or one with the same tools. A step that fails is recorded as ``{"error": ...}``: the test decides what that means.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
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

warnings.simplefilter("ignore", MCPDeprecationWarning)

Step = Callable[[], Awaitable[Any]]
MODES = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}
MAX_ROUNDS = 15
"""Rounds that one call may have; the SDK's own default is 10."""


class Seen:
    """What the callbacks of the client were told."""

    def __init__(self) -> None:
        self.asks: list[Any] = []
        self.progress: list[list[Any]] = []
        self.logs: list[list[Any]] = []

    async def sample(self, context: Any, params: CreateMessageRequestParams) -> Any:
        """Answer as a model would: with a tool use when tools are offered, else with text."""
        self.asks.append(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        last = params.messages[-1].content
        blocks = last if isinstance(last, list) else [last]
        if params.tools and not any(block.type == "tool_result" for block in blocks):
            use = ToolUseContent(type="tool_use", id="use-1", name=params.tools[0].name, input={"city": "Oslo"})
            return CreateMessageResultWithTools(role="assistant", content=use, model="peer", stop_reason="toolUse")
        text = " ".join(getattr(block, "text", block.type) for block in blocks)
        answer = TextContent(type="text", text=f"answer to {text}")
        return CreateMessageResult(role="assistant", content=answer, model="peer", stop_reason="endTurn")

    async def elicit(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        """Accept a form, decline anything else."""
        self.asks.append(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        if getattr(params, "mode", "form") == "url":
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"guests": 4, "window": True})

    async def roots(self, context: Any) -> ListRootsResult:
        """Offer one folder."""
        return ListRootsResult(roots=[Root(uri="file:///project", name="project")])

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        """Keep a log message."""
        self.logs.append([params.level, params.data])

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Keep a progress message."""
        self.progress.append([progress, total, message])


def plain(value: Any) -> Any:
    """Make a model JSON."""
    return None if value is None else value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def attempt(step: Step) -> Any:
    """Do one step; an error is an outcome."""
    try:
        return plain(await asyncio.wait_for(step(), 15))
    except MCPError as error:
        return {"error": {"code": error.error.code, "message": error.error.message}}
    except Exception as error:
        return {"error": {"type": type(error).__name__, "message": str(error)[:300]}}


def calls(client: Client, seen: Seen) -> dict[str, Step]:
    """List the tool calls to make."""
    return {
        "echo": lambda: client.call_tool("echo", {"text": "héllo ☃"}),
        "add": lambda: client.call_tool("add", {"a": 2, "b": 40}),
        "fail": lambda: client.call_tool("fail", {"reason": "on purpose"}),
        "wrong": lambda: client.call_tool("add", {"a": "two", "b": 40}),
        "unknown": lambda: client.call_tool("no-such-tool", {}),
        "describe": lambda: client.call_tool("describe", {"product": "sweater"}),
        "use_tool": lambda: client.call_tool("use_tool", {"city": "Oslo"}),
        "forecast": lambda: client.call_tool("forecast", {"city": "Oslo"}),
        "compare": lambda: client.call_tool("compare", {"products": ["hat", "cap"]}),
        "survey": lambda: client.call_tool("survey", {"topic": "Cloth", "questions": 12}),
        "long_survey": lambda: client.call_tool("survey", {"topic": "Thread", "questions": 18}),
        "book": lambda: client.call_tool("book", {"day": "Friday"}),
        "folders": lambda: client.call_tool("folders", {}),
        "count": lambda: client.call_tool("count", {"to": 3}, progress_callback=seen.on_progress),
        "speak": lambda: client.call_tool("speak", {"text": "up"}),
    }


def lists(client: Client) -> dict[str, Step]:
    """List the rest of the walk."""
    reference = PromptReference(type="ref/prompt", name="review")
    return {
        "tools": client.list_tools,
        "resources": client.list_resources,
        "templates": client.list_resource_templates,
        "prompts": client.list_prompts,
        "read": lambda: client.read_resource("note://welcome"),
        "read_template": lambda: client.read_resource("note://tuesday"),
        "read_unknown": lambda: client.read_resource("nowhere://at/all"),
        "prompt": lambda: client.get_prompt("review", {"language": "python"}),
        "complete": lambda: client.complete(reference, {"name": "language", "value": "p"}),
    }


async def walk(era: str, command: list[str]) -> dict[str, Any]:
    """Walk through the server and return what was seen."""
    seen = Seen()
    client = Client(
        command[0] if "://" in command[0] else StdioServerParameters(command=command[0], args=command[1:]),
        mode=MODES[era],
        input_required_max_rounds=MAX_ROUNDS,
        sampling_callback=seen.sample,
        sampling_capabilities=SamplingCapability(tools=SamplingToolsCapability()),
        elicitation_callback=seen.elicit,
        list_roots_callback=seen.roots,
        logging_callback=seen.log,
        log_level="info",
    )
    async with client:
        record: dict[str, Any] = {"version": client.protocol_version, "server": plain(client.server_info)}
        if era == "legacy":
            record["level"] = await attempt(lambda: client.set_logging_level("info"))
            record["ping"] = await attempt(client.send_ping)
        for name, step in (lists(client) | calls(client, seen)).items():
            record[name] = await attempt(step)
        record["together"] = await asyncio.gather(*(attempt(calls(client, seen)["describe"]) for _ in range(5)))
    return record | {"asks": seen.asks, "progress": seen.progress, "logs": seen.logs}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(walk(sys.argv[1], sys.argv[2:]))))
