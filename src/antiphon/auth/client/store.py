"""Logins that are kept: tokens, what they are for, and what we are called at each authorization server.

Owns their shape and the one operation on them: look at all, change some, as one step. ``MemoryLogins`` keeps them as
long as a process lives, ``file_store`` for all processes of a user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field

from antiphon.auth.client.exchange import ClientIdentity
from antiphon.auth.metadata import ServerMetadata

__all__ = ["Claim", "Document", "Login", "LoginStore", "MemoryLogins", "Registered"]

T = TypeVar("T")

MAX_LOGINS = 1000
"""Logins that are kept; the one that was used longest ago goes first."""


class Claim(Struct, frozen=True, kw_only=True):
    """Somebody is renewing a login."""

    owner: str
    """Names the process and the object in it."""
    until: float
    """When whoever waits may stop waiting, in seconds since 1970."""
    pid: int = 0
    started: str = ""
    """Tells the process from a later one with its number; empty where that is not known."""


class Login(Struct, frozen=True, kw_only=True):
    """One login: a token for one resource, from one issuer, for one client."""

    server: str
    """The address of the MCP server, without query."""
    label: str
    """Which set-up of a client; see ``OAuth.label``."""
    metadata: ServerMetadata
    """The authorization server. Nothing of a login is ever sent to another."""
    resource: str | None
    identity: ClientIdentity
    access_token: str
    token_type: str
    expires_at: float | None = None
    refresh_token: str | None = None
    scopes: tuple[str, ...] = ()
    """What was granted, as far as is known."""
    asked: tuple[str, ...] = ()
    """What was asked for, in all."""
    key: dict[str, Any] | None = None
    """The private key that the token is bound to (JWK)."""
    claim: Claim | None = None
    obtained_at: float = 0.0

    def __repr__(self) -> str:
        return f"Login({self.server}, {self.metadata.issuer}, {' '.join(self.scopes)})"


class Registered(Struct, frozen=True, kw_only=True):
    """What we are called at one authorization server, which gave us that name itself."""

    issuer: str
    identity: ClientIdentity
    expires_at: float | None = None


class Document(Struct, kw_only=True):
    """All that is kept. Changed in place, and only within ``LoginStore.change``."""

    logins: list[Login] = field(default_factory=list)
    registered: list[Registered] = field(default_factory=list)

    def find(self, server: str, label: str) -> Login | None:
        """Return the login of a client to a server, if there is one.

        Args:
            server: URL of the MCP server.
            label: set-up of the client, as ``Login.label`` has it.
        """
        return next((one for one in self.logins if (one.server, one.label) == (server, label)), None)

    def put(self, login: Login) -> None:
        """Keep a login in the place of the one before.

        Args:
            login: what to keep.
        """
        self.drop(login.server, login.label)
        self.logins.append(login)
        del self.logins[:-MAX_LOGINS]

    def drop(self, server: str, label: str) -> None:
        """Forget a login.

        Args:
            server: URL of the MCP server.
            label: set-up of the client.
        """
        self.logins[:] = [one for one in self.logins if (one.server, one.label) != (server, label)]

    def registration(self, issuer: str, now: float) -> Registered | None:
        """Return what we are called at an authorization server, if it still knows us.

        Args:
            issuer: the authorization server.
            now: seconds since 1970.
        """
        return next(
            (one for one in self.registered if one.issuer == issuer and (one.expires_at or now + 1) > now), None
        )

    def register(self, registered: Registered) -> None:
        """Keep what we are called at an authorization server.

        Args:
            registered: what to keep.
        """
        self.registered[:] = [one for one in self.registered if one.issuer != registered.issuer]
        self.registered.append(registered)
        del self.registered[:-MAX_LOGINS]

    def unregister(self, issuer: str) -> None:
        """Forget what we are called at an authorization server.

        Args:
            issuer: the authorization server.
        """
        self.registered[:] = [one for one in self.registered if one.issuer != issuer]


class LoginStore(Protocol):
    """Keeps logins. Both methods are short: nothing is sent while one of them runs."""

    async def read(self) -> Document:
        """Return all that is kept; changing it changes nothing."""
        ...

    async def change(self, how: Callable[[Document], T]) -> T:
        """Change what is kept, as one step among all processes.

        Args:
            how: called with all that is kept, which it changes in place; what it returns is returned.
        """
        ...


class MemoryLogins:
    """Keeps logins in memory."""

    def __init__(self) -> None:
        self._kept = Document()

    async def read(self) -> Document:
        """See ``LoginStore.read``."""
        return Document(logins=list(self._kept.logins), registered=list(self._kept.registered))

    async def change(self, how: Callable[[Document], T]) -> T:
        """See ``LoginStore.change``: nothing else runs meanwhile."""
        return how(self._kept)
