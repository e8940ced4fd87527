"""The host of the interop tests: answers every ask the same way and remembers it."""

from __future__ import annotations

from typing import Any

from antiphon.wire.common import ClientCapabilities, ElicitationCapability, SamplingCapability
from antiphon.wire.content import TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Answerer"]


class Answerer:
    """Answers sampling and elicitation, and keeps what it was asked."""

    capabilities = ClientCapabilities(
        sampling=SamplingCapability(tools={}), elicitation=ElicitationCapability(form={}, url={})
    )

    def __init__(self, form: dict[str, Any] | None = None) -> None:
        self.form = {"guests": 4, "window": True} if form is None else form
        self.sampled: list[CreateMessageRequestParams] = []
        self.elicited: list[ElicitRequestParams] = []
        self.origins: list[Origin] = []
        self.logs: list[LoggingMessageNotificationParams] = []

    def forget(self) -> None:
        """Start with an empty memory."""
        for memory in (self.sampled, self.elicited, self.origins, self.logs):
            memory.clear()

    def log(self, message: LoggingMessageNotificationParams) -> None:
        """Keep a log message of the server."""
        self.logs.append(message)

    async def sample(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        """Answer as a model would: with a tool use when tools are offered, else with text."""
        self.sampled.append(params)
        self.origins.append(origin)
        last = params.messages[-1].blocks[-1]
        if params.tools and not isinstance(last, ToolResultContent):
            use = ToolUseContent(id="use-1", name=params.tools[0].name, input={"city": "Oslo"})
            return CreateMessageResult(role="assistant", content=use, model="ours", stop_reason="toolUse")
        text = TextContent(text=f"answer to {getattr(last, 'text', 'a tool')}")
        return CreateMessageResult(role="assistant", content=text, model="ours", stop_reason="endTurn")

    async def elicit(self, params: ElicitRequestParams, origin: Origin) -> dict[str, Any] | None:
        """Accept a form, decline anything else."""
        self.elicited.append(params)
        return None if params.mode == "url" else self.form
