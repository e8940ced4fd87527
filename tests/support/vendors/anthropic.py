"""Anthropic messages, as the vendor's public API reference describes them."""

from __future__ import annotations

NAME = "anthropic"
ADDRESS = ""
MODEL = "claude-sonnet-4-6"


def problem(seen):
    """Say what breaks the format in a request, or nothing."""
    body = seen.body
    if not seen.path.startswith("/v1/messages"):
        return f"no such path: {seen.path}"
    if not {"x-api-key", "authorization"} & {*seen.headers} or "anthropic-version" not in seen.headers:
        return "no key or version"
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    used: set[str] = set()
    for message in body["messages"]:
        if message["role"] not in {"user", "assistant"}:
            return "unknown role"
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                used.add(block["id"])
            if block["type"] == "tool_result" and block["tool_use_id"] not in used:
                return "tool_result without its tool_use"
    return None


def answer(*contents, stop="end_turn", tokens=(11, 7), model=MODEL):
    """Make a message: a string is text, a pair is a use of a tool."""
    blocks = [
        {"type": "text", "text": content}
        if isinstance(content, str)
        else {"type": "tool_use", "id": f"toolu_{at}", "name": content[0], "input": content[1]}
        for at, content in enumerate(contents)
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": tokens[0], "output_tokens": tokens[1]},
    }


def stream(*pieces, stop="end_turn", tokens=(11, 7), model=MODEL):
    """Make the events of the same as they are streamed: a string is some text, an event of asyncio is waited for."""

    def event(kind, **more):
        return kind, {"type": kind, **more}

    begun = answer(stop=None, tokens=(tokens[0], 1), model=model)
    yield event("message_start", message=begun)
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for piece in pieces:
        delta = {"type": "text_delta", "text": piece}
        yield event("content_block_delta", index=0, delta=delta) if isinstance(piece, str) else ("", piece)
    if stop is not None:
        yield event("content_block_stop", index=0)
        ended = {"stop_reason": stop, "stop_sequence": None}
        yield event("message_delta", delta=ended, usage={"output_tokens": tokens[1]})
        yield event("message_stop")


STOPS = {"end_turn": "endTurn", "max_tokens": "maxTokens", "stop_sequence": "stopSequence"}
TOOL_STOP = "tool_use"


def refusal():
    """Make a message in which the model refuses."""
    return answer(stop="refusal")


ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
}


def error(message, status, word=None):
    """Make the body of an error; ``word`` instead of what it is called at this status."""
    return {"type": "error", "error": {"type": word or ERRORS[status], "message": message}, "request_id": "req_1"}


def bound(body):
    """Return the most tokens the request allows."""
    return body["max_tokens"]


def facts(body):
    """Return what is compared of a request, in words that all vendors share."""
    system = body.get("system", [])
    choice = body.get("tool_choice", {}).get("type")
    return {
        "system": [system] if isinstance(system, str) else [block["text"] for block in system],
        "temperature": body.get("temperature"),
        "stop": body.get("stop_sequences"),
        "choice": {"any": "required"}.get(choice, choice),
        "tools": [(tool["name"], tool["input_schema"]) for tool in body.get("tools", ())],
    }


def _blocks(body):
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            yield block
            if block["type"] == "tool_result" and isinstance(block["content"], list):
                yield from block["content"]


def images(body):
    """Return the pictures in a request, as (type, base64)."""
    sources = [block["source"] for block in _blocks(body) if block["type"] == "image"]
    return [(source["media_type"], source["data"]) for source in sources]


def results(body):
    """Return the results of tools in a request, as (id, text)."""
    found = []
    for block in _blocks(body):
        if block["type"] == "tool_result":
            content = block["content"]
            texts = [content] if isinstance(content, str) else [b["text"] for b in content if b["type"] == "text"]
            found.append((block["tool_use_id"], "\n".join(texts)))
    return found
