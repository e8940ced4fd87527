"""The guards of an HTTP endpoint and their bounds: other pages are refused, a ``Gate`` admits or refuses requests.

Used for Streamable HTTP, HTTP+SSE, and the opening of a WebSocket. The gate checks tokens, and names the public
documents that are served. ``answers_page`` and ``send_preflight`` have the headers by which a browser lets a page read
the response (CORS, fetch.spec.whatwg.org): always for its own origin, never for ``*``.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from antiphon.channel import MAX_FRAME
from antiphon.errors import ConfigError, InsufficientScope, InvalidRequest, TemporarilyUnavailable
from antiphon.machine.loopback import LOOPBACK
from antiphon.protocol.caller import Caller
from antiphon.protocol.http.rules import Admitted, Denied, Gate, HeaderPair, Headers, HttpRefusal
from antiphon.transports.http.server.asgi import NOT_ALLOWED, Http, send_json, send_refusal, send_response

CheckToken = Callable[[str], Awaitable[str | Caller | None] | str | Caller | None]
"""Returns whom a bearer token stands for: the name of a principal, or a ``Caller``, which also has scopes and claims.
Any other value, such as ``None`` or an empty text, refuses the request."""

log = logging.getLogger(__name__)


class Guard:
    """Checks ``Host`` and ``Origin``.

    ``hosts``: names (any port) or ``name:port``; ``origins``: ``scheme://host`` (any port if the host is a loopback
    name or the entry ends in ``:*``). ``*`` allows all. ``None`` allows the loopback names.
    """

    def __init__(self, hosts: Sequence[str] | None = None, origins: Sequence[str] | None = None) -> None:
        names = LOOPBACK if hosts is None else hosts
        # Compared as bytes, as they arrive.
        self._hosts = frozenset(each.lower().encode("latin-1", "backslashreplace") for each in names)
        self._origins = None if origins is None else frozenset(each.lower() for each in origins)

    def check(self, headers: Headers) -> HttpRefusal | None:
        """Refuse requests with a foreign host or from a foreign page (403)."""
        if not self.is_allowed_host(headers):
            return HttpRefusal(403, InvalidRequest("Host not allowed"))
        origin = headers.get(b"origin")
        if origin is not None and not self._is_allowed_origin(origin):
            return HttpRefusal(403, InvalidRequest("Origin not allowed"))
        return None

    def is_allowed_host(self, headers: Headers) -> bool:
        """Tell whether a request names a host that is served, with any port unless one is part of the name."""
        host = headers.get(b"host", b"").lower()
        name, colon, port = host.rpartition(b":")
        if colon and name in self._hosts and port.isdigit():
            return True
        return host in self._hosts or b"*" in self._hosts

    def _is_allowed_origin(self, origin: bytes) -> bool:
        text = origin.decode("latin-1").lower()
        scheme, _, authority = text.partition("://")
        name, colon, port = authority.rpartition(":")
        bare = name if colon and port.isdecimal() else authority
        if self._origins is None:
            return scheme in {"http", "https"} and bare in LOOPBACK
        return "*" in self._origins or text in self._origins or f"{scheme}://{bare}:*" in self._origins


_UNKNOWN = Denied(HttpRefusal(401, InvalidRequest("Unauthorized")), ((b"www-authenticate", b"Bearer"),))


class TokenCheck:
    """Checks bearer tokens by a function of the application: a ``Gate`` without an issuer."""

    def __init__(self, check: CheckToken) -> None:
        self._check = check
        self._warned = False

    def known(self, method: str, path: str, headers: Headers) -> Caller | None:
        """Remember nobody: the hook decides each time."""
        return None

    async def admit(self, method: str, path: str, headers: Headers) -> Admitted | Denied:
        """Admit a request for which the hook returns a name or a caller."""
        caller = await self.caller(headers)
        return _UNKNOWN if caller is None else Admitted(caller)

    def challenge(self, scopes: Collection[str]) -> tuple[HeaderPair, ...]:
        """Say that a token does not allow it; where to get another one is not known here."""
        listed = " ".join(sorted(scopes)).encode("ascii", "ignore").replace(b'"', b"").replace(b"\\", b"")
        return ((b"www-authenticate", b'Bearer error="insufficient_scope", scope="%b"' % listed),)

    def documents(self) -> Mapping[str, bytes]:
        """Offer none."""
        return {}

    async def caller(self, headers: Headers) -> Caller | None:
        """Return the caller of this request, or ``None``, which is answered with 401."""
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not token:
            return None
        try:
            found = self._check(token.strip().decode("ascii"))
        except UnicodeDecodeError:
            return None
        principal: object = await found if inspect.isawaitable(found) else found
        if isinstance(principal, Caller) and principal.principal:
            return principal
        if isinstance(principal, str) and principal:
            return Caller(principal)
        if principal and not self._warned:
            self._warned = True
            log.error(
                "check_token= returned %s, which is no principal: return its name, a Caller or None; nobody is let in",
                type(principal).__name__,
            )
        return None


class EndpointSettings(Struct, frozen=True, kw_only=True):
    """Limits and times; the defaults suit a server on the user's machine as well as one behind a proxy."""

    max_body: int = MAX_FRAME
    """Most bytes of one POST."""
    body_timeout: float = 30.0
    """Seconds within which a body must have arrived."""
    idle_timeout: float = 1800.0
    """Seconds without a request after which a session ends."""
    max_sessions: int = 10_000
    max_open: int = 5_000
    """Most requests and streams open at once, on all connections together."""
    keep_alive: float = 15.0
    """Seconds of silence on a stream after which a comment is sent. Proxies time out after 30 s or more."""
    patience: float = 5.0
    """Seconds a request may take before its response begins as a stream, so that it can be kept alive."""
    stateless: bool = False
    """Keep no sessions: a legacy message is served by itself, wherever it comes, and nothing is asked of its client."""
    health: bool = False
    """Answer GET ``/healthz`` and ``/readyz``."""
    json_only: bool = False
    """Answer requests with JSON only: a handler can then neither notify nor ask the client during a call."""


def server_context(cert: str | Path, key: str | Path | None = None, password: str | None = None) -> ssl.SSLContext:
    """Make the TLS context of a server: TLS 1.2 or newer, HTTP/1.1.

    ``cert``: a PEM file with the server's certificate first, then its chain. ``key``: a PEM file; by default the key is
    in ``cert``. ``password``: of an encrypted key; nobody is asked for it at the terminal. Raises ``ConfigError``: a
    file is missing or cannot be read, or key and certificate do not belong together.
    """
    for each in (cert, key):
        if each is not None and not Path(each).is_file():
            raise ConfigError(f"TLS: no such file: {each}")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # some builds of Python leave it to OpenSSL's configuration
    context.set_alpn_protocols(["http/1.1"])
    asked: list[bool] = []

    def give() -> str:
        asked.append(True)
        return password or ""

    try:
        context.load_cert_chain(cert, key, give)
    except (OSError, ValueError) as error:
        raise ConfigError(f"TLS: {_describe_problem(error, cert, key, needs_password=bool(asked))}") from None
    return context


def _describe_problem(
    error: OSError | ValueError, cert: str | Path, key: str | Path | None, *, needs_password: bool
) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return f"the key in {key or cert} does not belong to the certificate in {cert}"
    if needs_password:
        return f"the key in {key or cert} is encrypted, and the password is missing or wrong"
    if isinstance(error, ssl.SSLError):
        where = cert if key is None else f"{cert} or {key}"
        return f"{where} holds no certificate and key in PEM form"
    return str(error)


_READ: tuple[HeaderPair, ...] = ((b"cache-control", b"public, max-age=300"),)
"""Cached for long enough that clients that start together fetch it once; short enough for changes to be seen soon."""


_LONGEST = 30 * 86_400.0
"""Seconds after which a stream ends whose token is valid for longer; its client opens another one."""


class _Data(msgspec.Struct, rename="camel"):
    required_scopes: list[str] = msgspec.field(default_factory=list[str])


class _Error(msgspec.Struct):
    data: _Data = msgspec.field(default_factory=_Data)


class _ErrorReply(msgspec.Struct):
    error: _Error = msgspec.field(default_factory=_Error)


_decode = msgspec.json.Decoder(_ErrorReply).decode


async def admit_request(http: Http, gate: Gate, path: str) -> bool:
    """Ask the gate about a request to ``path``; return whether it is admitted. If not, the response was sent."""
    found = await gate.admit(http.method, path, http.headers)
    if isinstance(found, Denied):
        await send_refusal(http, found.refusal, None, *found.headers)
        return False
    http.note_sender(found.caller, gate)
    http.extra += found.headers
    return True


def document_at(gate: Gate, http: Http) -> bytes | None:
    """Return the public document at this path, if any. A proxy may have passed on the whole path."""
    documents = gate.documents()
    found = documents.get(http.local_path.rstrip("/"))
    return documents.get(http.path.rstrip("/")) if found is None else found


async def send_document(http: Http, document: bytes) -> None:
    """Send a public document, such as where to obtain tokens."""
    if http.method != "GET":
        await send_refusal(http, NOT_ALLOWED, None, (b"allow", b"GET"))
        return
    await send_json(http, 200, document, _READ)


def make_challenge(http: Http, reply: bytes, code: int | None) -> tuple[HeaderPair, ...]:
    """Return extra headers for an error reply: the challenge, if scopes are missing, or when to call again."""
    if code == TemporarilyUnavailable.CODE:
        return ((b"retry-after", b"5"),)
    if code != InsufficientScope.CODE or http.gate is None:
        return ()
    try:
        return http.gate.challenge(_decode(reply).error.data.required_scopes)
    except msgspec.DecodeError:
        # A handler raised an error with this code itself.
        return http.gate.challenge(())


def schedule_expiry(caller: Caller | None, expire: Callable[[], object]) -> asyncio.TimerHandle | None:
    """Schedule ``expire`` for when the token expires, which ends what it opened; ``None`` if the expiry is unknown."""
    if caller is None or caller.expires is None:
        return None
    return asyncio.get_running_loop().call_later(min(max(0.0, caller.expires - time.time()), _LONGEST), expire)


_HEADERS = frozenset({b"accept", b"authorization", b"content-type", b"dpop", b"last-event-id"})
_OURS = b"mcp-"

_EXPOSED: HeaderPair = (b"access-control-expose-headers", b"Mcp-Session-Id, WWW-Authenticate, DPoP-Nonce, Retry-After")
_VARY: HeaderPair = (b"vary", b"Origin")
_MAX_AGE: HeaderPair = (b"access-control-max-age", b"600")

_MOST_ASKED = 4096
"""Most bytes of ``Access-Control-Request-Headers`` that are read."""


def answers_page(http: Http) -> bool:
    """Allow the page that sent this request to read the response; tell whether the request is a preflight.

    Call it after the guard has accepted the request.
    """
    origin = http.headers.get(b"origin")
    if origin is None:
        return False
    http.extra += ((b"access-control-allow-origin", origin), _EXPOSED, _VARY)
    return http.method == "OPTIONS" and b"access-control-request-method" in http.headers


async def send_preflight(http: Http, methods: bytes) -> None:
    """Respond with the methods and headers that a page may send. ``methods`` as in ``Allow``."""
    asked = http.headers.get(b"access-control-request-headers", b"")[:_MOST_ASKED].split(b",")
    named = (name.strip().lower() for name in asked)
    # ``Mcp-Param-*`` has as many names as there are parameters.
    allowed = b", ".join(
        name for name in named if name in _HEADERS or (name.startswith(_OURS) and name.replace(b"-", b"").isalnum())
    )
    headers: list[HeaderPair] = [(b"access-control-allow-methods", methods), _MAX_AGE]
    if allowed:
        headers.append((b"access-control-allow-headers", allowed))
    await send_response(http, 204, tuple(headers))
