"""The facts about a message that are needed to send it over HTTP.

Owns reading them from an outgoing message (its id, its era, the values for headers), and finding out whose reply an
incoming message is. If the response has an error status, the JSON-RPC error in its body usually says more than the
status; but if the status is about authentication or a proxy, another server wrote the body, and only the status counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import msgspec
from aiohttp import ClientResponse
from msgspec import UNSET, Raw, Struct, UnsetType, field
from multidict import istr

from antiphon.machine.web_requests import make_printable
from antiphon.protocol.http.param_headers import NAMED_BY
from antiphon.protocol.http.rules import NOT_ACCEPTED
from antiphon.protocol.salvage import read_remains
from antiphon.transports.http.client.error_replies import GONE, RETRY_AFTER, HttpFailure, suggest_remedy
from antiphon.transports.http.client.http_request import Web
from antiphon.wire.common import PROTOCOL_VERSION
from antiphon.wire.envelope import ErrorObject, RequestId, as_id, error_frame, read_mended


class OutgoingMessage(Struct, frozen=True, kw_only=True):
    """Facts about one outgoing message."""

    id: RequestId | None = None
    """The id of a request; ``None`` for a notification or a reply."""
    method: str | None = None
    """``None`` for a reply (or a batch of replies)."""
    version: str | None = None
    """The revision that a modern message names; ``None`` in a legacy one."""
    name: str | None = None
    """The value of ``Mcp-Name``."""
    arguments: bytes = b""
    """The arguments of a ``tools/call``, as JSON."""
    cancels: RequestId | None = None
    """The request that a ``notifications/cancelled`` cancels."""


class _OutgoingMeta(Struct):
    version: str | None = field(name=PROTOCOL_VERSION, default=None)


class _OutgoingParams(Struct):
    name: Any = None
    uri: Any = None
    arguments: Raw = Raw(b"")
    task_id: Any = field(name="taskId", default=None)
    request_id: Any = field(name="requestId", default=None)
    meta: _OutgoingMeta | None = field(name="_meta", default=None)


class _Bare(Struct):
    id: RequestId | None = None
    method: str | None = None


class _Sent(_Bare):
    params: _OutgoingParams | None = None


class _Head(Struct):
    id: Any = None
    method: str | UnsetType = UNSET


class _Agreed(Struct):
    protocol_version: str = field(name="protocolVersion")


class _InitializedMessage(Struct):
    result: _Agreed


class _Failed(Struct):
    error: ErrorObject


_decode_sent = msgspec.json.Decoder(_Sent).decode
_decode_bare = msgspec.json.Decoder(_Bare).decode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_heads = msgspec.json.Decoder(list[_Head]).decode
_decode_initialized = msgspec.json.Decoder(_InitializedMessage).decode
_decode_failed = msgspec.json.Decoder(_Failed).decode

_NO_PARAMS = _OutgoingParams()
# An ``istr`` keeps itself in lower case, in which headers are compared each time they are copied.
SESSION = istr("Mcp-Session-Id")

_NAMES_SESSION = re.compile("session|not initialized", re.IGNORECASE)
_LOSES_SESSION = re.compile(
    "mcp-session-id|session (?:id )?(?:is )?(?:not found|unknown|invalid)|(?:unknown|invalid) session", re.IGNORECASE
)
_UNREADABLE = (msgspec.DecodeError, RecursionError)


def look_at(data: bytes) -> OutgoingMessage:
    """Read the facts about an outgoing message."""
    try:
        try:
            sent = _decode_sent(data)
        except msgspec.ValidationError:
            # The params do not fit the method; the server will report it.
            bare = _decode_bare(data)
            sent = _Sent(bare.id, bare.method)
    except _UNREADABLE:
        # A batch of replies (2025-03-26): no other outgoing frame is not a single message.
        return OutgoingMessage()
    method = sent.method
    if method is None:
        return OutgoingMessage()
    params = sent.params or _NO_PARAMS
    source = NAMED_BY.get(method)
    name = getattr(params, source) if source is not None else None
    return OutgoingMessage(
        id=sent.id,
        method=method,
        version=None if params.meta is None else params.meta.version,
        name=name if isinstance(name, str) else None,
        arguments=bytes(params.arguments) if method == "tools/call" else b"",
        cancels=params.request_id if method == "notifications/cancelled" else None,
    )


def replies_to(data: bytes, id: RequestId) -> bool:
    """Tell whether an incoming frame contains the reply to a request of ours."""
    try:
        if data.lstrip()[:1] == b"[":
            return any(_is_reply(head, id) for head in read_mended(_decode_heads, data))
        return _is_reply(read_mended(_decode_head, data), id)
    except _UNREADABLE:
        return _is_spoilt_reply(data, lambda found: found == id)


def _is_spoilt_reply(data: bytes, fits: Callable[[RequestId | None], bool]) -> bool:
    try:
        remains = read_remains(data)
    except _UNREADABLE:
        return False
    return remains.is_reply and fits(remains.request)


def _is_reply(head: _Head, id: RequestId) -> bool:
    # Some servers make text of the number, which the session takes for the id.
    return head.method is UNSET and str(as_id(head.id)) == str(id)


def fits_no_request(data: bytes, is_open: Callable[[RequestId], bool]) -> bool:
    """Return whether an incoming frame is a reply without the id of an open request."""
    return _is_spoilt_reply(data, lambda found: found is None or not is_open(found))


def find_agreed_version(data: bytes) -> str | None:
    """Return the revision that a reply to ``initialize`` chooses, or ``None``."""
    with suppress(*_UNREADABLE):
        return read_mended(_decode_initialized, data).result.protocol_version


def is_json(data: bytes) -> bool:
    """Return whether these bytes are one whole JSON value."""
    try:
        msgspec.json.decode(data)
    except _UNREADABLE:
        return False
    return True


def error_of(data: bytes) -> ErrorObject | None:
    """Return the JSON-RPC error in the body of a refusal, or ``None`` if it has none."""
    with suppress(*_UNREADABLE):
        return read_mended(_decode_failed, data).error


class RefusedRequest(Struct, frozen=True, kw_only=True):
    """A request that was refused in HTTP."""

    where: str
    status: int
    reason: str
    said: str
    """The part of the body that can be shown."""
    error: ErrorObject | None
    """The JSON-RPC error in the body, if there is one."""
    not_accepted: bool = False
    """Whether the server says that no handler saw the request."""
    retry_after: str = ""
    """When the server takes it again: seconds, or a date."""
    has_session: bool = False
    """Whether the request named a session."""

    @property
    def ends_session(self) -> bool:
        """Whether it means that the server has lost the session.

        2025-11-25 basic/transports: "When a client receives HTTP 404 in response to a request containing an
        MCP-Session-Id ..."; but some servers use 404 for an unknown method, too, and say so in the body. Many examples
        that servers are made from answer 400 instead, with a text about the session or the missing handshake; older
        servers in Rust and some proxies 401, 403 or 422. Another text with these is about the caller, and a 503 about
        the server, which may have too many sessions.
        """
        if not self.has_session or self.status in GONE:
            return self.has_session and (self.error is None or self.error.code != -32601)
        names = _NAMES_SESSION if self.status == 400 else _LOSES_SESSION if self.status in (401, 403, 422) else None
        said = self.said if self.error is None else self.error.message
        return names is not None and names.search(said) is not None

    def failure(self) -> HttpFailure:
        """Convert it to a failure of HTTP."""
        said = self.said if self.error is None else make_printable(self.error.message)
        made = HttpFailure.of_status(
            self.where, self.status, self.reason, said, gone=self.ends_session, not_accepted=self.not_accepted
        )
        if self.error is not None and isinstance(self.error.data, dict):
            made.data = cast("dict[str, Any]", self.error.data) | made.data  # requiredScopes, for one
        if self.retry_after:
            made.message += f" (Retry-After: {self.retry_after})"
            made.data[RETRY_AFTER] = self.retry_after
        return made

    def reply(self, id: RequestId) -> bytes:
        """Make the error reply for the request."""
        if self.error is None or self.ends_session or self.not_accepted or suggest_remedy(self.status):
            return self.failure().frame(id)
        return error_frame(id, self.error, null_id=False)


async def read_refusal(web: Web, response: ClientResponse) -> RefusedRequest:
    """Read a response with an error status; the caller releases the response."""
    body, said = await web.refusal(response)
    return RefusedRequest(
        where=web.where,
        status=response.status,
        reason=response.reason or "",
        said=said,
        error=error_of(body),
        not_accepted=response.status == 503 and NOT_ACCEPTED.decode() in response.headers,
        retry_after=make_printable(response.headers.get("Retry-After", "")),
        has_session=SESSION in response.request_info.headers,
    )
