"""Anthropic's messages: its requests as asks of the host, and answers as its responses and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any, Literal

import msgspec

from antiphon.host.budget import input_estimate
from antiphon.model_api.dialects import members as typed
from antiphon.model_api.dialects.asked import Asked, Own, Said, asked_for, content_of, only_tool, tools_in
from antiphon.model_api.dialects.failures import Failure, anthropic_error
from antiphon.wire.content import ImageContent, SamplingContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import SamplingMessage, ToolChoice
from antiphon.wire.tools import Tool

__all__ = ["Messages"]

_STOPS = {"maxTokens": "max_tokens", "toolUse": "tool_use", "stopSequence": "stop_sequence", "contentFilter": "refusal"}
_MODES: Mapping[str, Literal["auto", "required", "none"]] = {"auto": "auto", "any": "required", "none": "none"}
_HIDDEN = ("thinking", "redacted_thinking")


class _Stream:
    """The events of one response."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._has_text = False

    def begin(self, answers: Sequence[Said] = ()) -> bytes:
        """Write what comes before all text."""
        usage = {"input_tokens": input_estimate(self._asked.params), "output_tokens": 0}
        return _event("message_start", {"message": _blank(self._asked.model, usage)})

    def text(self, piece: str, at: int = 0) -> bytes:
        """Write a piece of text."""
        if not piece:
            return b""
        start = b""
        if not self._has_text:
            self._has_text = True
            start = _event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
        return start + _event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": piece}})

    def end(self, answers: Sequence[Said], rests: Sequence[str]) -> bytes:
        """Write the rest of the answer, and the end."""
        answer = answers[0]
        parts = [self.text(rests[0])]
        if self._has_text:
            parts.append(_event("content_block_stop", {"index": 0}))
        for at, use in enumerate(answer.uses, int(self._has_text)):
            block: dict[str, Any] = {"type": "tool_use", "id": use.id, "name": use.name, "input": {}}
            written = msgspec.json.encode(use.input).decode()
            parts += [
                _event("content_block_start", {"index": at, "content_block": block}),
                _event(
                    "content_block_delta", {"index": at, "delta": {"type": "input_json_delta", "partial_json": written}}
                ),
                _event("content_block_stop", {"index": at}),
            ]
        usage = {"input_tokens": answer.usage.input_tokens, "output_tokens": answer.usage.output_tokens}
        delta = {"stop_reason": _stop(answer), "stop_sequence": None}
        parts += [_event("message_delta", {"delta": delta, "usage": usage}), _event("message_stop", {})]
        return b"".join(parts)

    def failed(self, failure: Failure) -> bytes:
        """Write a failure, after which nothing comes."""
        return b"event: error\ndata: " + anthropic_error(failure) + b"\n\n"


class Messages:
    """``POST /v1/messages``."""

    keep_alive = b'event: ping\ndata: {"type": "ping"}\n\n'
    error = staticmethod(anthropic_error)
    stream = _Stream

    @staticmethod
    def read(body: Mapping[str, Any], *, offers_tools: bool, counting: bool = False) -> Asked:
        """Read a request. ``counting``: only its tokens are to be counted, so it needs no ``max_tokens``.

        Raises:
            Failure: it cannot be used.
        """
        tools, choice = _choice(tools_in(body, _tool), body.get("tool_choice"))
        stops, schema = body.get("stop_sequences"), _schema(body)
        own = Own(
            messages=_conversation(body.get("messages")),
            system=_system(body.get("system")),
            max_tokens=1 if counting else typed.whole(body.get("max_tokens"), "max_tokens"),
            tools=tools,
            choice=choice,
            stops=[typed.text(each, "stop_sequences") for each in typed.items(stops, "stop_sequences")]
            if stops
            else None,
            schema=None if schema is None else (schema,),
        )
        return asked_for(body, typed.MESSAGES, own, offers_tools=offers_tools)

    @staticmethod
    def respond(asked: Asked, answers: Sequence[Said]) -> bytes:
        """Write the whole response."""
        answer = answers[0]
        content: list[dict[str, Any]] = (
            [{"type": "text", "text": answer.text}] if answer.text or not answer.uses else []
        )
        content += [{"type": "tool_use", "id": use.id, "name": use.name, "input": use.input} for use in answer.uses]
        usage = {"input_tokens": answer.usage.input_tokens, "output_tokens": answer.usage.output_tokens}
        return msgspec.json.encode({**_blank(answer.model, usage), "content": content, "stop_reason": _stop(answer)})


def _event(kind: str, data: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **data}))


def _blank(model: str, usage: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": f"msg_{token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def _stop(answer: Said) -> str:
    return _STOPS.get(answer.stop, "end_turn")


# --- requests ---------------------------------------------------------------------------------------------------------


def _system(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    return "\n\n".join(_text_block(block, place) for block, place in typed.objects(value, "system")) or None


def _text_block(block: Mapping[str, Any], place: str) -> str:
    if block.get("type") != "text":
        raise typed.unusable(f"{place}.type", "must be text")
    return typed.text(block.get("text"), f"{place}.text")


def _conversation(given: object) -> list[SamplingMessage]:
    messages: list[SamplingMessage] = []
    for message, place in typed.objects(given, "messages"):
        role = message.get("role")
        if role not in ("user", "assistant"):
            raise typed.unusable(f"{place}.role", "must be user or assistant")
        blocks = _blocks(message.get("content"), f"{place}.content")
        # In MCP a message with tool results holds nothing else.
        results = [block for block in blocks if isinstance(block, ToolResultContent)]
        others = [block for block in blocks if not isinstance(block, ToolResultContent)]
        if results:
            messages.append(SamplingMessage(role=role, content=results))
        if others or not results:
            messages.append(SamplingMessage(role=role, content=others))
    return messages


def _blocks(value: object, place: str) -> list[SamplingContent]:
    return [block for block in content_of(value, place, _block) if block is not None]


def _block(block: Mapping[str, Any], place: str) -> SamplingContent | None:
    """Read a block; ``None`` for hidden reasoning, which is left out of the conversation."""
    kind = block.get("type")
    if kind in _HIDDEN:
        return None
    if kind == "tool_use":
        return ToolUseContent(
            id=typed.text(block.get("id"), f"{place}.id"),
            name=typed.text(block.get("name"), f"{place}.name"),
            input=typed.members(block.get("input"), f"{place}.input"),
        )
    if kind == "tool_result":
        inner = block.get("content")
        found = [] if inner is None else _blocks(inner, f"{place}.content")
        return ToolResultContent(
            tool_use_id=typed.text(block.get("tool_use_id"), f"{place}.tool_use_id"),
            content=[each for each in found if isinstance(each, TextContent | ImageContent)],
            is_error=typed.boolean(block.get("is_error") or False, f"{place}.is_error"),
        )
    return _shown(block, place)


def _shown(block: Mapping[str, Any], place: str) -> SamplingContent:
    kind = block.get("type")
    if kind == "text":
        return TextContent(text=typed.text(block.get("text"), f"{place}.text"))
    source = typed.members(block.get("source") or {}, f"{place}.source")
    data = source.get("data")
    if kind == "image" and source.get("type") == "base64":
        mime = typed.text(source.get("media_type"), f"{place}.source.media_type")
        return ImageContent(data=typed.text(data, f"{place}.source.data"), mime_type=mime)
    if kind == "document" and source.get("type") == "text":
        return TextContent(text=typed.text(data, f"{place}.source.data"))
    raise typed.unusable(place, "must be text, an image as base64, a document of text, a tool_use or a tool_result")


def _tool(tool: Mapping[str, Any], place: str) -> Tool:
    if tool.get("type") not in (None, "custom"):
        raise typed.unusable(f"{place}.type", "tools of the vendor are not offered: the host runs none")
    return Tool(
        name=typed.text(tool.get("name"), f"{place}.name"),
        description=typed.optional_text(tool.get("description"), f"{place}.description"),
        input_schema=dict(typed.members(tool.get("input_schema"), f"{place}.input_schema")),
    )


def _choice(tools: list[Tool], value: object) -> tuple[list[Tool], ToolChoice | None]:
    if value is None or not tools:
        return tools, None
    wanted = typed.members(value, "tool_choice")
    kind = wanted.get("type")
    if kind == "tool":
        name = typed.text(wanted.get("name"), "tool_choice.name")
        return only_tool(tools, name, "tool_choice.name"), ToolChoice(mode="required")
    mode = _MODES.get(kind) if isinstance(kind, str) else None
    if mode is None:
        raise typed.unusable("tool_choice.type", "must be auto, any, tool or none")
    return tools, ToolChoice(mode=mode)


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    config = typed.members(body.get("output_config") or {}, "output_config")
    wanted = config.get("format") or body.get("output_format")
    if wanted is None:
        return None
    form = typed.members(wanted, "output_config.format")
    if form.get("type") != "json_schema":
        raise typed.unusable("output_config.format.type", "must be json_schema")
    return typed.members(form.get("schema"), "output_config.format.schema")
