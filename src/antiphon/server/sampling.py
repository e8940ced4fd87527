"""Sampling from a handler: plain arguments to a request, and the answer in a handy form.

Owns no transport and no era; ``ask`` has both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.errors import LocalProtocolError
from antiphon.wire.content import TextContent, ToolUseContent
from antiphon.wire.sampling import (
    CreateMessageRequestParams,
    CreateMessageResult,
    IncludeContext,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
)
from antiphon.wire.tools import Tool

__all__ = ["DEFAULT_MAX_TOKENS", "Messages", "Sample", "sampling_params"]

DEFAULT_MAX_TOKENS = 1_024
"""Most tokens of an answer where the author gives no number: a page of text, and cheap on any model."""

Messages = str | SamplingMessage | Sequence[str | SamplingMessage]
Preferences = str | Sequence[str] | ModelPreferences


class Sample:
    """A completion by the client's model."""

    __slots__ = ("messages", "result")

    def __init__(self, asked: Sequence[SamplingMessage], result: CreateMessageResult) -> None:
        self.result = result
        """The answer as it came."""
        self.messages: list[SamplingMessage] = [*asked, SamplingMessage(role="assistant", content=result.content)]
        """The conversation, the answer included: pass it on to continue."""

    @property
    def text(self) -> str:
        """All text of the answer, joined by newlines; empty if there is none."""
        return self.result.text

    @property
    def content(self) -> Sequence[Any]:
        """The blocks of the answer, always as a list."""
        return self.result.blocks

    @property
    def model(self) -> str:
        """The model that answered, by the client's name for it."""
        return self.result.model

    @property
    def stop_reason(self) -> str | None:
        """``endTurn``, ``stopSequence``, ``maxTokens``, ``toolUse`` or the provider's own word."""
        return self.result.stop_reason

    @property
    def tool_uses(self) -> list[ToolUseContent]:
        """The tools the model wants to use, in order."""
        return [block for block in self.content if isinstance(block, ToolUseContent)]

    def __repr__(self) -> str:
        return f"Sample(model={self.model!r}, stop_reason={self.stop_reason!r}, text={self.text[:60]!r})"


def sampling_params(
    messages: Messages,
    *,
    system_prompt: str | None,
    max_tokens: int,
    temperature: float | None,
    stop_sequences: Sequence[str] | None,
    model_preferences: Preferences | None,
    include_context: IncludeContext | None,
    metadata: Mapping[str, Any] | None,
    tools: Sequence[Tool] | None,
    tool_choice: str | ToolChoice | None,
) -> CreateMessageRequestParams:
    """Build the params of ``sampling/createMessage`` from what an author writes.

    Raises:
        LocalProtocolError: an argument is out of range; nothing was sent.
    """
    if max_tokens < 1:
        raise LocalProtocolError(f"max_tokens must be at least 1, got {max_tokens}")
    conversation = _messages(messages)
    if not conversation:
        raise LocalProtocolError("messages must not be empty")
    return CreateMessageRequestParams(
        messages=conversation,
        max_tokens=max_tokens,
        system_prompt=system_prompt,
        temperature=temperature,
        stop_sequences=list(stop_sequences) if stop_sequences is not None else None,
        model_preferences=_preferences(model_preferences),
        include_context=include_context,
        metadata=dict(metadata) if metadata is not None else None,
        tools=list(tools) if tools is not None else None,
        tool_choice=ToolChoice(mode=_mode(tool_choice)) if isinstance(tool_choice, str) else tool_choice,
    )


def _messages(messages: Messages) -> list[SamplingMessage]:
    given = [messages] if isinstance(messages, str | SamplingMessage) else messages
    return [
        SamplingMessage(role="user", content=TextContent(text=one)) if isinstance(one, str) else one for one in given
    ]


def _preferences(given: Preferences | None) -> ModelPreferences | None:
    if given is None or isinstance(given, ModelPreferences):
        return given
    names = [given] if isinstance(given, str) else given
    return ModelPreferences(hints=[ModelHint(name=name) for name in names])


def _mode(choice: str) -> Any:
    if choice not in ("auto", "required", "none"):
        raise LocalProtocolError(f'tool_choice must be "auto", "required" or "none", got {choice!r}')
    return choice
