"""Sampling: a server asks the client's model for a completion (deprecated at 2026-07-28, fully supported)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import field

from antiphon.wire.common import Meta, RequestParams, Role, Wire
from antiphon.wire.content import SamplingContent, TextContent, text_of
from antiphon.wire.tools import Tool

__all__ = [
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "IncludeContext",
    "ModelHint",
    "ModelPreferences",
    "SamplingMessage",
    "ToolChoice",
]

IncludeContext = Literal["none", "thisServer", "allServers"]


class SamplingMessage(Wire, frozen=True, kw_only=True):
    """One message of the conversation. Content is one block, or a list of them (from 2025-11-25)."""

    role: Role
    content: SamplingContent | Sequence[SamplingContent]
    meta: Meta | None = field(name="_meta", default=None)

    @property
    def blocks(self) -> Sequence[SamplingContent]:
        """The content as a list, whichever way it came."""
        return self.content if isinstance(self.content, Sequence) else [self.content]

    @property
    def text(self) -> str:
        """All blocks of text, joined by newlines."""
        return text_of(self.blocks)


class ModelHint(Wire, frozen=True, kw_only=True, gc=False):
    """Part of a model's name; earlier hints weigh more."""

    name: str | None = None


class ModelPreferences(Wire, frozen=True, kw_only=True):
    """What the server would like the model to be. Priorities go from 0 to 1; the client decides."""

    hints: Sequence[ModelHint] | None = None
    cost_priority: int | float | None = None
    speed_priority: int | float | None = None
    intelligence_priority: int | float | None = None


class ToolChoice(Wire, frozen=True, kw_only=True, gc=False):
    """Whether the model may, must or must not use tools; absent is auto (from 2025-11-25)."""

    mode: Literal["auto", "required", "none"] | None = None


class CreateMessageRequestParams(RequestParams, frozen=True, kw_only=True):
    """Params of ``sampling/createMessage``."""

    messages: Sequence[SamplingMessage]
    max_tokens: int
    model_preferences: ModelPreferences | None = None
    system_prompt: str | None = None
    include_context: IncludeContext | None = None
    temperature: int | float | None = None
    stop_sequences: Sequence[str] | None = None
    metadata: dict[str, Any] | None = None
    """For the provider, in a format of its own."""
    tools: Sequence[Tool] | None = None
    tool_choice: ToolChoice | None = None


class CreateMessageResult(Wire, frozen=True, kw_only=True):
    """What the model said. ``stop_reason``: endTurn, stopSequence, maxTokens, toolUse or the provider's own."""

    role: Role
    content: SamplingContent | Sequence[SamplingContent]
    model: str
    stop_reason: str | None = None
    meta: Meta | None = field(name="_meta", default=None)

    @property
    def blocks(self) -> Sequence[SamplingContent]:
        """The content as a list, whichever way it came."""
        return self.content if isinstance(self.content, Sequence) else [self.content]

    @property
    def text(self) -> str:
        """All blocks of text, joined by newlines."""
        # Mostly it is one.
        return self.content.text if type(self.content) is TextContent else text_of(self.blocks)
