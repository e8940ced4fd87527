"""What the specification says about a POST before its message is served: refuse it, and with which status.

Sans-IO: headers (as ASGI gives them: lower case, bytes) and a decoded envelope in, a ``Refusal`` or ``None`` out. Which
hosts are allowed, who the client is and which sessions live is the transport's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from antiphon.errors import HeaderMismatch, InvalidParams, InvalidRequest, PeerError, UnsupportedVersion
from antiphon.protocol.frames import error_frame
from antiphon.protocol.param_headers import HeaderParam, decode_value
from antiphon.wire.common import CLIENT_CAPABILITIES, PROTOCOL_VERSION, RequestMeta, RequestParams
from antiphon.wire.envelope import Envelope, ErrorObject, RequestId
from antiphon.wire.failure import to_wire
from antiphon.wire.methods import METHODS, MethodSpec
from antiphon.wire.revisions import LEGACY, MODERN, REVISIONS, revision
from antiphon.wire.unknown import decode

__all__ = [
    "LAST_EVENT_ID",
    "NAMED_BY",
    "PROTOCOL_VERSION_HEADER",
    "SESSION_ID",
    "Headers",
    "Parameters",
    "Refusal",
    "accepts",
    "accepts_events",
    "check_id",
    "check_legacy",
    "check_media",
    "check_unambiguous",
    "has_null_ids",
    "id_of",
    "is_modern",
    "is_priming",
    "is_request",
    "names_modern",
    "read_modern",
    "salvage_reply",
    "status_of",
    "takes_batches",
]

Headers = Mapping[bytes, bytes]

Parameters = Callable[[str], Sequence[HeaderParam]]
"""Says for the name of a tool which of its parameters travel in headers as well."""

PROTOCOL_VERSION_HEADER = b"mcp-protocol-version"
SESSION_ID = b"mcp-session-id"
LAST_EVENT_ID = b"last-event-id"
_METHOD = b"mcp-method"
_NAME = b"mcp-name"

NAMED_BY: Mapping[str, str] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods that need ``Mcp-Name``, and the member of ``params`` it repeats ("Standard Request Headers")."""

_MODERN = frozenset(name.encode() for name in MODERN)
_LEGACY = frozenset(each.name.encode() for each in LEGACY)
_NEWEST_LEGACY = LEGACY[-1].name
_NO_NULL_IDS = frozenset(each.name.encode() for each in REVISIONS if not each.null_id)
# RFC 9110, section 5.5: visible ASCII, with spaces and tabs in between.
_PLAIN = re.compile(rb"[\x20-\x7e\t]*")
_VERSIONS: Mapping[bytes | None, str] = {name.encode(): name for name in MODERN}
_METHODS: Mapping[bytes | None, str] = {name.encode(): name for name in METHODS}
_REQUESTS: Mapping[object, MethodSpec] = {name: row for name, row in METHODS.items() if row.kind == "request"}
_SHORT = 128
"""Bytes of a header value that is worth to be remembered."""
_INTEGER = re.compile(r"-?[0-9]{1,20}(?:\.0{1,20})?")

# 2026-07-28 basic/transports/streamable-http: 404 for an unknown method, 400 for what headers, version, capabilities
# or form are wrong. An error in what is asked for (an unknown tool, say) is an answer like any other.
_STATUS: Mapping[int, int] = {
    -32700: 400,
    -32600: 400,
    -32601: 404,
    -32020: 400,
    -32021: 400,
    -32022: 400,
}


class Refusal(Struct, frozen=True):
    """An HTTP error reply: its status, and the JSON-RPC error in its body."""

    status: int
    error: PeerError

    def body(self, id: RequestId | None = None, *, null_id: bool = False) -> bytes:
        """Encode the JSON-RPC error, with the id of the request it is about, if that could be read."""
        return error_frame(id, to_wire(self.error), null_id=null_id)


class _Remains(Struct):
    id: RequestId | None = None
    method: Any = None
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


class _Meta(Struct):
    protocol_version: Any = msgspec.field(name=PROTOCOL_VERSION, default=None)
    client_capabilities: Raw = msgspec.field(name=CLIENT_CAPABILITIES, default=Raw(b""))


class _Params(Struct):
    name: Any = None
    uri: Any = None
    arguments: Raw = Raw(b"")
    meta: _Meta | None = msgspec.field(name="_meta", default=None)


_decode_params = msgspec.json.Decoder(_Params).decode
_decode_remains = msgspec.json.Decoder(_Remains).decode
_NO_PARAMS = _Params()


def status_of(code: int | None, *, modern: bool) -> int:
    """Choose the HTTP status of a reply by its error code (``None``: a result); legacy revisions answer 200."""
    return _STATUS.get(code, 200) if modern and code is not None else 200


def has_null_ids(headers: Headers) -> bool:
    """Tell whether an error to what had no readable id carries ``"id": null``, as before 2025-11-25."""
    return headers.get(PROTOCOL_VERSION_HEADER) not in _NO_NULL_IDS


def takes_batches(name: str | None) -> bool:
    """Tell whether several messages may come in one POST of this revision."""
    found = revision(name) if name is not None else None
    return found is not None and found.batches


def is_request(envelope: Envelope) -> bool:
    """Tell a request from a notification and a response."""
    return envelope.method is not UNSET and envelope.id is not UNSET


def id_of(envelope: Envelope) -> RequestId | None:
    """Return the id an error about this message carries."""
    return envelope.id if is_request(envelope) and envelope.id is not UNSET else None


def is_priming(name: str | None) -> bool:
    """Tell whether a client of this revision takes events with an id and no data (2025-11-25, "Sending Messages")."""
    return name == _NEWEST_LEGACY


# --- what the client can take, and what it sends --------------------------------------------------------------------


def check_media(headers: Headers, *, json_only: bool) -> Refusal | None:
    """Check ``Content-Type`` (415) and ``Accept`` (406) of a POST."""
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json" and kind.partition(b";")[0].strip().lower() != b"application/json":
        return Refusal(415, InvalidRequest("Content-Type must be application/json"))
    accept = headers.get(b"accept", b"*/*")
    if not accepts(accept, b"application/json") or not (json_only or accepts(accept, b"text/event-stream")):
        # "The client MUST include an Accept header listing both application/json and text/event-stream"
        return Refusal(406, InvalidRequest("Accept must list application/json and text/event-stream"))
    return None


def accepts_events(headers: Headers) -> bool:
    """Tell whether a GET asks for server-sent events, as it must."""
    return accepts(headers.get(b"accept", b"*/*"), b"text/event-stream")


def accepts(accept: bytes, kind: bytes) -> bool:
    """Tell whether an ``Accept`` header names a media type, or a range that has it. ``q=0`` excludes."""
    if kind in accept and b"q=" not in accept:
        return True
    ranges = (kind, kind.partition(b"/")[0] + b"/*", b"*/*")
    for part in accept.lower().split(b","):
        name, _, rest = part.partition(b";")
        if name.strip() in ranges and not re.search(rb"q=0(?:\.0*)?\s*(?:;|$)", rest):
            return True
    return False


def check_unambiguous(pairs: Sequence[tuple[bytes, bytes]], headers: Headers) -> Refusal | None:
    """Refuse a request in which a header that decides something comes twice: others may go by the other one."""
    if len(pairs) == len(headers):
        return None
    seen: set[bytes] = set()
    for name, _ in pairs:
        if name in seen and (name.startswith(b"mcp-") or name in {b"host", b"origin", b"authorization"}):
            return Refusal(400, HeaderMismatch(f"Header mismatch: {name.decode('ascii', 'replace')} comes twice"))
        seen.add(name)
    return None


def check_id(envelope: Envelope) -> Refusal | None:
    """Refuse what is no message: a request whose id is null, or neither method, result nor error."""
    if envelope.method is not UNSET:
        if envelope.id is None:
            return Refusal(400, InvalidRequest("Invalid request: id must be a string or an integer"))
    elif not envelope.result and envelope.error is UNSET:
        return Refusal(400, InvalidRequest("Invalid request: neither method, result nor error"))
    return None


def salvage_reply(body: bytes) -> Envelope | None:
    """Make an error reply of a reply that cannot be read, so that whoever waits for it is told; else ``None``."""
    try:
        remains = _decode_remains(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if remains.id is None or remains.method is not None or not (remains.result or remains.error):
        return None
    error = ErrorObject(code=InvalidRequest.CODE, message="The reply cannot be read")
    return Envelope(jsonrpc="2.0", id=remains.id, error=error)


# --- eras ------------------------------------------------------------------------------------------------------------


def names_modern(headers: Headers) -> bool:
    """Tell whether the header names a revision without a handshake."""
    return headers.get(PROTOCOL_VERSION_HEADER) in _MODERN


def is_modern(headers: Headers, envelope: Envelope, body: bytes) -> bool:
    """Tell whether a message is of a revision without a handshake: its header or its ``_meta`` says so.

    It is modern even if it is broken, so that it gets the error modern clients understand. ``body``: what the envelope
    was decoded from.
    """
    if headers.get(PROTOCOL_VERSION_HEADER) in _MODERN:
        return True
    if b"protocolVersion" not in body or envelope.method is UNSET:
        return False
    try:
        meta = _decode_params(envelope.params).meta
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return meta is not None and meta.protocol_version is not None


def check_legacy(headers: Headers, envelope: Envelope | None) -> Refusal | None:
    """Check the header of a legacy message; ``initialize`` may bring any, since nothing is agreed yet."""
    version = headers.get(PROTOCOL_VERSION_HEADER)
    if version is None or version in _LEGACY or (envelope is not None and envelope.method == "initialize"):
        return None
    return _unsupported(version)


def read_modern(headers: Headers, envelope: Envelope, parameters: Parameters | None) -> Refusal | RequestParams | None:
    """Check that headers and body of a modern message agree ("Server Validation").

    Returns the params, since they had to be decoded for that, or ``None`` where there is nothing to check, or they do
    not fit the method: that is the session's to say.
    """
    spec = _REQUESTS.get(envelope.method)
    if spec is None or envelope.id is UNSET:
        return _read_other(headers, envelope, parameters)
    try:
        # The method's own type has a ``_meta``, since it is a request.
        params = cast("RequestParams", decode(envelope.params, spec.params))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_other(headers, envelope, parameters)
    if not _agrees(headers, spec.name, params) and (refusal := _find_mismatch(headers, spec.name, params)) is not None:
        return refusal
    if parameters is not None and spec.name == "tools/call":
        return _check_parameters(headers, params, parameters) or params
    return params


def _read_other(headers: Headers, envelope: Envelope, parameters: Parameters | None) -> Refusal | None:
    """Check what is no request, or one of which only some can be read."""
    if envelope.method is UNSET:
        # "The client MUST NOT send JSON-RPC responses."
        return Refusal(400, InvalidRequest("Invalid request: this revision has no responses of a client"))
    if envelope.id is UNSET:
        # "header requirements for notification POSTs are not defined by this revision"
        return None
    try:
        params = _decode_params(envelope.params) if envelope.params else _NO_PARAMS
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Refusal(400, InvalidParams(f"Invalid params: {error}"))
    refusal = _find_mismatch(headers, envelope.method, params)
    if refusal is None and parameters is not None and envelope.method == "tools/call":
        return _check_parameters(headers, params, parameters)
    return refusal


def _agrees(headers: Headers, method: str, params: Any) -> bool:
    """Tell at a glance that the headers repeat the params as they are nearly always spelled; else look closely."""
    meta: RequestMeta | None = params.meta
    if meta is None or meta.client_capabilities is None or _METHODS.get(headers.get(_METHOD)) != method:
        return False
    version = _VERSIONS.get(headers.get(PROTOCOL_VERSION_HEADER))
    if version is None or version != meta.protocol_version:
        return False
    member = NAMED_BY.get(method)
    if member is None:
        return True
    sent = headers.get(_NAME, b"")
    return len(sent) <= _SHORT and _read_again(sent) == (params.name if member == "name" else params.uri)


def _find_mismatch(headers: Headers, method: str, params: Any) -> Refusal | None:
    """Compare headers with params, be they decoded loosely or to the method's own type."""
    return _check_version(headers, params.meta) or _check_names(headers, method, params)


def _check_version(headers: Headers, meta: Any) -> Refusal | None:
    version = headers.get(PROTOCOL_VERSION_HEADER)
    said = meta.protocol_version if meta is not None else None
    if said is None:
        return Refusal(400, InvalidParams(f"Invalid params: _meta must have {PROTOCOL_VERSION}"))
    if version is None or not isinstance(said, str) or version.strip() != said.encode():
        return _mismatch("MCP-Protocol-Version", version)
    if meta is None or not meta.client_capabilities:
        return Refusal(400, InvalidParams(f"Invalid params: _meta must have {CLIENT_CAPABILITIES}"))
    return None


def _check_names(headers: Headers, method: str, params: Any) -> Refusal | None:
    sent = headers.get(_METHOD)
    if sent is None or sent.strip() != method.encode():
        return _mismatch("Mcp-Method", sent)
    member = NAMED_BY.get(method)
    if member is None:
        return None
    named = params.name if member == "name" else params.uri
    sent = headers.get(_NAME)
    return None if sent is not None and _read(sent) == named else _mismatch("Mcp-Name", sent)


def _check_parameters(headers: Headers, params: Any, parameters: Parameters) -> Refusal | None:
    expected = parameters(params.name) if isinstance(params.name, str) else ()
    if not expected:
        return None
    arguments: object = msgspec.json.decode(params.arguments) if params.arguments else None
    for each in expected:
        sent = headers.get(each.header.lower().encode())
        if not _agree(sent, _value_at(arguments, each.path)):
            return _mismatch(each.header, sent)
    return None


def _value_at(arguments: object, path: Sequence[str]) -> object:
    for step in path:
        if not isinstance(arguments, dict):
            return None
        arguments = cast("dict[str, object]", arguments).get(step)
    return arguments


def _agree(sent: bytes | None, value: object) -> bool:
    if sent is None or value is None:
        return sent is None and value is None
    text = _read(sent)
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        # "servers SHOULD compare the header value and the body value numerically"
        return text is not None and _INTEGER.fullmatch(text) is not None and int(text.partition(".")[0]) == value
    # An object where a primitive belongs: the tool's schema will refuse it.
    return text == value if isinstance(value, str) else text is not None


def _read(sent: bytes) -> str | None:
    """Read a header value as the text it stands for; ``None`` if it holds what a header may not, or broken base64."""
    plain = sent.strip(b" \t")
    return decode_value(plain.decode()) if _PLAIN.fullmatch(plain) else None


_read_again = lru_cache(maxsize=256)(_read)
"""The same for what comes over and over: names of tools, mostly."""


def _mismatch(name: str, sent: bytes | None) -> Refusal:
    what = "is missing" if sent is None else "does not match the body"
    return Refusal(400, HeaderMismatch(f"Header mismatch: {name} {what}"))


def _unsupported(version: bytes) -> Refusal:
    newest_first = [each.name for each in reversed(REVISIONS)]
    data = {"supported": newest_first, "requested": version.decode("ascii", "replace")[:64]}
    return Refusal(400, UnsupportedVersion("Unsupported protocol version", data=data))
