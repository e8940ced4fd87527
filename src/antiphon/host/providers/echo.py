"""A provider without a model that repeats its input, offline. For first steps, demonstrations and tests."""

from __future__ import annotations

from antiphon.wire.content import TextContent
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Echo"]

_CHARACTERS_PER_TOKEN = 4
"""An estimate for English text. For other languages it yields fewer tokens than counted, which ``max_tokens``
allows."""


class Echo:
    """Answers with the last text of the user, marked as an echo, as model ``"echo"``."""

    name = "echo"
    tools = True
    personal = False

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Repeat the last text of the user, cut to ``max_tokens``. Uses no tool, and says so if one is required.

        Args:
            params: the request.
            model: not used.
        """
        text = f"[echo] {self._last_text(params)}"
        if params.tool_choice is not None and params.tool_choice.mode == "required":
            text = f"[echo] A tool use was required, but echo uses none. {self._last_text(params)}"
        most = params.max_tokens * _CHARACTERS_PER_TOKEN
        return CreateMessageResult(
            role="assistant",
            content=TextContent(text=text[:most]),
            model=self.name,
            stop_reason="endTurn" if len(text) <= most else "maxTokens",
        )

    def _last_text(self, params: CreateMessageRequestParams) -> str:
        said = [message.text for message in params.messages if message.role == "user" and message.text]
        return said[-1] if said else "(no text)"
