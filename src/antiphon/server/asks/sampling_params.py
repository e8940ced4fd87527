"""Sampling from a handler: what an author writes, as a request that keeps the protocol's rules.

Owns the readings of ``ctx.sample``'s arguments. Asking, and what is done with the answer, is ``tool_loop``'.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from antiphon.errors import InvalidParams, LocalProtocolError
from antiphon.wire.content import AudioContent, ImageContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import (
    CreateMessageRequestParams,
    IncludeContext,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
    check_conversation,
)
from antiphon.wire.tools import Tool

__all__ = ["DEFAULT_MAX_TOKENS", "Message", "Messages", "Preferences", "sampling_params"]

DEFAULT_MAX_TOKENS = 1_024
"""Most tokens of an answer where the author gives no number: a page of text, and cheap on any model."""

Message = str | TextContent | ImageContent | AudioContent | SamplingMessage
"""A message: text or a block of content is the user's."""

Messages = Message | Sequence[Message]
Preferences = str | Sequence[str] | ModelPreferences | Mapping[str, float | str | Sequence[str]]
"""A model's name, several in order of preference, priorities as in ``{"cost": 0.3, "hints": ["sonnet"]}``, or all of
it as it travels."""

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
    include_context: IncludeContext | None = None,
    metadata: Mapping[str, Any] | None = None,
    tools: Sequence[Tool] | None = None,
    tool_choice: str | ToolChoice | None = None,
) -> CreateMessageRequestParams:
    """Build the params of ``sampling/createMessage`` from what an author writes.

    Raises:
        LocalProtocolError: an argument is out of range, or the conversation breaks a rule, whose place is named
            (``messages[3].content[0]``); nothing was sent.
    """
    if type(max_tokens) is not int or max_tokens < 1:
        raise LocalProtocolError(f"max_tokens must be at least 1, and a whole number, got {max_tokens!r}")
    given = (system_prompt, temperature, stop_sequences, metadata)
    for value, (name, kind, words) in zip(given, _KINDS, strict=True) if given != _NOTHING else ():
        # Of a text as stop_sequences each letter would be one.
        if value is not None and (not isinstance(value, kind) or (kind is Sequence and isinstance(value, str))):
            raise LocalProtocolError(f"{name} must be {words}, got {value!r}")
    if temperature is not None and not math.isfinite(temperature):
        raise LocalProtocolError(f"temperature must be a finite number, got {temperature}")
    if include_context not in _CONTEXTS:
        raise LocalProtocolError(
            f'include_context must be "none", "thisServer" or "allServers", got {include_context!r}'
        )
    choice = ToolChoice(mode=_mode(tool_choice)) if isinstance(tool_choice, str) else tool_choice
    if choice is not None and choice.mode == "required" and not tools:
        raise LocalProtocolError('tool_choice="required" needs tools=')
    return CreateMessageRequestParams(
        messages=_conversation(messages),
        max_tokens=max_tokens,
        system_prompt=system_prompt,
        temperature=temperature,
        stop_sequences=list(stop_sequences) if stop_sequences is not None else None,
        model_preferences=_preferences(model_preferences) if model_preferences is not None else None,
        include_context=include_context,
        metadata=dict(metadata) if metadata is not None else None,
        tools=list(tools) if tools is not None else None,
        tool_choice=choice,
    )


def _conversation(messages: Messages) -> list[SamplingMessage]:
    if isinstance(messages, str):
        # The usual case, in which no rule can be broken.
        return [SamplingMessage(role="user", content=TextContent(text=messages))]
    single = isinstance(messages, (SamplingMessage, *_BLOCKS))
    if not single and (isinstance(messages, Mapping | bytes) or not hasattr(messages, "__iter__")):
        raise LocalProtocolError(f"messages is a {type(messages).__name__}: give {_WHAT}, or a list of these")
    given = cast("Sequence[Message]", [messages] if single else messages)
    conversation = [_message(one, at) for at, one in enumerate(given)]
    if not conversation:
        raise LocalProtocolError("messages must not be empty")
    try:
        # 2025-11-25 client/sampling: "Servers MUST ensure that ... each ToolUseContent item is responded to".
        check_conversation(conversation)
    except InvalidParams as error:
        raise LocalProtocolError(error.message) from None
    return conversation


def _message(given: object, at: int) -> SamplingMessage:
    if isinstance(given, SamplingMessage):
        return given
    if isinstance(given, str):
        return SamplingMessage(role="user", content=TextContent(text=given))
    if isinstance(given, _BLOCKS):
        return SamplingMessage(role="user", content=given)
    raise LocalProtocolError(f"messages[{at}] is a {type(given).__name__}: give {_WHAT}")


def _preferences(given: Preferences) -> ModelPreferences:
    if isinstance(given, ModelPreferences):
        wanted = given
    elif isinstance(given, Mapping):
        wanted = _priorities(cast("Mapping[str, Any]", given))
    else:
        wanted = ModelPreferences(hints=_hints(given))
    for name in _PRIORITIES:
        value: object = getattr(wanted, f"{name}_priority")
        if value is not None and not _is_share(value):
            raise LocalProtocolError(f"model_preferences: the {name} priority must be from 0 to 1, got {value!r}")
    return wanted


def _priorities(given: Mapping[str, Any]) -> ModelPreferences:
    unknown = sorted(set(given) - {*_PRIORITIES, "hints"})
    if unknown:
        raise LocalProtocolError(
            f'model_preferences: unknown {", ".join(map(repr, unknown))}; known are "cost", "speed", "intelligence" '
            '(each from 0 to 1) and "hints"'
        )
    return ModelPreferences(
        hints=_hints(given["hints"]) if "hints" in given else None,
        cost_priority=given.get("cost"),
        speed_priority=given.get("speed"),
        intelligence_priority=given.get("intelligence"),
    )


def _hints(names: str | Sequence[str]) -> list[ModelHint]:
    if not hasattr(names, "__iter__"):
        raise LocalProtocolError(
            f"model_preferences must be a model's name, a list of names, a mapping or ModelPreferences, got {names!r}"
        )
    found = [names] if isinstance(names, str) else list(names)
    for name in cast("list[object]", found):
        if not isinstance(name, str):
            raise LocalProtocolError(f"model_preferences: a model's name is text, got {name!r}")
    return [ModelHint(name=name) for name in found]


def _is_share(value: object) -> bool:
    # Schema: minimum 0, maximum 1. Not-a-number fails the comparison as well.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _mode(choice: str) -> Literal["auto", "required", "none"]:
    if choice not in ("auto", "required", "none"):
        raise LocalProtocolError(f'tool_choice must be "auto", "required" or "none", got {choice!r}')
    return choice
