"""The messages of the load: what it sends, as bytes, and what it reads. It judges nothing."""

from __future__ import annotations

from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder

__all__ = [
    "INITIALIZED",
    "LEGACY",
    "MODERN",
    "Incoming",
    "InputRequest",
    "Listing",
    "Prompt",
    "RawIncoming",
    "Result",
    "Sampling",
    "call",
    "decode",
    "decode_listing",
    "decode_raw",
    "discover",
    "initialize",
    "list_tools",
    "sample_reply",
    "sample_retry",
]

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'

META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"},'
    b'"io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}'
)
SAMPLED = b'{"role":"assistant","content":{"type":"text","text":"%b"},"model":"m","stopReason":"endTurn"}'
encode = Encoder().encode


class Text(Struct):
    """A text block."""

    type: str
    text: str = ""


class Prompt(Struct):
    """A message of a sampling request: its content is one block, or a list of blocks."""

    content: Text | list[Text]

    @property
    def text(self) -> str:
        """The text of the only block."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return blocks[0].text if len(blocks) == 1 else ""


class Sampling(Struct):
    """The parameters of a sampling request."""

    messages: list[Prompt] = []


class InputRequest(Struct):
    """What a modern server wants before it answers."""

    method: str
    params: Sampling


class Result(Struct, rename="camel"):
    """Every member that a result of the load may have, lists of tools apart."""

    content: list[Text] | None = None
    is_error: bool = False
    result_type: str | None = None
    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None
    protocol_version: str | None = None
    supported_versions: list[str] | None = None


class Incoming(Struct):
    """Any message of a server."""

    jsonrpc: str
    id: int | str | None = None
    method: str | None = None
    params: Sampling | None = None
    result: Result | None = None
    error: Raw = Raw()


class RawIncoming(Struct):
    """A reply whose result is compared as bytes."""

    jsonrpc: str
    id: int | str | None = None
    result: Raw = Raw()
    error: Raw = Raw()


class Tool(Struct, rename="camel"):
    """A tool of a list; without a schema it is none."""

    name: str
    input_schema: dict[str, object]
    description: str


class Listing(Struct, rename="camel"):
    """A page of tools."""

    tools: list[Tool]
    next_cursor: str | None = None
    result_type: str | None = None


decode = Decoder(Incoming).decode
decode_raw = Decoder(RawIncoming).decode
decode_listing = Decoder(Listing).decode


def call(id: int, name: bytes, arguments: bytes, *, modern: bool, more: bytes = b"") -> bytes:
    """Write a tool call; ``more`` are members of its parameters, each with a comma before it."""
    meta = META + b"," if modern else b""
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%b"name":"%b","arguments":%b%b}}' % (
        id,
        meta,
        name,
        arguments,
        more,
    )


def list_tools(id: int, *, modern: bool) -> bytes:
    """Ask for the first page of tools."""
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{%b}}' % (id, META if modern else b"")


def initialize(id: int) -> bytes:
    """Open a legacy session, as a client that can sample."""
    return (
        b'{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"%b",'
        b'"capabilities":{"sampling":{}},"clientInfo":{"name":"load","version":"1"}}}' % (id, LEGACY.encode())
    )


def discover(id: int) -> bytes:
    """Ask a modern server what it is."""
    return b'{"jsonrpc":"2.0","id":%d,"method":"server/discover","params":{%b}}' % (id, META)


def sample_reply(id: int | str, text: bytes) -> bytes:
    """Answer a legacy sampling request."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(id), SAMPLED % text)


def sample_retry(key: str, state: str | None, text: bytes) -> bytes:
    """Write what a modern call is sent again with: the sample, and the server's state as it came."""
    answers = b',"inputResponses":{%b:%b}' % (encode(key), SAMPLED % text)
    return answers if state is None else answers + b',"requestState":' + encode(state)
