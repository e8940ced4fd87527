"""Access to the endpoint: hosts, origins and bearer tokens, each checked before anything else is read.

2026-07-28 basic/transports/streamable-http, "Security & Endpoint": with DNS rebinding a page's requests look local, so
both ``Host`` and ``Origin`` must be checked. A ``Gate`` decides what a token means; the one here asks the application.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from antiphon.errors import InvalidRequest
from antiphon.machine.loopback import LOOPBACK
from antiphon.protocol.caller import Caller
from antiphon.protocol.http.rules import Admitted, Denied, HeaderPair, Headers, HttpRefusal

CheckToken = Callable[[str], "Awaitable[str | Caller | None] | str | Caller | None"]
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
        bare = _without_port(authority)
        if self._origins is None:
            return scheme in {"http", "https"} and bare in LOOPBACK
        return "*" in self._origins or text in self._origins or f"{scheme}://{bare}:*" in self._origins


def _without_port(authority: str) -> str:
    name, colon, port = authority.rpartition(":")
    return name if colon and port.isdecimal() else authority


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
        return ((b"www-authenticate", b'Bearer error="insufficient_scope", scope="%b"' % _list_scopes(scopes)),)

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


def _list_scopes(scopes: Collection[str]) -> bytes:
    return " ".join(sorted(scopes)).encode("ascii", "ignore").replace(b'"', b"").replace(b"\\", b"")
