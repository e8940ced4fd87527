"""OpenAI's chat completions and responses: requests as asks of the host, answers as its responses and streams.

Nothing is kept between requests, so clients of ``/v1/responses`` must send the whole conversation each time
(``store=False``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from antiphon.model_api.dialects import asked as typed
from antiphon.model_api.dialects.asked import DialectAnswer, DialectRequest, Failure, Own, openai_error
from antiphon.wire.content import (
    AudioContent,
    ImageContent,
    SamplingContent,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from antiphon.wire.sampling import SamplingMessage, ToolChoice
from antiphon.wire.tools import Tool

DEFAULT_TOKENS = 4_096
"""Most tokens of an answer if the request sets no bound; the reservation needs one."""
MAX_CHOICES = 8
"""Most choices of one request; each is an ask."""

_SOUNDS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_STOPS = {"maxTokens": "length", "toolUse": "tool_calls", "contentFilter": "content_filter"}
_SYSTEM = ("system", "developer")
_BLANK_RESPONSE = Path(__file__).with_name("blank_response.json").read_bytes()


class _ChatStream:
    """The events of one response, from ``begin`` over pieces of text to ``end`` or ``failed``."""

    def __init__(self, asked: DialectRequest) -> None:
        self._asked = asked
        self._head = _make_head("chat.completion.chunk", asked.model)

    def begin(self) -> bytes:
        return b"".join(self._chunk(at, {"role": "assistant", "content": ""}) for at in range(max(1, self._asked.n)))

    def text(self, piece: str, at: int = 0) -> bytes:
        return self._chunk(at, {"content": piece}) if piece else b""

    def end(self, answers: Sequence[DialectAnswer], rests: Sequence[str]) -> bytes:
        parts: list[bytes] = []
        for at, (answer, rest) in enumerate(zip(answers, rests, strict=True)):
            parts.append(self.text(rest, at))
            for number_, use in enumerate(answer.uses):
                parts.append(self._chunk(at, {"tool_calls": [{"index": number_, **_tool_call(use)}]}))
            parts.append(self._chunk(at, {}, _STOPS.get(answer.stop, "stop")))
        if self._asked.counts:
            parts.append(_write_event({**self._head, "choices": [], "usage": _sum_up_usage(answers)}))
        return b"".join(parts) + b"data: [DONE]\n\n"

    def failed(self, failure: Failure) -> bytes:
        return b"data: " + openai_error(failure) + b"\n\n"

    def _chunk(self, at: int, delta: Mapping[str, Any], stop: str | None = None) -> bytes:
        choice = {"index": at, "delta": delta, "logprobs": None, "finish_reason": stop}
        return _write_event({**self._head, "choices": [choice]})


class Chat:
    """``POST /v1/chat/completions``."""

    keep_alive = b": keep-alive\n\n"
    stream = _ChatStream

    @staticmethod
    def read(body: Mapping[str, Any], *, offers_tools: bool) -> DialectRequest:
        """Read a request, or raise ``Failure``."""
        system, messages = _read_conversation(body.get("messages"))
        tools = typed.tools_in(body, partial(_read_function_tool, nested="function"))
        tools, choice = _read_tool_choice(tools, body.get("tool_choice"), nested="function")
        most = body.get("max_completion_tokens", body.get("max_tokens"))
        n = typed.read_whole_number(body.get("n") or 1, "n")
        if n > MAX_CHOICES:
            raise typed.make_unusable_failure("n", f"at most {MAX_CHOICES}")
        options = typed.read_members(body.get("stream_options") or {}, "stream_options")
        own = Own(
            messages=messages,
            system=system,
            max_tokens=DEFAULT_TOKENS if most is None else typed.read_whole_number(most, "max_tokens"),
            tools=tools,
            choice=choice,
            stops=_read_stops(body.get("stop")),
            schema=_read_schema(body.get("response_format"), "response_format", nested="json_schema"),
            n=n,
            counts=typed.read_boolean(options.get("include_usage") or False, "stream_options.include_usage"),
        )
        return typed.read_common_parts(body, typed.CHAT, own, offers_tools=offers_tools)

    @staticmethod
    def respond(asked: DialectRequest, answers: Sequence[DialectAnswer]) -> bytes:
        """Write the whole response."""
        choices = [
            {
                "index": at,
                "message": _write_message(each),
                "logprobs": None,
                "finish_reason": _STOPS.get(each.stop, "stop"),
            }
            for at, each in enumerate(answers)
        ]
        head = _make_head("chat.completion", answers[0].model)
        return msgspec.json.encode({**head, "choices": choices, "usage": _sum_up_usage(answers)})


def _make_head(kind: str, model: str) -> dict[str, Any]:
    """Make the members with which a whole response begins, and each piece of a stream."""
    return {"id": f"chatcmpl-{token_hex(12)}", "object": kind, "created": int(time.time()), "model": model}


def _write_event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def _sum_up_usage(answers: Sequence[DialectAnswer]) -> dict[str, int]:
    """Return the usage of several answers together, as OpenAI counts it."""
    read = sum(each.usage.input_tokens for each in answers)
    written = sum(each.usage.output_tokens for each in answers)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _write_message(answer: DialectAnswer) -> dict[str, Any]:
    text = answer.text or (None if answer.uses else "")
    uses = {"tool_calls": [_tool_call(use) for use in answer.uses]} if answer.uses else {}
    return {"role": "assistant", "content": text, "refusal": None, "annotations": [], **uses}


def _tool_call(use: ToolUseContent) -> dict[str, Any]:
    written = msgspec.json.encode(use.input).decode()
    return {"id": use.id, "type": "function", "function": {"name": use.name, "arguments": written}}


# --- requests ---------------------------------------------------------------------------------------------------------


def _read_conversation(given: object) -> tuple[str | None, list[SamplingMessage]]:
    """Read the messages. System messages become the system prompt; tool results in a row become one message."""
    system: list[str] = []
    messages: list[SamplingMessage] = []
    results: list[ToolResultContent] = []
    for message, place in typed.read_objects(given, "messages"):
        role = message.get("role")
        if role == "tool":
            results.append(_read_tool_result(message, place))
            continue
        if results:
            messages.append(SamplingMessage(role="user", content=results))
            results = []
        if role in _SYSTEM:
            system.append(_read_plain_text(message.get("content"), f"{place}.content"))
        elif role == "user":
            content = typed.content_of(message.get("content"), f"{place}.content", _read_part)
            messages.append(SamplingMessage(role="user", content=content))
        elif role == "assistant":
            messages.append(SamplingMessage(role="assistant", content=list(_read_assistant(message, place))))
        else:
            raise typed.make_unusable_failure(f"{place}.role", "must be system, developer, user, assistant or tool")
    if results:
        messages.append(SamplingMessage(role="user", content=results))
    return "\n\n".join(system) or None, messages


def _read_part(part: Mapping[str, Any], place: str) -> SamplingContent:
    kind = part.get("type")
    if kind == "text":
        return TextContent(text=typed.read_text(part.get("text"), f"{place}.text"))
    if kind == "image_url":
        image = typed.read_members(part.get("image_url"), f"{place}.image_url")
        return _read_image(typed.read_text(image.get("url"), f"{place}.image_url.url"), f"{place}.image_url.url")
    if kind == "input_audio":
        sound = typed.read_members(part.get("input_audio"), f"{place}.input_audio")
        mime = _SOUNDS.get(typed.read_text(sound.get("format"), f"{place}.input_audio.format"))
        if mime is None:
            raise typed.make_unusable_failure(f"{place}.input_audio.format", "must be wav or mp3")
        return AudioContent(data=typed.read_text(sound.get("data"), f"{place}.input_audio.data"), mime_type=mime)
    raise typed.make_unusable_failure(f"{place}.type", "must be text, image_url or input_audio")


def _read_image(url: str, place: str) -> ImageContent:
    """Return an image from a ``data:`` URL. Nothing is fetched from anywhere."""
    head, comma, data = url.partition(",")
    mime = head.removeprefix("data:").removesuffix(";base64")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        raise typed.make_unusable_failure(place, "must be a data: URL with an image in base64; nothing is fetched")
    return ImageContent(data=data, mime_type=mime.partition(";")[0])


def _read_plain_text(value: object, place: str) -> str:
    """Return content that may be text only."""
    blocks = typed.content_of(value, place, _read_part)
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    if len(texts) != len(blocks):
        raise typed.make_unusable_failure(place, "must be text")
    return "\n".join(texts)


def _read_tool_result(message: Mapping[str, Any], place: str) -> ToolResultContent:
    called = typed.read_text(message.get("tool_call_id"), f"{place}.tool_call_id")
    blocks = typed.content_of(message.get("content"), f"{place}.content", _read_part)
    fitting = [block for block in blocks if isinstance(block, TextContent | ImageContent | AudioContent)]
    return ToolResultContent(tool_use_id=called, content=fitting)


def _read_assistant(message: Mapping[str, Any], place: str) -> Iterator[SamplingContent]:
    if message.get("refusal"):
        yield TextContent(text=typed.read_text(message["refusal"], f"{place}.refusal"))
    if message.get("content"):
        content = message["content"]
        parts: list[Any] = [content] if isinstance(content, str) else typed.read_items(content, f"{place}.content")
        for part in parts:
            said = part if isinstance(part, str) else typed.read_members(part, f"{place}.content")
            text = said if isinstance(said, str) else said.get("text", said.get("refusal"))
            yield TextContent(text=typed.read_text(text, f"{place}.content"))
    for call, at in typed.read_objects(message.get("tool_calls") or [], f"{place}.tool_calls"):
        yield _read_tool_use(call, at, id="id", nested="function")


def _read_tool_use(call: Mapping[str, Any], place: str, *, id: str, nested: str = "") -> ToolUseContent:
    """Read a call of a tool. ``id``: the member with its id; ``nested``: as for ``_read_function_tool``."""
    function, at = _read_description(call, place, nested)
    return ToolUseContent(
        id=typed.read_text(call.get(id), f"{place}.{id}"),
        name=typed.read_text(function.get("name"), f"{at}.name"),
        input=typed.read_arguments(function.get("arguments"), f"{at}.arguments"),
    )


def _read_function_tool(tool: Mapping[str, Any], place: str, *, nested: str = "") -> Tool:
    """Read a tool. ``nested``: the member that holds its description; by default the tool itself."""
    if tool.get("type") != "function":
        raise typed.make_unusable_failure(f"{place}.type", "must be function: the host runs no tools")
    function, place = _read_description(tool, place, nested)
    return Tool(
        name=typed.read_text(function.get("name"), f"{place}.name"),
        description=typed.optional_text(function.get("description"), f"{place}.description"),
        input_schema=dict(typed.read_members(function.get("parameters") or {"type": "object"}, f"{place}.parameters")),
    )


def _read_tool_choice(tools: list[Tool], value: object, *, nested: str = "") -> tuple[list[Tool], ToolChoice | None]:
    """Return the tools to offer, and whether one must be used. ``nested``: as for ``_read_function_tool``."""
    if value is None or not tools:
        return tools, None
    if value in ("auto", "required", "none"):
        return tools, ToolChoice(mode=value)
    function, place = _read_description(typed.read_members(value, "tool_choice"), "tool_choice", nested)
    name = typed.read_text(function.get("name"), f"{place}.name")
    return typed.only_tool(tools, name, f"{place}.name"), ToolChoice(mode="required")


def _read_description(holder: Mapping[str, Any], place: str, nested: str) -> tuple[Mapping[str, Any], str]:
    if not nested:
        return holder, place
    place = f"{place}.{nested}"
    return typed.read_members(holder.get(nested), place), place


def _read_stops(value: object) -> list[str] | None:
    if value is None or isinstance(value, str):
        return None if value is None else [value]
    return [typed.read_text(each, f"stop[{at}]") for at, each in enumerate(typed.read_items(value, "stop"))]


def _read_schema(value: object, place: str, *, nested: str = "") -> tuple[Mapping[str, Any] | None] | None:
    """Return the schema of the answer in a tuple, ``(None,)`` for any object; ``None`` if the answer is text."""
    if value is None:
        return None
    form = typed.read_members(value, place)
    kind = form.get("type", None if nested else "text")
    if kind == "json_schema":
        named, at = _read_description(form, place, nested)
        return (typed.read_members(named.get("schema"), f"{at}.schema"),)
    if kind not in ("json_object", "text"):
        raise typed.make_unusable_failure(f"{place}.type", "must be text, json_object or json_schema")
    return (None,) if kind == "json_object" else None


class _ResponsesStream:
    """The events of one response, from ``begin`` over pieces of text to ``end`` or ``failed``."""

    def __init__(self, asked: DialectRequest) -> None:
        self._blank = make_blank_response(f"resp_{token_hex(12)}", asked.model)
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
            item: dict[str, Any] = {**_write_message_item(self._item, ""), "status": "in_progress", "content": []}
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
                self._event(
                    "response.output_item.done", output_index=0, item=_write_message_item(self._item, answer.text)
                ),
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
    stream = _ResponsesStream

    @staticmethod
    def read(body: Mapping[str, Any], *, offers_tools: bool) -> DialectRequest:
        """Read a request, or raise ``Failure``."""
        system, messages = _read_input(body.get("input"))
        instructions = typed.optional_text(body.get("instructions"), "instructions")
        tools, choice = _read_tool_choice(typed.tools_in(body, _read_function_tool), body.get("tool_choice"))
        most = body.get("max_output_tokens")
        own = Own(
            messages=messages,
            system="\n\n".join(each for each in (instructions, *system) if each) or None,
            max_tokens=DEFAULT_TOKENS if most is None else typed.read_whole_number(most, "max_output_tokens"),
            tools=tools,
            choice=choice,
            schema=_read_schema(
                typed.read_members(body.get("text") or {}, "text").get("format") or None, "text.format"
            ),
        )
        return typed.read_common_parts(body, typed.RESPONSES, own, offers_tools=offers_tools)

    @staticmethod
    def respond(asked: DialectRequest, answers: Sequence[DialectAnswer]) -> bytes:
        """Write the whole response."""
        answer = answers[0]
        blank = make_blank_response(f"resp_{token_hex(12)}", answer.model)
        return msgspec.json.encode(
            {**blank, **_describe_end(answer), "output": _write_output(answer, f"msg_{token_hex(12)}")}
        )


def make_blank_response(id: str, model: str) -> dict[str, Any]:
    """Make a response that has begun: all its members, without an answer yet."""
    blank = msgspec.json.decode(_BLANK_RESPONSE, type=dict[str, Any])
    return {**blank, "id": id, "created_at": int(time.time()), "model": model}


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


def _write_message_item(id: str, written: str) -> dict[str, Any]:
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": [_write_words(written)]}


def _write_output(answer: DialectAnswer, id: str) -> list[dict[str, Any]]:
    output = [_write_message_item(id, answer.text)] if answer.text or not answer.uses else []
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


def _read_input(given: object) -> tuple[list[str], list[SamplingMessage]]:
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
        return "assistant", [_read_tool_use(item, place, id="call_id")]
    if kind == "function_call_output":
        called = typed.read_text(item.get("call_id"), f"{place}.call_id")
        content: list[Any] = typed.content_of(item.get("output"), f"{place}.output", _read_input_part)
        return "user", [ToolResultContent(tool_use_id=called, content=content)]
    if kind != "message":
        raise typed.make_unusable_failure(
            f"{place}.type", "must be message, function_call, function_call_output or reasoning"
        )
    role = item.get("role")
    if role not in ("user", "assistant", *_SYSTEM):
        raise typed.make_unusable_failure(f"{place}.role", "must be user, assistant, system or developer")
    return role, [*typed.content_of(item.get("content"), f"{place}.content", _read_input_part)]


def _read_input_part(part: Mapping[str, Any], place: str) -> TextContent | ImageContent:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return TextContent(text=typed.read_text(part.get("text"), f"{place}.text"))
    if kind == "refusal":
        return TextContent(text=typed.read_text(part.get("refusal"), f"{place}.refusal"))
    if kind == "input_image":
        return _read_image(typed.read_text(part.get("image_url"), f"{place}.image_url"), f"{place}.image_url")
    raise typed.make_unusable_failure(f"{place}.type", "must be input_text, output_text or input_image")


Stream = _ChatStream | _ResponsesStream
"""Writes the events of one response."""
