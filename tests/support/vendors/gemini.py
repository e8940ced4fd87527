"""Gemini generateContent, as the vendor's public API reference describes it."""

from __future__ import annotations

NAME = "google"
ADDRESS = ""
MODEL = "gemini-2.5-flash"


def problem(seen):
    """Say what breaks the format in a request, or nothing."""
    if not seen.path.endswith((":generateContent", ":streamGenerateContent")):
        return f"no such path: {seen.path}"
    if "x-goog-api-key" not in seen.headers:
        return "no key"
    called: list[str] = []
    for content in seen.body["contents"]:
        if content.get("role") not in {"user", "model"}:
            return "unknown role"
        for part in content["parts"]:
            if "functionCall" in part:
                called.append(part["functionCall"]["name"])
            if "functionResponse" in part and part["functionResponse"]["name"] not in called:
                return "functionResponse without its functionCall"
    return None


def answer(*contents, stop="STOP", tokens=(11, 7), model=MODEL):
    """Make a response: a string is text, a pair is a use of a tool."""
    parts = [
        {"text": content}
        if isinstance(content, str)
        else {"functionCall": {"id": f"fc_{at}", "name": content[0], "args": content[1]}}
        for at, content in enumerate(contents)
    ]
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": stop, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": tokens[0],
            "candidatesTokenCount": tokens[1],
            "totalTokenCount": sum(tokens),
        },
        "modelVersion": model,
        "responseId": "r_1",
    }


def stream(*pieces, stop="STOP", tokens=(11, 7), model=MODEL):
    """Make the events of the same as they are streamed: a string is some text, an event of asyncio is waited for."""
    for piece in pieces:
        made = answer(piece, model=model) if isinstance(piece, str) else piece
        if isinstance(piece, str):
            del made["candidates"][0]["finishReason"], made["usageMetadata"]
        yield "", made
    if stop is not None:
        yield "", answer("", stop=stop, tokens=tokens, model=model)


STOPS = {"STOP": "endTurn", "MAX_TOKENS": "maxTokens"}
TOOL_STOP = "STOP"


def refusal():
    """Make a response to a prompt that was blocked."""
    made = answer()
    return {**made, "candidates": [], "promptFeedback": {"blockReason": "SAFETY"}}


ERRORS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def error(message, status, word=None):
    """Make the body of an error; ``word`` instead of what it is called at this status."""
    return {"error": {"code": status, "message": message, "status": word or ERRORS[status]}}


def bound(body):
    """Return the most tokens the request allows."""
    return body["generationConfig"]["maxOutputTokens"]


def facts(body):
    """Return what is compared of a request, in words that all vendors share."""
    config = body.get("generationConfig", {})
    declared = [each for tool in body.get("tools", ()) for each in tool.get("functionDeclarations", ())]
    mode = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode")
    return {
        "system": [part["text"] for part in body.get("systemInstruction", {}).get("parts", ())],
        "temperature": config.get("temperature"),
        "stop": config.get("stopSequences"),
        "choice": {"ANY": "required", "NONE": "none", "AUTO": "auto"}.get(mode, mode),
        "tools": [
            (each["name"], each.get("parametersJsonSchema") or each.get("parameters_json_schema")) for each in declared
        ],
    }


def _parts(body):
    return [part for content in body["contents"] for part in content["parts"]]


def images(body):
    """Return the pictures in a request, as (type, base64)."""
    found = [part["inlineData"] for part in _parts(body) if "inlineData" in part]
    # The vendor's library writes base64 in the alphabet for URLs, which the service takes as well.
    return [
        (data.get("mimeType") or data["mime_type"], data["data"].replace("-", "+").replace("_", "/")) for data in found
    ]


def results(body):
    """Return the results of tools in a request, as (id, text)."""
    found = [part["functionResponse"] for part in _parts(body) if "functionResponse" in part]
    return [(each.get("id"), next(iter(each["response"].values()))) for each in found]
