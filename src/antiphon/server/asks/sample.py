"""Sampling from a handler: the request that an author's arguments make, and the value that comes back.

Owns the checks of ``ctx.sample``'s arguments (``sampling_params``) and its value (``Sample``). ``tool_loop`` asks, and
handles the answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, cast

from antiphon.errors import InvalidParams, LocalProtocolError, ToolError
from antiphon.machine.other_frameworks import explain_other_names
from antiphon.server.functions.results import content_of
from antiphon.wire import sampling as wire
from antiphon.wire.content import (
    AudioContent,
    ImageContent,
    SamplingContent,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from antiphon.wire.tools import Tool

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

DEFAULT_MAX_TOKENS = 1_024
"""Most tokens of an answer where the author gives no number: a page of text, and cheap on any model."""

Message = str | TextContent | ImageContent | AudioContent | wire.SamplingMessage
"""A message: text or a block of content is the user's."""

Messages = Message | Sequence[Message]
Preferences = str | Sequence[str] | wire.ModelPreferences | Mapping[str, float | str | Sequence[str]]
"""A model's name, several in order of preference, priorities as in ``{"cost": 0.3, "hints": ["sonnet"]}``, or the type
of the protocol."""

_BLOCKS = (TextContent, ImageContent, AudioContent, ToolUseContent, ToolResultContent)
_WHAT = 'text, a SamplingMessage, or a block of content such as ImageContent.of(data, "image/png")'
_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("system_prompt", str, "text"),
    ("temperature", (int, float), "a finite number"),
    ("stop_sequences", Sequence, "a list of texts"),
    ("metadata", Mapping, "a mapping"),
)
_NOTHING = (None, None, None, None)
_CONTEXTS = (None, "none", "thisServer", "allServers")
_PRIORITIES = ("cost", "speed", "intelligence")


def sampling_params(
    messages: Messages,
    *,
    system_prompt: str | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    temperature: float | None = None,
    stop_sequences: Sequence[str] | None = None,
    model_preferences: Preferences | None = None,
    include_context: wire.IncludeContext | None = None,
    metadata: Mapping[str, Any] | None = None,
    tools: Sequence[Tool] | None = None,
    tool_choice: str | wire.ToolChoice | None = None,
) -> wire.CreateMessageRequestParams:
    """Build the params of ``sampling/createMessage`` from an author's arguments; an error names the place."""
    if type(max_tokens) is not int or max_tokens < 1:
        raise LocalProtocolError(f"max_tokens must be at least 1, and a whole number, got {max_tokens!r}")
    given = (system_prompt, temperature, stop_sequences, metadata)
    for value, (name, kind, words) in zip(given, _KINDS, strict=True) if given != _NOTHING else ():
        # A text is a sequence of letters, each of which would become a stop sequence.
        if value is not None and (not isinstance(value, kind) or (kind is Sequence and isinstance(value, str))):
            raise LocalProtocolError(f"{name} must be {words}, got {value!r}")
    if temperature is not None and not math.isfinite(temperature):
        raise LocalProtocolError(f"temperature must be a finite number, got {temperature}")
    if include_context not in _CONTEXTS:
        raise LocalProtocolError(
            f'include_context must be "none", "thisServer" or "allServers", got {include_context!r}'
        )
    if isinstance(tool_choice, str):
        if tool_choice not in ("auto", "required", "none"):
            raise LocalProtocolError(f'tool_choice must be "auto", "required" or "none", got {tool_choice!r}')
        choice = wire.ToolChoice(mode=tool_choice)
    else:
        choice = tool_choice
    if choice is not None and choice.mode == "required" and not tools:
        raise LocalProtocolError('tool_choice="required" needs tools=')
    return wire.CreateMessageRequestParams(
        messages=_make_conversation(messages),
        max_tokens=max_tokens,
        system_prompt=system_prompt,
        temperature=temperature,
        stop_sequences=list(stop_sequences) if stop_sequences is not None else None,
        model_preferences=_make_preferences(model_preferences) if model_preferences is not None else None,
        include_context=include_context,
        metadata=dict(metadata) if metadata is not None else None,
        tools=list(tools) if tools is not None else None,
        tool_choice=choice,
    )


def _make_conversation(messages: Messages) -> list[wire.SamplingMessage]:
    if isinstance(messages, str):
        # The usual case, in which no rule can be broken.
        return [wire.SamplingMessage(role="user", content=TextContent(text=messages))]
    single = isinstance(messages, (wire.SamplingMessage, *_BLOCKS))
    if not single and (isinstance(messages, Mapping | bytes) or not hasattr(messages, "__iter__")):
        raise LocalProtocolError(f"messages is a {type(messages).__name__}: give {_WHAT}, or a list of these")
    given = cast("Sequence[Message]", [messages] if single else messages)
    conversation = [_make_message(one, at) for at, one in enumerate(given)]
    if not conversation:
        raise LocalProtocolError("messages must not be empty")
    try:
        # 2025-11-25 client/sampling: "Servers MUST ensure that ... each ToolUseContent item is responded to".
        wire.check_conversation(conversation)
    except InvalidParams as error:
        raise LocalProtocolError(error.message) from None
    return conversation


def _make_message(given: object, at: int) -> wire.SamplingMessage:
    if isinstance(given, wire.SamplingMessage):
        return given
    if isinstance(given, str):
        return wire.SamplingMessage(role="user", content=TextContent(text=given))
    if isinstance(given, _BLOCKS):
        return wire.SamplingMessage(role="user", content=given)
    raise LocalProtocolError(f"messages[{at}] is a {type(given).__name__}: give {_WHAT}")


def _make_preferences(given: Preferences) -> wire.ModelPreferences:
    if isinstance(given, wire.ModelPreferences):
        wanted = given
    elif isinstance(given, Mapping):
        wanted = _read_priorities(cast("Mapping[str, Any]", given))
    else:
        wanted = wire.ModelPreferences(hints=_make_hints(given))
    for name in _PRIORITIES:
        value: Any = getattr(wanted, f"{name}_priority")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # Schema: minimum 0, maximum 1. Not-a-number fails the comparison as well.
        if value is not None and not (is_number and 0 <= value <= 1):
            raise LocalProtocolError(f"model_preferences: the {name} priority must be from 0 to 1, got {value!r}")
    return wanted


def _read_priorities(given: Mapping[str, Any]) -> wire.ModelPreferences:
    unknown = sorted(set(given) - {*_PRIORITIES, "hints"})
    if unknown:
        raise LocalProtocolError(
            f'model_preferences: unknown {", ".join(map(repr, unknown))}; known are "cost", "speed", "intelligence" '
            '(each from 0 to 1) and "hints"'
        )
    return wire.ModelPreferences(
        hints=_make_hints(given["hints"]) if "hints" in given else None,
        cost_priority=given.get("cost"),
        speed_priority=given.get("speed"),
        intelligence_priority=given.get("intelligence"),
    )


def _make_hints(names: str | Sequence[str]) -> list[wire.ModelHint]:
    if not hasattr(names, "__iter__"):
        raise LocalProtocolError(
            f"model_preferences must be a model's name, a list of names, a mapping or ModelPreferences, got {names!r}"
        )
    found = [names] if isinstance(names, str) else list(names)
    for name in cast("list[object]", found):
        if not isinstance(name, str):
            raise LocalProtocolError(f"model_preferences: a model's name is text, got {name!r}")
    return [wire.ModelHint(name=name) for name in found]


@explain_other_names
class Sample(Generic[T]):
    """A completion: the model's last answer, the value made from it, and the conversation that led to it.

    Args:
        messages: the conversation, including the answer.
        answer: the last answer.
        value: the answer converted to ``result_type``; ``None`` without one.
        turns: number of turns with the model.
        by: whose model answered: the client's, or the server's own.
    """

    __slots__ = ("answer", "by", "messages", "turns", "value")

    def __init__(
        self,
        messages: Sequence[wire.SamplingMessage],
        answer: wire.CreateMessageResult,
        value: T,
        *,
        turns: int = 1,
        by: Literal["client", "server"] = "client",
    ) -> None:
        self.answer = answer
        """The last answer, as received."""
        self.messages: list[wire.SamplingMessage] = [*messages]
        """The conversation, including uses of tools, their results and the answer; pass it on to continue."""
        self.value = value
        """The answer converted to ``result_type``; ``None`` without a ``result_type``."""
        self.turns = turns
        """Number of turns: more than one if tools were used or an answer had to be repaired."""
        self.by: Literal["client", "server"] = by
        """Whose model answered: the client's, or the server's own (``Server(sampling_fallback=...)``)."""

    @property
    def text(self) -> str:
        """All text of the answer, joined by newlines; empty if there is none."""
        return self.answer.text

    @property
    def content(self) -> Sequence[SamplingContent]:
        """The blocks of the answer, always as a list."""
        return self.answer.blocks

    @property
    def model(self) -> str:
        """The model that answered, as the client names it."""
        return self.answer.model

    @property
    def stop_reason(self) -> str | None:
        """``endTurn``, ``stopSequence``, ``maxTokens``, ``toolUse`` or a provider's own value."""
        return self.answer.stop_reason

    @property
    def tool_uses(self) -> list[ToolUseContent]:
        """The tools the model wants to use, in order."""
        return [block for block in self.content if isinstance(block, ToolUseContent)]

    def with_results(self, results: Mapping[str, Any]) -> list[wire.SamplingMessage]:
        """Answer every use of a tool, and return the conversation to continue with.

        Args:
            results: what each tool returned, by ``ToolUseContent.id``: text, blocks of content, anything JSON can
                carry, or a ``ToolError`` for a tool that failed.

        Raises:
            LocalProtocolError: a use has no result, or a result belongs to no use.
        """
        uses = self.tool_uses
        open_ids = {use.id for use in uses}
        if open_ids != set(results):
            missing, foreign = open_ids - set(results), set(results) - open_ids
            raise LocalProtocolError(
                f"with_results: no result for {sorted(missing)}"
                if missing
                else f"with_results: no use {sorted(foreign)}"
            )
        blocks = [
            ToolResultContent(
                tool_use_id=use.id,
                content=content_of(str(result) if isinstance(result, ToolError) else result),
                is_error=isinstance(result, ToolError),
            )
            for use in uses
            for result in (results[use.id],)
        ]
        return [*self.messages, wire.SamplingMessage(role="user", content=blocks)]

    def __repr__(self) -> str:
        value = f", value={self.value!r}" if self.value is not None else ""
        return f"Sample(model={self.model!r}, stop_reason={self.stop_reason!r}, text={self.text[:60]!r}{value})"
