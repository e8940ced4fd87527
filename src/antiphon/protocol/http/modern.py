"""Which POSTs carry a message of a revision without a handshake, and whether their headers agree with the body.

2026-07-28 basic/transports/streamable-http, "Server Validation": a header that repeats a part of the body must equal
it, since proxies route by headers. Sans-IO: headers and a decoded envelope in, a ``HttpRefusal`` or the params out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from antiphon.errors import HeaderMismatch, InvalidParams, InvalidRequest
from antiphon.protocol.http.param_headers import NAMED_BY, HeaderParam, decode_value, find_argument
from antiphon.protocol.http.rules import PROTOCOL_VERSION_HEADER, Headers, HttpRefusal
from antiphon.wire.common import CLIENT_CAPABILITIES, PROTOCOL_VERSION, RequestMeta, RequestParams
from antiphon.wire.envelope import Envelope, decode_wire
from antiphon.wire.methods import METHODS, MethodSpec
from antiphon.wire.revisions import MODERN

Parameters = Callable[[str, str | None], Sequence[HeaderParam]]
"""Returns for the name of a tool, and the principal that calls it, which of its parameters are mirrored in headers."""

_METHOD = b"mcp-method"
_NAME = b"mcp-name"

# Keyed by bytes as received, so that a header in its usual spelling need not be decoded.
_VERSIONS: Mapping[bytes | None, str] = {name.encode(): name for name in MODERN}

# RFC 9110, section 5.5: visible ASCII, with spaces and tabs in between.
_PLAIN = re.compile(rb"[\x20-\x7e\t]*")
_INTEGER = re.compile(r"-?[0-9]{1,20}(?:\.0{1,20})?")

_SHORT = 128
"""Most bytes of a header value that is cached."""


class _Request(Struct, frozen=True):
    """What is checked of a request of one method."""

    spec: MethodSpec
    header: bytes
    """The method, as its header has it in its usual spelling."""
    member: str | None
    """The member of the params that its other header repeats, if there is one."""


_REQUESTS: Mapping[object, _Request] = {
    name: _Request(spec, name.encode(), NAMED_BY.get(name)) for name, spec in METHODS.items() if spec.kind == "request"
}


class _HeaderMeta(Struct):
    protocol_version: Any = msgspec.field(name=PROTOCOL_VERSION, default=None)
    client_capabilities: Raw = msgspec.field(name=CLIENT_CAPABILITIES, default=Raw(b""))


class _HeaderParams(Struct):
    name: Any = None
    uri: Any = None
    task_id: Any = msgspec.field(name="taskId", default=None)
    arguments: Raw = Raw(b"")
    meta: _HeaderMeta | None = msgspec.field(name="_meta", default=None)


_decode_params = msgspec.json.Decoder(_HeaderParams).decode
_NO_PARAMS = _HeaderParams()


def names_modern(headers: Headers) -> bool:
    """Return whether the header names a revision without a handshake."""
    return headers.get(PROTOCOL_VERSION_HEADER) in _VERSIONS


def is_modern(headers: Headers, envelope: Envelope, body: bytes) -> bool:
    """Return whether a message is of a revision without a handshake: its header or its ``_meta`` says so.

    It is modern even if it is broken, so that it gets the error modern clients understand. ``body``: what the envelope
    was decoded from.
    """
    if headers.get(PROTOCOL_VERSION_HEADER) in _VERSIONS:
        return True
    # find(): as in ``rules.check_media``.
    if body.find(b"protocolVersion") < 0 or envelope.method is UNSET:
        return False
    try:
        meta = _decode_params(envelope.params).meta
    except msgspec.DecodeError:
        return False
    return meta is not None and meta.protocol_version is not None


def read_modern(
    headers: Headers, envelope: Envelope, parameters: Parameters | None, principal: str | None = None
) -> HttpRefusal | RequestParams | None:
    """Check that headers and body of a modern message agree ("Server Validation"). ``principal``: who sends it.

    Returns the params, since they had to be decoded; or ``None`` if there is nothing to check, or they do not fit the
    method, which the session reports.
    """
    request = _REQUESTS.get(envelope.method)
    if request is None or envelope.id is UNSET:
        return _read_other(headers, envelope, parameters, principal)
    spec = request.spec
    try:
        # Every request has a ``_meta``, so the type of its params has one.
        params: Any = decode_wire(envelope.params, spec.params)
    except msgspec.DecodeError:
        return _read_other(headers, envelope, parameters, principal)
    if (
        not _headers_agree(headers, request, params)
        and (refusal := _find_mismatch(headers, spec.name, params)) is not None
    ):
        return refusal
    if parameters is not None and spec.name == "tools/call":
        return _check_parameters(headers, params, parameters, principal) or params
    return params


def _read_other(
    headers: Headers, envelope: Envelope, parameters: Parameters | None, principal: str | None
) -> HttpRefusal | None:
    """Check a message that is no request, or a request of which only a part can be read."""
    if envelope.method is UNSET:
        # "The client MUST NOT send JSON-RPC responses."
        return HttpRefusal(400, InvalidRequest("Invalid request: this revision has no responses of a client"))
    if envelope.id is UNSET:
        # "header requirements for notification POSTs are not defined by this revision"
        return None
    try:
        params = _decode_params(envelope.params) if envelope.params else _NO_PARAMS
    except msgspec.DecodeError as error:
        return HttpRefusal(400, InvalidParams(f"Invalid params: {error}"))
    refusal = _find_mismatch(headers, envelope.method, params)
    if refusal is None and parameters is not None and envelope.method == "tools/call":
        return _check_parameters(headers, params, parameters, principal)
    return refusal


def _headers_agree(headers: Headers, request: _Request, params: Any) -> bool:
    """Compare the headers with the params in their usual spelling first; only if that fails, compare them fully."""
    meta: RequestMeta | None = params.meta
    if meta is None or meta.client_capabilities is None or headers.get(_METHOD) != request.header:
        return False
    version = _VERSIONS.get(headers.get(PROTOCOL_VERSION_HEADER))
    if version is None or version != meta.protocol_version:
        return False
    if request.member is None:
        return True
    sent = headers.get(_NAME, b"")
    return len(sent) <= _SHORT and _read_again(sent) == getattr(params, request.member)


def _find_mismatch(headers: Headers, method: str, params: Any) -> HttpRefusal | None:
    """Compare headers with params, which may be decoded loosely or to the method's own type."""
    return _check_version(headers, params.meta) or _check_names(headers, method, params)


def _check_version(headers: Headers, meta: Any) -> HttpRefusal | None:
    version = headers.get(PROTOCOL_VERSION_HEADER)
    said = meta.protocol_version if meta is not None else None
    if said is None:
        return HttpRefusal(400, InvalidParams(f"Invalid params: _meta must have {PROTOCOL_VERSION}"))
    if version is None or not isinstance(said, str) or version.strip() != said.encode():
        return _refuse_mismatch("MCP-Protocol-Version", version)
    if meta is None or not meta.client_capabilities:
        return HttpRefusal(400, InvalidParams(f"Invalid params: _meta must have {CLIENT_CAPABILITIES}"))
    return None


def _check_names(headers: Headers, method: str, params: Any) -> HttpRefusal | None:
    sent = headers.get(_METHOD)
    if sent is None or sent.strip() != method.encode():
        return _refuse_mismatch("Mcp-Method", sent)
    member = NAMED_BY.get(method)
    if member is None:
        return None
    named = getattr(params, member)
    sent = headers.get(_NAME)
    return None if sent is not None and _decode_header(sent) == named else _refuse_mismatch("Mcp-Name", sent)


def _check_parameters(
    headers: Headers, params: Any, parameters: Parameters, principal: str | None
) -> HttpRefusal | None:
    expected = parameters(params.name, principal) if isinstance(params.name, str) else ()
    if not expected:
        return None
    arguments: object = msgspec.json.decode(params.arguments) if params.arguments else None
    for each in expected:
        sent = headers.get(each.header.lower().encode())
        if not _value_agrees(sent, find_argument(arguments, each.path)):
            return _refuse_mismatch(each.header, sent)
    return None


def _value_agrees(sent: bytes | None, value: object) -> bool:
    if sent is None or value is None:
        return sent is None and value is None
    text = _decode_header(sent)
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        # "servers SHOULD compare the header value and the body value numerically"
        return text is not None and _INTEGER.fullmatch(text) is not None and int(text.partition(".")[0]) == value
    # The argument should be a primitive and is an object; the tool's schema will refuse it.
    return text == value if isinstance(value, str) else text is not None


def _decode_header(sent: bytes) -> str | None:
    """Decode a header value to text; ``None`` if it has characters a header may not have, or broken base64."""
    plain = sent.strip(b" \t")
    return decode_value(plain.decode()) if _PLAIN.fullmatch(plain) else None


_read_again = lru_cache(maxsize=256)(_decode_header)
"""The same with a cache, for values that repeat, such as names of tools."""


def _refuse_mismatch(name: str, sent: bytes | None) -> HttpRefusal:
    what = "is missing" if sent is None else "does not match the body"
    return HttpRefusal(400, HeaderMismatch(f"Header mismatch: {name} {what}"))
