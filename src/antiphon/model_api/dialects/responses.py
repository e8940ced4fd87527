"""OpenAI's responses: its requests as asks of the host, and answers as its responses and streams.

Nothing is kept between requests, so clients must send the whole conversation each time (``store=False``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

import msgspec

from antiphon.model_api.dialects import members as typed
from antiphon.model_api.dialects.asked import (
    DialectAnswer,
    DialectRequest,
    Own,
    content_of,
    read_common_parts,
    tools_in,
)
from antiphon.model_api.dialects.chat import DEFAULT_TOKENS, function_tool, image_of, read_schema, tool_choice
from antiphon.model_api.dialects.members import Failure, openai_error
from antiphon.wire.content import ImageContent, SamplingContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import SamplingMessage

_SYSTEM = ("system", "developer")


class _ResponsesStream:
    """The events of one response; see ``Writer``."""

    def __init__(self, asked: DialectRequest) -> None:
        self._blank = _make_blank_response(f"resp_{token_hex(12)}", asked.model)
        self._item = f"msg_{token_hex(12)}"
        self._number = 0
        self._has_text = False

    def begin(self) -> bytes:
        return self._event("response.created", response=self._blank) + self._event(
            "response.in_progress", response=self._blank
        )

    def text(self, piece: str, at: int = 0) -> bytes:
        if not piece:
            return b""
        start = b""
        if not self._has_text:
            self._has_text = True
            item: dict[str, Any] = {**_write_message(self._item, ""), "status": "in_progress", "content": []}
            start = self._event("response.output_item.added", output_index=0, item=item) + self._part(
                "response.content_part.added", part=_write_words("")
            )
        return start + self._part("response.output_text.delta", delta=piece, logprobs=[])

    def end(self, answers: Sequence[DialectAnswer], rests: Sequence[str]) -> bytes:
        answer = answers[0]
        parts = [self.text(rests[0])]
        if self._has_text:
            parts += [
                self._part("response.output_text.done", text=answer.text, logprobs=[]),
                self._part("response.content_part.done", part=_write_words(answer.text)),
                self._event("response.output_item.done", output_index=0, item=_write_message(self._item, answer.text)),
            ]
        output = _write_output(answer, self._item)
        for at, item in enumerate(output):
            if item["type"] != "function_call":
                continue
            begun = {**item, "arguments": "", "status": "in_progress"}
            parts += [
                self._event("response.output_item.added", output_index=at, item=begun),
                self._call("response.function_call_arguments.delta", at, item, delta=item["arguments"]),
                self._call(
                    "response.function_call_arguments.done", at, item, arguments=item["arguments"], name=item["name"]
                ),
                self._event("response.output_item.done", output_index=at, item=item),
            ]
        whole_ = {**self._blank, **_describe_end(answer), "output": output}
        kind = "response.completed" if whole_["status"] == "completed" else "response.incomplete"
        return b"".join(parts) + self._event(kind, response=whole_)

    def failed(self, failure: Failure) -> bytes:
        return self._event("error", code=failure.code, message=failure.message, param=failure.param)

    def _part(self, kind: str, **more: Any) -> bytes:
        return self._event(kind, item_id=self._item, output_index=0, content_index=0, **more)

    def _call(self, kind: str, at: int, item: Mapping[str, Any], **more: Any) -> bytes:
        return self._event(kind, item_id=item["id"], output_index=at, **more)

    def _event(self, kind: str, **data: Any) -> bytes:
        number_, self._number = self._number, self._number + 1
        written = msgspec.json.encode({"type": kind, "sequence_number": number_, **data})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), written)


class Responses:
    """``POST /v1/responses``."""

    keep_alive = b": keep-alive\n\n"
    error = staticmethod(openai_error)
    stream = _ResponsesStream

    @staticmethod
    def read(body: Mapping[str, Any], *, offers_tools: bool) -> DialectRequest:
        """Read a request, or raise ``Failure``."""
        system, messages = _read_conversation(body.get("input"))
        instructions = typed.optional_text(body.get("instructions"), "instructions")
        tools, choice = tool_choice(tools_in(body, function_tool), body.get("tool_choice"))
        most = body.get("max_output_tokens")
        own = Own(
            messages=messages,
            system="\n\n".join(each for each in (instructions, *system) if each) or None,
            max_tokens=DEFAULT_TOKENS if most is None else typed.read_whole_number(most, "max_output_tokens"),
            tools=tools,
            choice=choice,
            schema=read_schema(typed.read_members(body.get("text") or {}, "text").get("format") or None, "text.format"),
        )
        return read_common_parts(body, typed.RESPONSES, own, offers_tools=offers_tools)

    @staticmethod
    def respond(asked: DialectRequest, answers: Sequence[DialectAnswer]) -> bytes:
        """Write the whole response."""
        answer = answers[0]
        blank = _make_blank_response(f"resp_{token_hex(12)}", answer.model)
        return msgspec.json.encode(
            {**blank, **_describe_end(answer), "output": _write_output(answer, f"msg_{token_hex(12)}")}
        )


def _make_blank_response(id: str, model: str) -> dict[str, Any]:
    return {
        "id": id,
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "model": model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "store": False,
    }


def _describe_end(answer: DialectAnswer) -> dict[str, Any]:
    used = answer.usage
    usage = {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.input_tokens + used.output_tokens,
    }
    reasons = {"maxTokens": "max_output_tokens", "contentFilter": "content_filter"}
    reason = reasons.get(answer.stop)
    return {
        "status": "completed" if reason is None else "incomplete",
        "incomplete_details": None if reason is None else {"reason": reason},
        "usage": usage,
    }


def _write_words(written: str) -> dict[str, Any]:
    return {"type": "output_text", "text": written, "annotations": [], "logprobs": []}


def _write_message(id: str, written: str) -> dict[str, Any]:
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": [_write_words(written)]}


def _write_output(answer: DialectAnswer, id: str) -> list[dict[str, Any]]:
    output = [_write_message(id, answer.text)] if answer.text or not answer.uses else []
    for at, use in enumerate(answer.uses):
        output.append(
            {
                "type": "function_call",
                "id": f"fc_{id.removeprefix('msg_')}_{at}",
                "call_id": use.id,
                "name": use.name,
                "arguments": msgspec.json.encode(use.input).decode(),
                "status": "completed",
            }
        )
    return output


# --- requests ---------------------------------------------------------------------------------------------------------


def _read_conversation(given: object) -> tuple[list[str], list[SamplingMessage]]:
    """Read the input: system texts, and messages. Tool uses in a row become one message, and so do tool results."""
    if isinstance(given, str):
        return [], [SamplingMessage(role="user", content=TextContent(text=given))]
    system: list[str] = []
    turns: list[tuple[str, list[SamplingContent]]] = []
    for item, place in typed.read_objects(given, "input"):
        role, blocks = _read_item(item, place)
        if role in _SYSTEM:
            system += [block.text for block in blocks if isinstance(block, TextContent)]
        elif turns and (role == turns[-1][0] == "assistant" or _are_results(blocks, turns[-1][1])):
            turns[-1][1].extend(blocks)
        elif role:
            turns.append((role, blocks))
    return system, [
        SamplingMessage(role="assistant" if role == "assistant" else "user", content=blocks) for role, blocks in turns
    ]


def _are_results(*several: Sequence[SamplingContent]) -> bool:
    """Return whether each of these has blocks, all of them results of tools."""
    return all(blocks and all(isinstance(block, ToolResultContent) for block in blocks) for blocks in several)


def _read_item(item: Mapping[str, Any], place: str) -> tuple[str, list[SamplingContent]]:
    """Return the role and the blocks of an item; the role of hidden reasoning is empty, since it is left out."""
    kind = item.get("type") or "message"
    if kind == "reasoning":
        return "", []
    if kind == "function_call":
        return "assistant", [_read_tool_use(item, place)]
    if kind == "function_call_output":
        called = typed.read_text(item.get("call_id"), f"{place}.call_id")
        return "user", [
            ToolResultContent(tool_use_id=called, content=_read_content(item.get("output"), f"{place}.output"))
        ]
    if kind != "message":
        raise typed.make_unusable_failure(
            f"{place}.type", "must be message, function_call, function_call_output or reasoning"
        )
    role = item.get("role")
    if role not in ("user", "assistant", *_SYSTEM):
        raise typed.make_unusable_failure(f"{place}.role", "must be user, assistant, system or developer")
    return role, _read_content(item.get("content"), f"{place}.content")


def _read_tool_use(item: Mapping[str, Any], place: str) -> ToolUseContent:
    return ToolUseContent(
        id=typed.read_text(item.get("call_id"), f"{place}.call_id"),
        name=typed.read_text(item.get("name"), f"{place}.name"),
        input=typed.read_arguments(item.get("arguments"), f"{place}.arguments"),
    )


def _read_content(value: object, place: str) -> list[Any]:
    return list(content_of(value, place, _read_part))


def _read_part(part: Mapping[str, Any], place: str) -> TextContent | ImageContent:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return TextContent(text=typed.read_text(part.get("text"), f"{place}.text"))
    if kind == "refusal":
        return TextContent(text=typed.read_text(part.get("refusal"), f"{place}.refusal"))
    if kind == "input_image":
        return image_of(typed.read_text(part.get("image_url"), f"{place}.image_url"), f"{place}.image_url")
    raise typed.make_unusable_failure(f"{place}.type", "must be input_text, output_text or input_image")
