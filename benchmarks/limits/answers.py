"""The least a server can do: decode, answer, encode. No validation, no sessions; a bound, not an implementation.

What a Python server that decodes one JSON message and encodes another can reach lies below this. Every limit answers
with it; they differ in how bytes come and go.
"""

from __future__ import annotations

import itertools

from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder

__all__ = ["SAMPLE", "Answers", "Incoming", "decode"]

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
BIG = "x" * (1 << 20)
SAMPLE = b""
"""What ``answer`` returns for a legacy call that needs a sample first: no message is empty."""


class Arguments(Struct, frozen=True):
    """The arguments of every tool."""

    text: str = ""
    n: int = 0
    data: str = ""


class Content(Struct):
    """A text block."""

    text: str = ""
    type: str = "text"


class Sampled(Struct):
    """The client's answer to a sampling request."""

    content: Content


class Params(Struct, rename="camel"):
    """The parameters of every method."""

    name: str = ""
    arguments: Arguments = Arguments()
    protocol_version: str = ""
    input_responses: dict[str, Sampled] | None = None


class Incoming(Struct):
    """Any message of a client."""

    method: str | None = None
    id: int | str | None = None
    params: Params | None = None
    result: Sampled | None = None


class LegacyResult(Struct, rename="camel"):
    """What a tool returns."""

    content: list[Content]
    is_error: bool = False


class ModernResult(LegacyResult):
    """What a tool returns at 2026-07-28."""

    result_type: str = "complete"


class Reply(Struct):
    """A response."""

    id: int | str
    result: LegacyResult | Raw
    jsonrpc: str = "2.0"


decode = Decoder(Incoming).decode
encode = Encoder().encode


def raw(value: object) -> Raw:
    """Encode once what is sent often."""
    return Raw(encode(value))


def schema(**types: str) -> dict[str, object]:
    """Describe the arguments of a tool."""
    properties = {name: {"type": type_, "title": name.title()} for name, type_ in types.items()}
    return {"type": "object", "properties": properties, "required": list(types)}


def tools(extra: int) -> list[dict[str, object]]:
    """List the tools every server here has, and as many extra ones."""
    texts = {
        "echo": ("Echo the text back.", schema(text="string")),
        "big": ("Return n characters.", schema(n="integer")),
        "blob": ("Return the length of data.", schema(data="string")),
        "sample": ("Ask the client's model.", schema(text="string")),
    }
    for number in range(extra):
        text = f"Synthetic tool number {number} used for the listing benchmark."
        texts[f"tool_{number:03d}"] = text, schema(a="integer", b="string", c="boolean")
    return [{"name": name, "description": text, "inputSchema": shape} for name, (text, shape) in texts.items()]


def sampling(text: str) -> dict[str, object]:
    """Write the parameters of a sampling request."""
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": 64}


class Answers:
    """Answer decoded messages with encoded ones."""

    def __init__(self, extra_tools: int = 0) -> None:
        listed = tools(extra_tools)
        self._ids = itertools.count(1)
        modern: dict[str, object] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        self._legacy_list, self._modern_list = raw({"tools": listed}), raw(modern | {"tools": listed})
        info = {"name": "limit", "version": "0"}
        self._about: dict[str, object] = {"capabilities": {"tools": {}}, "serverInfo": info}
        self._discovered = raw(
            {
                **modern,
                "supportedVersions": [MODERN, LEGACY],
                "capabilities": {"tools": {}},
                "_meta": {"io.modelcontextprotocol/serverInfo": info},
            }
        )

    def answer(self, message: Incoming, *, modern: bool) -> bytes | None:
        """Return the response, ``SAMPLE`` if a sample must come first, or None for a notification."""
        if message.id is None:
            return None
        if message.method == "tools/call":
            return self._call(message.id, message.params or Params(), modern=modern)
        match message.method:
            case "tools/list":
                result = self._modern_list if modern else self._legacy_list
            case "initialize":
                result = raw(self._about | {"protocolVersion": message.params and message.params.protocol_version})
            case "server/discover":
                result = self._discovered
            case _:
                result = raw({})
        return encode(Reply(message.id, result))

    def _call(self, id: int | str, params: Params, *, modern: bool) -> bytes:
        arguments = params.arguments
        match params.name:
            case "echo":
                text = arguments.text
            case "big":
                text = BIG if arguments.n == len(BIG) else "x" * arguments.n
            case "blob":
                text = str(len(arguments.data))
            case "sample" if not modern:
                return SAMPLE
            case "sample" if params.input_responses is None:
                return self._round(id, arguments.text)
            case "sample":
                text = (params.input_responses or {})["s"].content.text
            case _:
                text = "ok"
        return self.text(id, text, modern=modern)

    def _round(self, id: int | str, text: str) -> bytes:
        asks = {"s": {"method": "sampling/createMessage", "params": sampling(text)}}
        return encode(Reply(id, raw({"resultType": "input_required", "inputRequests": asks})))

    def text(self, id: int | str, text: str, *, modern: bool) -> bytes:
        """Answer a call with a text."""
        return encode(Reply(id, (ModernResult if modern else LegacyResult)([Content(text)])))

    def ask(self, text: str) -> tuple[int, bytes]:
        """Write a sampling request: its id, and the message."""
        id = next(self._ids)
        message = {"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": sampling(text)}
        return id, encode(message)
