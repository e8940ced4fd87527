"""OpenAI chat completions, as its public API reference describes them."""

from __future__ import annotations

import json

NAME = "openai"
ADDRESS = "/v1"
MODEL = "gpt-4o"


def problem(seen):
    """Say what breaks the format in a request, or nothing."""
    body = seen.body
    if not seen.path.endswith("/chat/completions"):
        return f"no such path: {seen.path}"
    if not seen.headers.get("authorization", "").startswith("Bearer "):
        return "no key"
    called: set[str] = set()
    for message in body["messages"]:
        if message["role"] not in {"system", "developer", "user", "assistant", "tool"}:
            return "unknown role"
        called |= {call["id"] for call in message.get("tool_calls") or ()}
        if message["role"] == "tool" and message["tool_call_id"] not in called:
            return "a tool message must follow a message with tool_calls"
    if "tool_choice" in body and not body.get("tools"):
        return "tool_choice without tools"
    return None


def answer(*contents, stop="stop", tokens=(11, 7), model=MODEL):
    """Make a completion: a string is text, a pair is a use of a tool."""
    texts = [content for content in contents if isinstance(content, str)]
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": content[0], "arguments": json.dumps(content[1])}}
        for at, content in enumerate(contents)
        if isinstance(content, tuple)
    ]
    message = {"role": "assistant", "content": "".join(texts) if texts else None, "refusal": None}
    if calls:
        message["tool_calls"] = calls
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": stop}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
    }


def stream(*pieces, stop="stop", tokens=(11, 7), model=MODEL):
    """Make the events of the same as they are streamed: a string is some text, an event of asyncio is waited for."""

    def chunk(delta, stop=None, **more):
        choices = [{"index": 0, "delta": delta, "finish_reason": stop}]
        made = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model}
        return "", {**made, "choices": choices, **more}

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces:
        yield chunk({"content": piece}) if isinstance(piece, str) else ("", piece)
    if stop is not None:
        yield chunk({}, stop)
        usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
        _, last = chunk({}, usage=usage)
        yield "", {**last, "choices": []}
        yield "", "[DONE]"


STOPS = {"stop": "endTurn", "length": "maxTokens"}
TOOL_STOP = "tool_calls"


def refusal():
    """Make a completion in which the model refuses."""
    made = answer("")
    made["choices"][0]["message"] |= {"content": None, "refusal": "I cannot help with that."}
    return made


ERRORS = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    404: "invalid_request_error",
    429: "rate_limit_exceeded",
    500: "server_error",
    503: "server_error",
}


def error(message, status, word=None):
    """Make the body of an error; ``word`` instead of what it is called at this status."""
    return {"error": {"message": message, "type": word or ERRORS[status], "param": None, "code": word}}


def bound(body):
    """Return the most tokens the request allows."""
    return body.get("max_completion_tokens") or body.get("max_tokens")


def facts(body):
    """Return what is compared of a request, in words that all vendors share."""
    return {
        "system": [message["content"] for message in body["messages"] if message["role"] in {"system", "developer"}],
        "temperature": body.get("temperature"),
        "stop": body.get("stop"),
        "choice": body.get("tool_choice"),
        "tools": [(tool["function"]["name"], tool["function"]["parameters"]) for tool in body.get("tools", ())],
    }


def images(body):
    """Return the pictures in a request, as (type, base64)."""
    found = []
    for message in body["messages"]:
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part["type"] == "image_url":
                head, _, data = part["image_url"]["url"].partition(";base64,")
                found.append((head.removeprefix("data:"), data))
    return found


def results(body):
    """Return the results of tools in a request, as (id, text)."""
    return [(message["tool_call_id"], message["content"]) for message in body["messages"] if message["role"] == "tool"]
