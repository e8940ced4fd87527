"""How a server is reached over HTTP: its address and credentials, and error replies for what fails.

A failure becomes an error reply to the request that failed, made here, so that it is handled like any reply and raised
as a ``PeerError``. Its code is the HTTP status, or one of the three below, none of which JSON-RPC reserves.
"""

from __future__ import annotations

import ssl as tls
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, cast, runtime_checkable

from msgspec import Struct

from antiphon.channel import MAX_FRAME
from antiphon.errors import ConnectionClosed, PeerError
from antiphon.machine.web_requests import make_printable
from antiphon.wire.envelope import ErrorObject, RequestId, error_frame, from_wire, read_data

REFUSING = (401, 403)
"""Statuses of a request whose credentials were missing or not sufficient, so that it was not carried out."""

Pause = Callable[[], AbstractContextManager[None]]
"""Returns a context manager that stops the deadlines of a connection: a person may take minutes to sign in."""


ParamHeaders = Callable[[str, bytes], Mapping[str, str]]
"""``(tool name, arguments as JSON)`` to the ``Mcp-Param-*`` headers of a call; may raise an ``AntiphonError``."""


class RequestCredentials(Protocol):
    """The credentials of one request, and of its repetitions."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers with the credentials, made anew for each attempt; none for another origin."""
        ...

    async def refused(self, status: int, headers: Mapping[str, str], lines: Sequence[str], *, ask: bool) -> bool:
        """Handle a refusal: renew the token or sign in. Return whether to send the request again.

        Raises ``Unauthorized``: nothing helps; the message says why.
        """
        ...

    def answered(self, headers: Mapping[str, str]) -> None:
        """Note what the headers of a response say, whatever its status."""

    def why(self, status: int) -> str | None:
        """Say why a request that was refused was not sent again, if there is more to say than the status."""


class Credentials(Protocol):
    """The credentials for one server."""

    def begin(self) -> RequestCredentials:
        """Return the credentials of a new request."""
        ...


@runtime_checkable
class WatchesConnections(Protocol):
    """Credentials that depend on the address of the server."""

    def connects(self, address: str) -> None:
        """Note that the server is being connected to, without a proxy."""


class Dial(Struct, frozen=True, kw_only=True):
    """A server on the network, and how a channel reaches it."""

    url: str
    """Its address; ``user:password@`` becomes basic authentication, and is never shown."""
    headers: Mapping[str, str] | None = None
    """Sent with every request, except those that the protocol defines."""
    ssl: tls.SSLContext | bool = True
    """TLS settings; ``False`` accepts any certificate."""
    proxy: str | None = None
    """URL of an HTTP proxy."""
    trust_env: bool = False
    """Take proxies from the environment (``HTTPS_PROXY`` ...) and credentials from ``.netrc``, read once now."""
    max_frame: int = MAX_FRAME
    """Bytes of the largest message accepted."""
    access: Credentials | None = None
    """Obtains and sends credentials if the server asks for them."""
    pause: Pause = nullcontext
    """Entered while a person signs in, so that deadlines are stopped."""
    param_headers: ParamHeaders | None = None
    """Returns the headers of a modern call."""


UNREACHABLE = 1
"""No connection could be made, so the request was not sent."""

BROKEN = 2
"""The connection or the stream ended before the reply; the request may have been carried out."""

UNUSABLE = 3
"""The response is no reply: another content type, no JSON-RPC, too large, or a redirect to another origin."""

TOO_MANY = 429
"""Status of a request that was one too many, so that it was not carried out (RFC 6585, section 4)."""

GONE = (404, 410)
"""Statuses of what is no longer there: a session, or the place that a redirect led to."""

PASSING = frozenset({UNREACHABLE, BROKEN, TOO_MANY, 502, 503, 504})
"""Failures after which another attempt may succeed: a proxy answers so for a server that has just died."""

RETRY_AFTER = "retryAfter"
_STATUS = "httpStatus"
_GONE = "sessionGone"
_NOT_ACCEPTED = "notAccepted"


_REMEDIES = {
    401: (
        "it wants authorization: antiphon login URL, auth= (a token, or OAuth()), or the header "
        "Authorization: Bearer ..., with --header or headers="
    ),
    403: """it does not allow this: check what you pass in auth= or headers={"Authorization": ...}, and the address""",
    407: "the proxy wants authorization: put user and password into its address, proxy=...",
}


class SessionGone(ConnectionClosed):
    """The server no longer knows our session: open a new channel and initialize again.

    2025-11-25 basic/transports, "Session Management": "it MUST start a new session by sending a new InitializeRequest".
    """


class HttpFailure(Exception):
    """One request failed. ``frame`` makes its error reply."""

    def __init__(self, code: int, message: str, **data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    @classmethod
    def session_gone(cls, where: str) -> HttpFailure:
        """Report that the server has ended the session, so that the request was not sent."""
        return cls(404, f"{where} no longer knows the session: nothing was sent", **{_STATUS: 404, _GONE: True})

    @classmethod
    def of_status(
        cls, where: str, status: int, reason: str, text: str, *, gone: bool = False, not_accepted: bool = False
    ) -> HttpFailure:
        """Report that a server refused with a status; ``text`` is the first line of its body."""
        said = f": {text}" if text else ""
        message = f"{where} answered HTTP {status} {reason}".rstrip() + said + suggest_remedy(status)
        if gone:
            return cls(status, f"{message} (the session has ended on the server)", **{_STATUS: status, _GONE: True})
        if not_accepted:
            return cls(status, f"{message} (it was not carried out)", **{_STATUS: status, _NOT_ACCEPTED: True})
        return cls(status, message, **{_STATUS: status})

    @classmethod
    def not_let_in(cls, where: str, status: int, why: str) -> HttpFailure:
        """Say why a server did not let a request in, where more is known than the status."""
        return cls(status, f"{where} answered HTTP {status}: {why}", **{_STATUS: status})

    def frame(self, id: RequestId) -> bytes:
        """Make the error reply for a request."""
        return error_frame(id, self._error(), null_id=False)

    def ended(self) -> PeerError | ConnectionClosed:
        """Make the exception for a channel that could not be opened.

        A server that let nobody in is reported as it is for a request: with ``Unauthorized`` or ``InsufficientScope``.
        """
        return from_wire(self._error()) if self.code in REFUSING else ConnectionClosed(self.message)

    def _error(self) -> ErrorObject:
        return ErrorObject(code=self.code, message=self.message, data=self.data or None)


def suggest_remedy(status: int) -> str:
    """Return a hint for a status, to be appended to the message, or an empty text."""
    return f" ({_REMEDIES[status]})" if status in _REMEDIES else ""


def http_status(error: PeerError) -> int | None:
    """Return the HTTP status with which a request was refused, or ``None`` if a JSON-RPC error was the answer."""
    status = read_data(error, _STATUS)
    return status if isinstance(status, int) and status == error.code else None


def has_session_gone(error: PeerError) -> bool:
    """Tell whether a request was refused because its session has ended.

    It was not carried out, so it may be sent again after a new handshake.
    """
    return read_data(error, _GONE) is True


def is_not_streamable(error: PeerError) -> bool:
    """Tell whether this answer to ``initialize`` calls for HTTP+SSE (2025-11-25 basic/transports, "Backwards...")."""
    return http_status(error) in (400, 404, 405)


def is_refused_outright(error: PeerError) -> bool:
    """Tell whether further requests there are pointless: the server does not answer, or does not let us in."""
    return error.code == UNREACHABLE or http_status(error) in (401, 403, 407)


def is_not_accepted(error: PeerError) -> bool:
    """Tell whether an Antiphon server refused a request before any handler saw it, so that it may be sent again."""
    return read_data(error, _NOT_ACCEPTED) is True


def is_passing(error: PeerError) -> bool:
    """Tell whether another attempt may succeed; the request may have been carried out."""
    return error.code in (UNREACHABLE, BROKEN) or http_status(error) in PASSING


def read_wait(data: object) -> float:
    """Return the seconds that ``Retry-After`` asked for in a refusal (RFC 9110, section 10.2.3), at most a minute."""
    named = str(cast("dict[str, object]", data).get(RETRY_AFTER)) if isinstance(data, dict) else ""
    with suppress(ValueError, OverflowError):
        wait = float(named) if named.isdecimal() else parsedate_to_datetime(named).timestamp() - time.time()
        return min(max(0.0, wait), 60.0)
    return 0.0


def first_line(body: bytes, content_type: str) -> str:
    """Return the part of an error body that can be shown: its first line, short, no control characters, no HTML."""
    return "" if "html" in content_type else make_printable(body.decode(errors="replace"))
