"""What the specification requires of any POST before its message is served: refusals and their HTTP status.

Sans-IO: headers (as ASGI gives them: lower case, bytes) and a decoded envelope in, a ``HttpRefusal`` or ``None`` out.
``modern`` checks what modern messages need besides; the transport knows allowed hosts, clients and sessions.
``Gate`` is the interface to the check of tokens, implemented by ``auth`` and by an application's ``check_token=``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from msgspec import UNSET, Struct

from antiphon import errors
from antiphon.protocol.caller import Caller
from antiphon.wire.envelope import Envelope, RequestId, error_frame, to_wire
from antiphon.wire.revisions import LEGACY, REVISIONS, find_revision

Headers = Mapping[bytes, bytes]

PROTOCOL_VERSION_HEADER = b"mcp-protocol-version"
SESSION_ID = b"mcp-session-id"
NOT_ACCEPTED = b"antiphon-not-accepted"
"""Header of a 503 sent before any handler saw the request: it was not carried out, and may be sent again. The status
alone does not tell, because a proxy may answer 503 after it has forwarded the request."""
LAST_EVENT_ID = b"last-event-id"

CHANGES_SESSION = frozenset(
    {"notifications/initialized", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
"""Methods by which a legacy client changes what its server has to remember of it."""

GOES_ON = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods whose requests are recorded, so that another process can go on with them; whoever serves them says which."""

REPEATABLE = GOES_ON | CHANGES_SESSION | {
    "completion/complete", "ping", "prompts/list", "resources/list", "resources/templates/list", "tasks/cancel",
    "tasks/get", "tasks/result", "tools/list",
}  # fmt: skip
"""Methods whose requests may be served again elsewhere, when the process that had them has died: they read, or leave
the same behind when they come twice, or are among those that go on."""

_LEGACY = frozenset(each.name.encode() for each in LEGACY)
_NEWEST_LEGACY = LEGACY[-1].name
_ASSUMED = next(each.name for each in LEGACY if each.batches)
_NO_NULL_IDS = frozenset(each.name.encode() for each in REVISIONS if not each.null_id)

# 2026-07-28 basic/transports/streamable-http: 404 for an unknown method, 400 for wrong headers, version, capabilities
# or form. An error about what is asked for, such as an unknown tool, is a normal reply with status 200.
_STATUS: Mapping[int, int] = {-32700: 400, -32600: 400, -32601: 404, -32020: 400, -32021: 400, -32022: 400}


class HttpRefusal(Struct, frozen=True):
    """An HTTP error response: its status, and the JSON-RPC error in its body."""

    status: int
    error: errors.PeerError

    def body(self, id: RequestId | None = None, *, null_id: bool = False) -> bytes:
        """Encode the JSON-RPC error, with the id of its request if that could be read."""
        return error_frame(id, to_wire(self.error), null_id=null_id)


def status_of(code: int | None, *, modern: bool) -> int:
    """Return the HTTP status for a reply with this error code (``None``: a result).

    Legacy revisions use 200, but for a missing scope (403, basic/authorization) and what may be sent again.
    """
    if code in (errors.InsufficientScope.CODE, errors.TemporarilyUnavailable.CODE):
        return code
    return _STATUS.get(code, 200) if modern and code is not None else 200


def has_null_ids(headers: Headers) -> bool:
    """Return whether an error for a message without a readable id carries ``"id": null``, as before 2025-11-25."""
    return headers.get(PROTOCOL_VERSION_HEADER) not in _NO_NULL_IDS


def assume_revision(headers: Headers) -> str:
    """Return the name of the legacy revision of a message that belongs to no session."""
    # 2025-11-25 basic/transports: "if the server does not receive an MCP-Protocol-Version header, and has no other way
    # to identify the version ... the server SHOULD assume protocol version 2025-03-26".
    named = headers.get(PROTOCOL_VERSION_HEADER)
    return _ASSUMED if named not in _LEGACY else named.decode()


def takes_batches(name: str | None) -> bool:
    """Return whether one POST of this revision may hold several messages."""
    found = find_revision(name) if name is not None else None
    return found is not None and found.batches


def is_priming(name: str | None) -> bool:
    """Return whether a client of this revision accepts events with an id alone (2025-11-25, "Sending Messages")."""
    return name == _NEWEST_LEGACY


def is_request(envelope: Envelope) -> bool:
    """Return whether a message is a request, not a notification or a response."""
    return envelope.method is not UNSET and envelope.id is not UNSET


def id_of(envelope: Envelope) -> RequestId | None:
    """Return the id that an error about this message carries."""
    return envelope.id if is_request(envelope) and envelope.id is not UNSET else None


_USUAL = b"application/json, text/event-stream"
"""What nearly all clients accept, in these bytes: compared, it takes a tenth of a search for either."""


def check_body_type(headers: Headers) -> HttpRefusal | None:
    """Check ``Content-Type`` and ``Content-Encoding`` of a POST (415)."""
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json" and kind.partition(b";")[0].strip().lower() != b"application/json":
        return HttpRefusal(415, errors.InvalidRequest("Content-Type must be application/json"))
    if headers.get(b"content-encoding", b"identity").lower() not in (b"identity", b""):
        return HttpRefusal(415, errors.InvalidRequest("Content-Encoding is not supported; send the body uncompressed"))
    return None


def check_media(headers: Headers, *, json_only: bool) -> HttpRefusal | None:
    """Check the type of the body (415) and ``Accept`` (406) of a POST."""
    is_usual = headers.get(b"content-type") == b"application/json" and b"content-encoding" not in headers
    if not is_usual and (refusal := check_body_type(headers)) is not None:
        return refusal
    accept = headers.get(b"accept", b"*/*")
    if accept == _USUAL:
        return None
    # find() and not "in", which first tries to read what it looks for as a number: three times as long as the search.
    if accept.find(b"application/json") >= 0 and accept.find(b"text/event-stream") >= 0 and accept.find(b"q=") < 0:
        return None
    if not accepts_type(accept, b"application/json") or not (json_only or accepts_type(accept, b"text/event-stream")):
        # "The client MUST include an Accept header listing both application/json and text/event-stream"
        return HttpRefusal(406, errors.InvalidRequest("Accept must list application/json and text/event-stream"))
    return None


def accepts_type(accept: bytes, kind: bytes) -> bool:
    """Return whether an ``Accept`` header includes a media type, itself or by a range. ``q=0`` excludes it."""
    if accept.find(kind) >= 0 and accept.find(b"q=") < 0:
        return True
    ranges = (kind, kind.partition(b"/")[0] + b"/*", b"*/*")
    for part in accept.lower().split(b","):
        name, _, rest = part.partition(b";")
        if name.strip() in ranges and not re.search(rb"q=0(?:\.0*)?\s*(?:;|$)", rest):
            return True
    return False


def check_unambiguous(pairs: Sequence[tuple[bytes, bytes]], headers: Headers) -> HttpRefusal | None:
    """Refuse a request in which an important header occurs twice, because a proxy may have used the other value."""
    if len(pairs) == len(headers):
        return None
    seen: set[bytes] = set()
    for name, _ in pairs:
        if name in seen and (name.startswith(b"mcp-") or name in {b"host", b"origin", b"authorization", b"dpop"}):
            return HttpRefusal(
                400, errors.HeaderMismatch(f"Header mismatch: {name.decode('ascii', 'replace')} comes twice")
            )
        seen.add(name)
    return None


def check_id(envelope: Envelope) -> HttpRefusal | None:
    """Refuse what is no message: a request whose id is null, or neither method, result nor error."""
    if envelope.method is not UNSET:
        if envelope.id is None:
            return HttpRefusal(400, errors.InvalidRequest("Invalid request: id must be a string or an integer"))
    elif not envelope.result and envelope.error is UNSET:
        return HttpRefusal(400, errors.InvalidRequest("Invalid request: neither method, result nor error"))
    return None


def check_legacy(headers: Headers, envelope: Envelope | None) -> HttpRefusal | None:
    """Check the version header of a legacy message. ``initialize`` may have any, since no version is agreed yet."""
    version = headers.get(PROTOCOL_VERSION_HEADER)
    if version is None or version in _LEGACY or (envelope is not None and envelope.method == "initialize"):
        return None
    newest_first = [each.name for each in reversed(REVISIONS)]
    data = {"supported": newest_first, "requested": version.decode("ascii", "replace")[:64]}
    return HttpRefusal(400, errors.UnsupportedVersion("Unsupported protocol version", data=data))


HeaderPair = tuple[bytes, bytes]


class Admitted(Struct, frozen=True):
    """The caller of a request, and headers for the response, usually none."""

    caller: Caller
    headers: tuple[HeaderPair, ...] = ()


class Denied(Struct, frozen=True):
    """Why a request is refused: the error, and headers for the response."""

    refusal: HttpRefusal
    headers: tuple[HeaderPair, ...] = ()


class Gate(Protocol):
    """Authorizes the requests of one endpoint. ``path`` is always relative to the mount."""

    def known(self, method: str, path: str, headers: Headers) -> Caller | None:
        """Return the caller if that is known at once; ``None``: call ``admit``."""

    async def admit(self, method: str, path: str, headers: Headers) -> Admitted | Denied:
        """Return the caller of a request, or why it is refused."""
        ...

    def challenge(self, scopes: Collection[str]) -> tuple[HeaderPair, ...]:
        """Build the headers of a response to a token without the required scopes (403)."""
        ...

    def documents(self) -> Mapping[str, bytes]:
        """Return the JSON documents that need no token, by path, such as where to obtain tokens."""
        ...
