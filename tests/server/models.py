"""Scripted models for the tests of sampling: they play turns, and keep what they were asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antiphon import (
    CreateMessageRequestParams,
    CreateMessageResult,
    Origin,
    Server,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from antiphon.testing import Recorder
from antiphon.wire.common import ClientCapabilities, SamplingCapability
from antiphon.wire.sampling import check_conversation

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
WITH_TOOLS = ["2025-11-25", "2026-07-28"]

Turn = str | CreateMessageResult | Exception | Callable[[CreateMessageRequestParams], "str | CreateMessageResult"]


class Model:
    """Answers turn by turn: with text, a result, an exception, or what a function makes of the request."""

    def __init__(self, *turns: Turn, tools: bool = True, context: bool = False) -> None:
        self._turns = list(turns)
        self.requests: list[CreateMessageRequestParams] = []
        self.capabilities = ClientCapabilities(
            sampling=SamplingCapability(tools={} if tools else None, context={} if context else None)
        )

    async def __call__(self, params: CreateMessageRequestParams, origin: Origin | None = None) -> Any:
        """Play the next turn. A request that breaks the rules fails the test."""
        check_conversation(params.messages)
        self.requests.append(params)
        turn = self._turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn(params) if callable(turn) else turn

    async def complete(self, params: CreateMessageRequestParams) -> Any:
        """Do the same for a server."""
        return await self(params)

    @property
    def choices(self) -> list[str | None]:
        """What each turn allowed of tools."""
        return [one.tool_choice.mode if one.tool_choice is not None else None for one in self.requests]

    def results(self, request: int = -1) -> list[ToolResultContent]:
        """Return the results of tools that a request ends with."""
        last = self.requests[request].messages[-1]
        return [block for block in last.blocks if isinstance(block, ToolResultContent)]


def use(name: str, id: str = "1", **input: Any) -> ToolUseContent:
    """Make a use of a tool."""
    return ToolUseContent(id=id, name=name, input=input)


def wants(*uses: ToolUseContent, text: str = "") -> CreateMessageResult:
    """Make a turn in which the model wants tools."""
    said = [TextContent(text=text)] if text else []
    return CreateMessageResult(role="assistant", content=[*said, *uses], model="m", stop_reason="toolUse")


def says(text: str, **members: Any) -> CreateMessageResult:
    """Make a turn in which the model says something."""
    return CreateMessageResult(role="assistant", content=TextContent(text=text), model="m", **members)


def asking(handler: Callable[..., Any], **options: Any) -> tuple[Server, list[Any]]:
    """Make a server whose tool "ask" is ``handler(ctx)``; return it with the list of what that gave or raised."""
    from antiphon import Context

    server, seen = Server("s", **options), []

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            seen.append(await handler(ctx))
        except Exception as error:
            seen.append(error)
            raise
        return "done"

    return server, seen


def questions(recorder: Recorder) -> list[dict[str, Any]]:
    """Return the params of the asks that reached the client, of either era."""
    found: list[dict[str, Any]] = []
    for one in recorder.messages:
        if one.direction == "received" and one.body:
            if one.method == "sampling/createMessage":
                found.append(one.body)
            found += [each["params"] for each in one.body.get("inputRequests", {}).values()]
    return found


def asked(recorder: Recorder) -> int:
    """Count the asks that reached the client, of either era."""
    return len(questions(recorder))
