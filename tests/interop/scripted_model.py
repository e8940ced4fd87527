"""A model on loopback that hosts use in place of a vendor's: it asks for the calls of a script, then it ends.

Owns four dialects, each with and without streaming: Anthropic Messages, Gemini, OpenAI Responses and OpenAI Chat
Completions. The script has no state of its own: the results in a request tell which step is next, so that requests
for other purposes (titles, checks of safety, retries) disturb nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

from aiohttp import web

__all__ = ["LAST_WORDS", "ScriptedModel", "ToolUse"]

LAST_WORDS = "That is the end of the script."
"""What the model says after its last call."""
_CALL = "call_script_"
_COUNTS = ("/count_tokens", ":countTokens")
_USAGE = {"input_tokens": 9, "output_tokens": 3}
Events = Iterator[tuple[str | None, Any]]


class ToolUse(NamedTuple):
    """A call that the model asks for."""

    tool: str
    """The end of the name that the host gives to the tool."""
    arguments: Mapping[str, Any] = {}


class Step(NamedTuple):
    """What the model says next: a call under the host's own name for the tool, or text if ``name`` is ``None``."""

    name: str | None
    arguments: Mapping[str, Any]
    id: str
    namespace: str | None = None

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return json.dumps(dict(self.arguments))


class Dialect(NamedTuple):
    """How one vendor's API is spoken."""

    tools: Callable[[Any], Sequence[Offered]]
    """Returns the tools that a request offers."""
    results: Callable[[Any], Iterator[Any]]
    """Yields the results of the script's calls in a request."""
    whole: Callable[[Step], Any]
    """Makes a whole answer."""
    events: Callable[[Step], Events]
    """Makes the same as events of a stream, each with its name."""


class Offered(NamedTuple):
    """A tool that a host offers. Codex groups those of a server under a namespace."""

    name: str
    namespace: str | None = None


@dataclass
class ScriptedModel:
    """The model.

    Args:
        uses: the calls to ask for, one after the other.
    """

    uses: Sequence[ToolUse]
    offered: list[str] = field(default_factory=list)
    """The names of the tools in the last request that had the next tool of the script, or results."""
    results: list[str] = field(default_factory=list)
    """What the host sent as results of the calls, as JSON."""
    unknown: list[str] = field(default_factory=list)
    """Requests that no dialect has."""
    url: str = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._answer)
        # Hosts keep their connections open for as long as they run.
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """Answer in the dialect of the path."""
        dialect = next((one for end, one in _DIALECTS.items() if request.path.endswith(end)), None)
        if request.method != "POST" or dialect is None:
            if not request.path.endswith(_COUNTS):
                self.unknown.append(f"{request.method} {request.path}")
            return web.json_response({"input_tokens": 9, "totalTokens": 9})
        body = await request.json()
        step = await self.choose_step(dialect.tools(body), list(dialect.results(body)))
        if body.get("stream") or request.path.endswith(":streamGenerateContent"):
            return await _send_events(request, dialect.events(step))
        return web.json_response(dialect.whole(step))

    async def choose_step(self, offered: Sequence[Offered], results: Sequence[Any]) -> Step:
        """Choose the next step, and note what the host has sent."""
        names = {one: f"{one.namespace or ''}{one.name}" for one in offered}
        wanted = self.uses[len(results)] if len(results) < len(self.uses) else None
        found = next((one for one, name in names.items() if wanted is not None and name.endswith(wanted.tool)), None)
        if results or found is not None:
            self.offered = sorted(names.values())
            self.results = [json.dumps(one, ensure_ascii=False) for one in results]
        if wanted is None or found is None:
            return Step(None, {}, "")
        return Step(found.name, wanted.arguments, f"{_CALL}{len(results)}", found.namespace)


async def _send_events(request: web.Request, events: Events) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for name, data in events:
        text = data if isinstance(data, str) else json.dumps(data)
        head = "" if name is None else f"event: {name}\n"
        await response.write(f"{head}data: {text}\n\n".encode())
    await response.write_eof()
    return response


# --- Anthropic Messages ----------------------------------------------------------------------------------------------


def _anthropic_tools(body: Any) -> list[Offered]:
    return [Offered(tool["name"]) for tool in body.get("tools", ())]


def _anthropic_results(body: Any) -> Iterator[Any]:
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_result" and block["tool_use_id"].startswith(_CALL):
                yield block


def _anthropic_block(step: Step) -> dict[str, Any]:
    if step.name is None:
        return {"type": "text", "text": LAST_WORDS}
    return {"type": "tool_use", "id": step.id, "name": step.name, "input": dict(step.arguments)}


def _anthropic_whole(step: Step) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "stop_sequence": None,
        "content": [_anthropic_block(step)],
        "stop_reason": "end_turn" if step.name is None else "tool_use",
        "usage": _USAGE,
    }


def _anthropic(step: Step) -> Events:
    whole = _anthropic_whole(step)
    block = _anthropic_block(step)
    if step.name is None:
        begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": LAST_WORDS}
    else:
        begun, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": step.text}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    for event in (
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": _USAGE},
        {"type": "message_stop"},
    ):
        yield event["type"], event


# --- Gemini ----------------------------------------------------------------------------------------------------------


def _gemini_tools(body: Any) -> list[Offered]:
    declared = (tool.get("functionDeclarations", ()) for tool in body.get("tools", ()))
    return [Offered(one["name"]) for group in declared for one in group]


def _gemini_results(body: Any) -> Iterator[Any]:
    for content in body["contents"]:
        for part in content.get("parts", ()):
            if "functionResponse" in part:
                yield part["functionResponse"]["response"]


def _gemini_whole(step: Step) -> dict[str, Any]:
    part = {"text": LAST_WORDS}
    if step.name is not None:
        part = {"functionCall": {"id": step.id, "name": step.name, "args": dict(step.arguments)}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}


def _gemini(step: Step) -> Events:
    yield None, _gemini_whole(step)


# --- OpenAI Responses ------------------------------------------------------------------------------------------------


def _responses_tools(body: Any) -> list[Offered]:
    offered: list[Offered] = []
    for tool in body.get("tools", ()):
        if tool.get("type") == "namespace":
            offered += [Offered(one["name"], tool["name"]) for one in tool["tools"]]
        elif "name" in tool:
            offered.append(Offered(tool["name"]))
    return offered


def _responses_results(body: Any) -> Iterator[Any]:
    for item in body["input"] if isinstance(body["input"], list) else ():
        if item.get("type") == "function_call_output" and item["call_id"].startswith(_CALL):
            yield item["output"]


def _responses_item(step: Step) -> dict[str, Any]:
    if step.name is None:
        content = [{"type": "output_text", "text": LAST_WORDS, "annotations": []}]
        return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    called = {"type": "function_call", "id": f"fc_{step.id}", "call_id": step.id, "name": step.name}
    space = {} if step.namespace is None else {"namespace": step.namespace}
    return {**called, **space, "arguments": step.text, "status": "completed"}


def _responses_whole(step: Step) -> dict[str, Any]:
    usage = {
        **_USAGE,
        "total_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    said = {"id": "resp_1", "object": "response", "created_at": 1, "model": "scripted", "status": "completed"}
    return {**said, "output": [_responses_item(step)], "usage": usage}


def _responses(step: Step) -> Events:
    whole = _responses_whole(step)
    item = whole["output"][0]
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    for number, event in enumerate(events):
        yield event["type"], {**event, "sequence_number": number}


# --- OpenAI Chat Completions -----------------------------------------------------------------------------------------


def _chat_tools(body: Any) -> list[Offered]:
    return [Offered(tool["function"]["name"]) for tool in body.get("tools", ()) if "function" in tool]


def _chat_results(body: Any) -> Iterator[Any]:
    for message in body["messages"]:
        if message["role"] == "tool" and message["tool_call_id"].startswith(_CALL):
            yield message["content"]


def _chat_choice(step: Step, member: Literal["message", "delta"]) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": LAST_WORDS}
    if step.name is not None:
        function = {"name": step.name, "arguments": step.text}
        said = {"role": "assistant", "content": None, "tool_calls": [{"id": step.id, "type": "function", "index": 0}]}
        said["tool_calls"][0]["function"] = function
    return {"index": 0, member: said, "finish_reason": "stop" if step.name is None else "tool_calls"}


def _chat_whole(step: Step, member: Literal["message", "delta"] = "message") -> dict[str, Any]:
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    kind = "chat.completion" if member == "message" else "chat.completion.chunk"
    said = {"id": "chat_1", "object": kind, "created": 1, "model": "scripted"}
    return {**said, "choices": [_chat_choice(step, member)], "usage": usage}


def _chat(step: Step) -> Events:
    yield None, _chat_whole(step, "delta")
    yield None, "[DONE]"


_GEMINI = Dialect(_gemini_tools, _gemini_results, _gemini_whole, _gemini)
_DIALECTS = {
    "/messages": Dialect(_anthropic_tools, _anthropic_results, _anthropic_whole, _anthropic),
    "/responses": Dialect(_responses_tools, _responses_results, _responses_whole, _responses),
    "/chat/completions": Dialect(_chat_tools, _chat_results, _chat_whole, _chat),
    ":generateContent": _GEMINI,
    ":streamGenerateContent": _GEMINI,
}
"""The dialects, by the ends of their paths."""
