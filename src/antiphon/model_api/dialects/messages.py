"""Anthropic's messages: its requests as asks of the host, and answers as its responses and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

import msgspec

from antiphon.host.budget import input_estimate
from antiphon.model_api.dialects import asked as typed
from antiphon.model_api.dialects.asked import DialectAnswer, DialectRequest, Failure, Own, anthropic_error
from antiphon.wire.content import ImageContent, SamplingContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import SamplingMessage, ToolChoice
from antiphon.wire.tools import Tool

_STOPS = {"maxTokens": "max_tokens", "toolUse": "tool_use", "stopSequence": "stop_sequence", "contentFilter": "refusal"}
_MODES: Mapping[str, Literal["auto", "required", "none"]] = {"auto": "auto", "any": "required", "none": "none"}
_HIDDEN = ("thinking", "redacted_thinking")
_BLANK_MESSAGE = Path(__file__).with_name("blank_message.json").read_bytes()


class _MessagesStream:
    """The events of one response, from ``begin`` over pieces of text to ``end`` or ``failed``."""

    def __init__(self, asked: DialectRequest) -> None:
        self._asked = asked
        self._has_text = False

    def begin(self) -> bytes:
        usage = {"input_tokens": input_estimate(self._asked.params), "output_tokens": 0}
        return _write_event("message_start", {"message": _make_blank_message(self._asked.model, usage)})

    def text(self, piece: str, at: int = 0) -> bytes:
        if not piece:
            return b""
        start = b""
        if not self._has_text:
            self._has_text = True
            start = _write_event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
        return start + _write_event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": piece}})

    def end(self, answers: Sequence[DialectAnswer], rests: Sequence[str]) -> bytes:
        answer = answers[0]
        parts = [self.text(rests[0])]
        if self._has_text:
            parts.append(_write_event("content_block_stop", {"index": 0}))
        for at, use in enumerate(answer.uses, int(self._has_text)):
            block: dict[str, Any] = {"type": "tool_use", "id": use.id, "name": use.name, "input": {}}
            written = msgspec.json.encode(use.input).decode()
            parts += [
                _write_event("content_block_start", {"index": at, "content_block": block}),
                _write_event(
                    "content_block_delta", {"index": at, "delta": {"type": "input_json_delta", "partial_json": written}}
                ),
                _write_event("content_block_stop", {"index": at}),
            ]
        usage = {"input_tokens": answer.usage.input_tokens, "output_tokens": answer.usage.output_tokens}
        delta = {"stop_reason": _STOPS.get(answer.stop, "end_turn"), "stop_sequence": None}
        parts += [_write_event("message_delta", {"delta": delta, "usage": usage}), _write_event("message_stop", {})]
        return b"".join(parts)

    def failed(self, failure: Failure) -> bytes:
        return b"event: error\ndata: " + anthropic_error(failure) + b"\n\n"


class Messages:
    """``POST /v1/messages``."""

    keep_alive = b'event: ping\ndata: {"type": "ping"}\n\n'
    stream = _MessagesStream

    @staticmethod
    def read(body: Mapping[str, Any], *, offers_tools: bool, counting: bool = False) -> DialectRequest:
        """Read a request, or raise ``Failure``. ``counting``: only count its tokens, so it needs no ``max_tokens``."""
        tools, choice = _read_choice(typed.tools_in(body, _read_tool), body.get("tool_choice"))
        stops, schema = body.get("stop_sequences"), _read_schema(body)
        own = Own(
            messages=_read_conversation(body.get("messages")),
            system=_read_system(body.get("system")),
            max_tokens=1 if counting else typed.read_whole_number(body.get("max_tokens"), "max_tokens"),
            tools=tools,
            choice=choice,
            stops=[typed.read_text(each, "stop_sequences") for each in typed.read_items(stops, "stop_sequences")]
            if stops
            else None,
            schema=None if schema is None else (schema,),
        )
        return typed.read_common_parts(body, typed.MESSAGES, own, offers_tools=offers_tools)

    @staticmethod
    def respond(asked: DialectRequest, answers: Sequence[DialectAnswer]) -> bytes:
        """Write the whole response."""
        answer = answers[0]
        content: list[dict[str, Any]] = (
            [{"type": "text", "text": answer.text}] if answer.text or not answer.uses else []
        )
        content += [{"type": "tool_use", "id": use.id, "name": use.name, "input": use.input} for use in answer.uses]
        usage = {"input_tokens": answer.usage.input_tokens, "output_tokens": answer.usage.output_tokens}
        return msgspec.json.encode(
            {
                **_make_blank_message(answer.model, usage),
                "content": content,
                "stop_reason": _STOPS.get(answer.stop, "end_turn"),
            }
        )


def _write_event(kind: str, data: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **data}))


def _make_blank_message(model: str, usage: Mapping[str, int]) -> dict[str, Any]:
    blank = msgspec.json.decode(_BLANK_MESSAGE, type=dict[str, Any])
    return {**blank, "id": f"msg_{token_hex(12)}", "model": model, "usage": usage}


# --- requests ---------------------------------------------------------------------------------------------------------


def _read_system(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    texts: list[str] = []
    for block, place in typed.read_objects(value, "system"):
        if block.get("type") != "text":
            raise typed.make_unusable_failure(f"{place}.type", "must be text")
        texts.append(typed.read_text(block.get("text"), f"{place}.text"))
    return "\n\n".join(texts) or None


def _read_conversation(given: object) -> list[SamplingMessage]:
    messages: list[SamplingMessage] = []
    for message, place in typed.read_objects(given, "messages"):
        role = message.get("role")
        if role not in ("user", "assistant"):
            raise typed.make_unusable_failure(f"{place}.role", "must be user or assistant")
        blocks = _read_blocks(message.get("content"), f"{place}.content")
        # In MCP a message with tool results holds nothing else.
        results = [block for block in blocks if isinstance(block, ToolResultContent)]
        others = [block for block in blocks if not isinstance(block, ToolResultContent)]
        if results:
            messages.append(SamplingMessage(role=role, content=results))
        if others or not results:
            messages.append(SamplingMessage(role=role, content=others))
    return messages


def _read_blocks(value: object, place: str) -> list[SamplingContent]:
    return [block for block in typed.content_of(value, place, _read_block) if block is not None]


def _read_block(block: Mapping[str, Any], place: str) -> SamplingContent | None:
    """Read a block; ``None`` for hidden reasoning, which is left out of the conversation."""
    kind = block.get("type")
    if kind in _HIDDEN:
        return None
    if kind == "tool_use":
        return ToolUseContent(
            id=typed.read_text(block.get("id"), f"{place}.id"),
            name=typed.read_text(block.get("name"), f"{place}.name"),
            input=typed.read_members(block.get("input"), f"{place}.input"),
        )
    if kind == "tool_result":
        inner = block.get("content")
        found = [] if inner is None else _read_blocks(inner, f"{place}.content")
        return ToolResultContent(
            tool_use_id=typed.read_text(block.get("tool_use_id"), f"{place}.tool_use_id"),
            content=[each for each in found if isinstance(each, TextContent | ImageContent)],
            is_error=typed.read_boolean(block.get("is_error") or False, f"{place}.is_error"),
        )
    return _read_shown_block(block, place)


def _read_shown_block(block: Mapping[str, Any], place: str) -> SamplingContent:
    kind = block.get("type")
    if kind == "text":
        return TextContent(text=typed.read_text(block.get("text"), f"{place}.text"))
    source = typed.read_members(block.get("source") or {}, f"{place}.source")
    data = source.get("data")
    if kind == "image" and source.get("type") == "base64":
        mime = typed.read_text(source.get("media_type"), f"{place}.source.media_type")
        return ImageContent(data=typed.read_text(data, f"{place}.source.data"), mime_type=mime)
    if kind == "document" and source.get("type") == "text":
        return TextContent(text=typed.read_text(data, f"{place}.source.data"))
    raise typed.make_unusable_failure(
        place, "must be text, an image as base64, a document of text, a tool_use or a tool_result"
    )


def _read_tool(tool: Mapping[str, Any], place: str) -> Tool:
    if tool.get("type") not in (None, "custom"):
        raise typed.make_unusable_failure(f"{place}.type", "tools of the vendor are not offered: the host runs none")
    return Tool(
        name=typed.read_text(tool.get("name"), f"{place}.name"),
        description=typed.optional_text(tool.get("description"), f"{place}.description"),
        input_schema=dict(typed.read_members(tool.get("input_schema"), f"{place}.input_schema")),
    )


def _read_choice(tools: list[Tool], value: object) -> tuple[list[Tool], ToolChoice | None]:
    if value is None or not tools:
        return tools, None
    wanted = typed.read_members(value, "tool_choice")
    kind = wanted.get("type")
    if kind == "tool":
        name = typed.read_text(wanted.get("name"), "tool_choice.name")
        return typed.only_tool(tools, name, "tool_choice.name"), ToolChoice(mode="required")
    mode = _MODES.get(kind) if isinstance(kind, str) else None
    if mode is None:
        raise typed.make_unusable_failure("tool_choice.type", "must be auto, any, tool or none")
    return tools, ToolChoice(mode=mode)


def _read_schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    config = typed.read_members(body.get("output_config") or {}, "output_config")
    wanted = config.get("format") or body.get("output_format")
    if wanted is None:
        return None
    form = typed.read_members(wanted, "output_config.format")
    if form.get("type") != "json_schema":
        raise typed.make_unusable_failure("output_config.format.type", "must be json_schema")
    return typed.read_members(form.get("schema"), "output_config.format.schema")


Stream = _MessagesStream
"""Writes the events of one response."""
