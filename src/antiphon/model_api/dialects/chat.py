"""OpenAI's chat completions: requests as asks of the host, answers as its responses and streams."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import Any

import msgspec

from antiphon.model_api.dialects import members as typed
from antiphon.model_api.dialects.asked import (
    DialectAnswer,
    DialectRequest,
    Own,
    content_of,
    only_tool,
    read_common_parts,
    tools_in,
)
from antiphon.model_api.dialects.members import Failure, openai_error
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


class _ChatStream:
    """The events of one response; see ``Writer``."""

    def __init__(self, asked: DialectRequest) -> None:
        self._asked = asked
        self._head = {
            "id": f"chatcmpl-{token_hex(12)}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": asked.model,
        }

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
            parts.append(self._chunk(at, {}, _find_stop_reason(answer)))
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
    error = staticmethod(openai_error)
    stream = _ChatStream

    @staticmethod
    def read(body: Mapping[str, Any], *, offers_tools: bool) -> DialectRequest:
        """Read a request, or raise ``Failure``."""
        system, messages = _read_conversation(body.get("messages"))
        tools = tools_in(body, partial(function_tool, nested="function"))
        tools, choice = tool_choice(tools, body.get("tool_choice"), nested="function")
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
            schema=read_schema(body.get("response_format"), "response_format", nested="json_schema"),
            n=n,
            counts=typed.read_boolean(options.get("include_usage") or False, "stream_options.include_usage"),
        )
        return read_common_parts(body, typed.CHAT, own, offers_tools=offers_tools)

    @staticmethod
    def respond(asked: DialectRequest, answers: Sequence[DialectAnswer]) -> bytes:
        """Write the whole response."""
        choices = [
            {"index": at, "message": _write_message(each), "logprobs": None, "finish_reason": _find_stop_reason(each)}
            for at, each in enumerate(answers)
        ]
        return msgspec.json.encode(
            {
                "id": f"chatcmpl-{token_hex(12)}",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": answers[0].model,
                "choices": choices,
                "usage": _sum_up_usage(answers),
            }
        )


def _write_event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def _sum_up_usage(answers: Sequence[DialectAnswer]) -> dict[str, int]:
    """Return the usage of several answers together, as OpenAI counts it."""
    read = sum(each.usage.input_tokens for each in answers)
    written = sum(each.usage.output_tokens for each in answers)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _find_stop_reason(answer: DialectAnswer) -> str:
    return _STOPS.get(answer.stop, "stop")


def _write_message(answer: DialectAnswer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None, "annotations": []}
    if answer.uses:
        message["tool_calls"] = [_tool_call(use) for use in answer.uses]
    else:
        message["content"] = answer.text
    return message


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
            messages.append(
                SamplingMessage(role="user", content=_read_content(message.get("content"), f"{place}.content"))
            )
        elif role == "assistant":
            messages.append(SamplingMessage(role="assistant", content=list(_read_assistant(message, place))))
        else:
            raise typed.make_unusable_failure(f"{place}.role", "must be system, developer, user, assistant or tool")
    if results:
        messages.append(SamplingMessage(role="user", content=results))
    return "\n\n".join(system) or None, messages


def _read_content(value: object, place: str) -> list[SamplingContent]:
    return content_of(value, place, _read_part)


def _read_part(part: Mapping[str, Any], place: str) -> SamplingContent:
    kind = part.get("type")
    if kind == "text":
        return TextContent(text=typed.read_text(part.get("text"), f"{place}.text"))
    if kind == "image_url":
        image = typed.read_members(part.get("image_url"), f"{place}.image_url")
        return image_of(typed.read_text(image.get("url"), f"{place}.image_url.url"), f"{place}.image_url.url")
    if kind == "input_audio":
        sound = typed.read_members(part.get("input_audio"), f"{place}.input_audio")
        mime = _SOUNDS.get(typed.read_text(sound.get("format"), f"{place}.input_audio.format"))
        if mime is None:
            raise typed.make_unusable_failure(f"{place}.input_audio.format", "must be wav or mp3")
        return AudioContent(data=typed.read_text(sound.get("data"), f"{place}.input_audio.data"), mime_type=mime)
    raise typed.make_unusable_failure(f"{place}.type", "must be text, image_url or input_audio")


def image_of(url: str, place: str) -> ImageContent:
    """Return an image from a ``data:`` URL. Nothing is fetched from anywhere."""
    head, comma, data = url.partition(",")
    mime = head.removeprefix("data:").removesuffix(";base64")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        raise typed.make_unusable_failure(place, "must be a data: URL with an image in base64; nothing is fetched")
    return ImageContent(data=data, mime_type=mime.partition(";")[0])


def _read_plain_text(value: object, place: str) -> str:
    """Return content that may be text only."""
    blocks = _read_content(value, place)
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    if len(texts) != len(blocks):
        raise typed.make_unusable_failure(place, "must be text")
    return "\n".join(texts)


def _read_tool_result(message: Mapping[str, Any], place: str) -> ToolResultContent:
    called = typed.read_text(message.get("tool_call_id"), f"{place}.tool_call_id")
    blocks = _read_content(message.get("content"), f"{place}.content")
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
        yield _read_tool_use(call, at)


def _read_tool_use(call: Mapping[str, Any], place: str) -> ToolUseContent:
    function = typed.read_members(call.get("function"), f"{place}.function")
    return ToolUseContent(
        id=typed.read_text(call.get("id"), f"{place}.id"),
        name=typed.read_text(function.get("name"), f"{place}.function.name"),
        input=typed.read_arguments(function.get("arguments"), f"{place}.function.arguments"),
    )


def function_tool(tool: Mapping[str, Any], place: str, *, nested: str = "") -> Tool:
    """Read a tool. ``nested``: the member that holds its description; by default the tool itself."""
    if tool.get("type") != "function":
        raise typed.make_unusable_failure(f"{place}.type", "must be function: the host runs no tools")
    function, place = _read_description(tool, place, nested)
    return Tool(
        name=typed.read_text(function.get("name"), f"{place}.name"),
        description=typed.optional_text(function.get("description"), f"{place}.description"),
        input_schema=dict(typed.read_members(function.get("parameters") or {"type": "object"}, f"{place}.parameters")),
    )


def tool_choice(tools: list[Tool], value: object, *, nested: str = "") -> tuple[list[Tool], ToolChoice | None]:
    """Return the tools to offer, and whether one must be used. ``nested``: as for ``function_tool``."""
    if value is None or not tools:
        return tools, None
    if value in ("auto", "required", "none"):
        return tools, ToolChoice(mode=value)
    function, place = _read_description(typed.read_members(value, "tool_choice"), "tool_choice", nested)
    name = typed.read_text(function.get("name"), f"{place}.name")
    return only_tool(tools, name, f"{place}.name"), ToolChoice(mode="required")


def _read_description(holder: Mapping[str, Any], place: str, nested: str) -> tuple[Mapping[str, Any], str]:
    return (
        (typed.read_members(holder.get(nested), f"{place}.{nested}"), f"{place}.{nested}")
        if nested
        else (holder, place)
    )


def _read_stops(value: object) -> list[str] | None:
    if value is None or isinstance(value, str):
        return None if value is None else [value]
    return [typed.read_text(each, f"stop[{at}]") for at, each in enumerate(typed.read_items(value, "stop"))]


def read_schema(value: object, place: str, *, nested: str = "") -> tuple[Mapping[str, Any] | None] | None:
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
