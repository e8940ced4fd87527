"""Sampling: a server asks the client's model for a completion (deprecated at 2026-07-28, fully supported).

Owns the messages and, for both sides, the rules of a conversation: who may say what, and how tool uses and results
belong together. The host limits sizes and media types. Source: 2025-11-25 client/sampling, "Tool Result Messages" and
"Tool Use and Result Balance".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NoReturn

from msgspec import field

from antiphon.errors import InvalidParams
from antiphon.wire.common import Meta, RequestParams, Role, Wire
from antiphon.wire.content import SamplingContent, TextContent, ToolResultContent, ToolUseContent, text_of
from antiphon.wire.tools import Tool

IncludeContext = Literal["none", "thisServer", "allServers"]


class _Message(Wire, frozen=True, kw_only=True):
    role: Role
    content: SamplingContent | Sequence[SamplingContent]

    @property
    def blocks(self) -> Sequence[SamplingContent]:
        """The content as a list, in either form."""
        return self.content if isinstance(self.content, Sequence) else [self.content]

    @property
    def text(self) -> str:
        """All blocks of text, joined by newlines."""
        # Nearly always there is exactly one block.
        return self.content.text if type(self.content) is TextContent else text_of(self.blocks)


class SamplingMessage(_Message, frozen=True, kw_only=True):
    """One message of the conversation. Content is one block, or a list of them (from 2025-11-25)."""

    meta: Meta | None = field(name="_meta", default=None)


class ModelHint(Wire, frozen=True, kw_only=True, gc=False):
    """Part of a model's name; earlier hints weigh more."""

    name: str | None = None


class ModelPreferences(Wire, frozen=True, kw_only=True):
    """What the server wants of a model, with priorities from 0 to 1; the client decides."""

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
    """For the provider, in the provider's own format."""
    tools: Sequence[Tool] | None = None
    tool_choice: ToolChoice | None = None


class CreateMessageResult(_Message, frozen=True, kw_only=True):
    """The model's answer. ``stop_reason`` is endTurn, stopSequence, maxTokens, toolUse or a provider's own value."""

    model: str
    stop_reason: str | None = None
    meta: Meta | None = field(name="_meta", default=None)


def text_answer(text: str, model: str = "unnamed") -> CreateMessageResult:
    """Make an answer of plain text."""
    return CreateMessageResult(role="assistant", content=TextContent(text=text), model=model, stop_reason="endTurn")


MAX_MESSAGES = 1_000
"""Most messages in one request. A long tool loop has some hundred; other hosts stop at 256."""

MAX_BLOCKS = 1_000
"""Most blocks in one message, far more than any real turn with parallel tool results has."""

MAX_TOOLS = 256
"""Most tools in one request; vendors accept 128."""

MAX_LIST = 256
"""Most model hints, and most stop sequences, in one request."""


def check_counts(params: CreateMessageRequestParams) -> None:
    """Check that a request has something to answer, and no part too often; the error names the place, also as data."""
    if not params.messages:
        refuse_place("messages", "empty")
    if type(params.max_tokens) is not int or params.max_tokens < 1:
        refuse_place("maxTokens", "must be an integer of at least 1")
    hints = params.model_preferences.hints if params.model_preferences is not None else None
    counted: tuple[tuple[str, Sequence[object] | None, int], ...] = (
        ("messages", params.messages, MAX_MESSAGES),
        ("tools", params.tools, MAX_TOOLS),
        ("stopSequences", params.stop_sequences, MAX_LIST),
        ("modelPreferences.hints", hints, MAX_LIST),
    )
    for place, items, most in counted:
        if items is not None and len(items) > most:
            refuse_place(place, f"more than {most} items")
    for at, message in enumerate(params.messages):
        if len(message.blocks) > MAX_BLOCKS:
            refuse_place(f"messages[{at}].content", f"more than {MAX_BLOCKS} blocks")


Placed = list[tuple[str, SamplingContent]]


def check_conversation(messages: Sequence[SamplingMessage]) -> None:
    """Check that a conversation follows the rules for tool uses and results; the error names the place.

    Only the assistant uses tools, and only the user sends results; a message with results holds nothing else. The
    next message answers every use, and every result answers exactly one use of the message before it.
    """
    open_uses: dict[str, str] = {}
    for at, message in enumerate(messages):
        placed = _place_message(message, f"messages[{at}]")
        _check_message(message, placed, f"messages[{at}]")
        for place, block in placed:
            if isinstance(block, ToolResultContent) and open_uses.pop(block.tool_use_id, None) is None:
                problem = "answers no tool_use of the message before it, or one answered already"
                refuse_place(f"{place}.toolUseId", problem)
        _refuse_unanswered(open_uses)
        open_uses = _list_uses(placed)
    _refuse_unanswered(open_uses)


def refuse_place(place: str, problem: str) -> NoReturn:
    """Refuse params because of one place in them."""
    raise InvalidParams(f"{place}: {problem}", data={"place": place})


def _place_message(message: SamplingMessage, place: str) -> Placed:
    if not isinstance(message.content, Sequence):
        return [(f"{place}.content", message.content)]
    return [(f"{place}.content[{at}]", block) for at, block in enumerate(message.content)]


def _check_message(message: SamplingMessage, placed: Placed, place: str) -> None:
    if message.role not in ("user", "assistant"):
        refuse_place(f"{place}.role", 'must be "user" or "assistant"')
    # "messages with tool results MUST contain only tool results": mixed content is refused.
    holds_results = any(isinstance(block, ToolResultContent) for _, block in placed)
    for where, block in placed:
        if isinstance(block, ToolUseContent) and message.role != "assistant":
            refuse_place(where, 'a tool_use may only come from the "assistant"')
        if isinstance(block, ToolResultContent) and message.role != "user":
            refuse_place(where, 'a tool_result may only come from the "user"')
        if holds_results and not isinstance(block, ToolResultContent):
            refuse_place(where, "a message with tool results may hold nothing else")


def _list_uses(placed: Placed) -> dict[str, str]:
    uses: dict[str, str] = {}
    for place, block in placed:
        if isinstance(block, ToolUseContent):
            if block.id in uses:
                refuse_place(f"{place}.id", "a second tool_use of this id")
            uses[block.id] = f"{place}.id"
    return uses


def _refuse_unanswered(open_uses: dict[str, str]) -> None:
    # "every assistant message containing ToolUseContent blocks MUST be followed by a user message that consists
    # entirely of ToolResultContent blocks", each use matched by its id.
    for place in open_uses.values():
        refuse_place(place, "a tool_use without a tool_result in the next message")
