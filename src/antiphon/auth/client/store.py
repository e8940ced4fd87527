"""Stored logins: tokens, what they are for, and the client's registrations.

Owns their types and the one operation on them: read all and change some, atomically. ``MemoryLogins`` keeps them for
the life of the process, ``file_store`` for all processes of a user.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field, structs

from antiphon.auth.metadata import ClientIdentity, ServerMetadata, TokenAnswer

T = TypeVar("T")

MAX_LOGINS = 1000
"""Logins that are kept at most; the one that was stored longest ago is dropped first."""


class Claim(Struct, frozen=True, kw_only=True):
    """A process is refreshing a login, or signing in."""

    owner: str
    """Identifies the process and the object in it."""
    until: float
    """When others may stop waiting, in seconds since 1970."""
    pid: int = 0
    started: str = ""
    """Start time of the process, which distinguishes it from a later one with the same id; empty if unknown."""


class Login(Struct, frozen=True, kw_only=True):
    """One login: a token for one resource, from one issuer, for one client."""

    server: str
    """Address of the MCP server, without query."""
    label: str
    """Which configuration of the client; see ``OAuth.label``."""
    metadata: ServerMetadata
    """The authorization server; the tokens are never sent to another one."""
    resource: str | None
    identity: ClientIdentity
    access_token: str
    token_type: str
    expires_at: float | None = None
    refresh_token: str | None = None
    scopes: tuple[str, ...] = ()
    """The granted scopes, as far as known."""
    asked: tuple[str, ...] = ()
    """All scopes that were requested."""
    key: dict[str, Any] | None = None
    """The private key that the token is bound to (JWK)."""
    claim: Claim | None = None
    is_issuer_set: bool = False
    """Whether the user named the authorization server, so that it may be in the local network."""
    obtained_at: float = 0.0

    def with_token(self, answer: TokenAnswer) -> Login:
        """Return this login with a token that was granted now, and no claim; what the answer omits stays as it is.

        Args:
            answer: the response of the token endpoint.
        """
        now = time.time()
        return structs.replace(
            self,
            access_token=answer.access_token,
            token_type=answer.token_type,
            expires_at=None if answer.expires_in is None else now + answer.expires_in,
            # If the response has none, the old one stays valid (RFC 6749, section 6).
            refresh_token=answer.refresh_token or self.refresh_token,
            scopes=self.scopes if answer.scopes is None else answer.scopes,
            claim=None,
            obtained_at=now,
        )

    def __repr__(self) -> str:
        return f"Login({self.server}, {self.metadata.issuer}, {' '.join(self.scopes)})"


class Registered(Struct, frozen=True, kw_only=True):
    """The client's dynamic registration at one authorization server."""

    issuer: str
    identity: ClientIdentity
    expires_at: float | None = None


class SigningIn(Struct, frozen=True, kw_only=True):
    """A process is signing in."""

    server: str
    label: str
    claim: Claim


class Document(Struct, kw_only=True):
    """Everything in the store; changed in place, only within ``LoginStore.change``."""

    logins: list[Login] = field(default_factory=list)
    registered: list[Registered] = field(default_factory=list)
    signing_in: list[SigningIn] = field(default_factory=list)

    def copied(self) -> Document:
        """Return a copy that can be changed."""
        return Document(logins=list(self.logins), registered=list(self.registered), signing_in=list(self.signing_in))

    def find(self, server: str, label: str) -> Login | None:
        """Return the login of a client to a server, if there is one.

        Args:
            server: URL of the MCP server.
            label: configuration of the client, as in ``Login.label``.
        """
        return next((one for one in self.logins if (one.server, one.label) == (server, label)), None)

    def put(self, login: Login) -> None:
        """Store a login, replacing the earlier one.

        Args:
            login: the login to store.
        """
        self.drop(login.server, login.label)
        self.logins.append(login)
        del self.logins[:-MAX_LOGINS]

    def drop(self, server: str, label: str) -> None:
        """Delete a login.

        Args:
            server: URL of the MCP server.
            label: configuration of the client.
        """
        self.logins[:] = [one for one in self.logins if (one.server, one.label) != (server, label)]

    def sign_in_of(self, server: str, label: str) -> Claim | None:
        """Return the claim of the process that is signing in a client, also if that process has ended.

        Args:
            server: URL of the MCP server.
            label: configuration of the client.
        """
        return next((one.claim for one in self.signing_in if (one.server, one.label) == (server, label)), None)

    def begin_sign_in(self, server: str, label: str, claim: Claim) -> None:
        """Store that a process is signing in.

        Args:
            server: URL of the MCP server.
            label: configuration of the client.
            claim: the claim of that process.
        """
        self.signing_in[:] = [one for one in self.signing_in if (one.server, one.label) != (server, label)]
        self.signing_in.append(SigningIn(server=server, label=label, claim=claim))
        del self.signing_in[:-MAX_LOGINS]

    def end_sign_in(self, server: str, label: str, owner: str) -> None:
        """Delete the claim of a process that was signing in, unless another one has taken it over.

        Args:
            server: URL of the MCP server.
            label: configuration of the client.
            owner: the claim's owner, as in ``Claim.owner``.
        """
        self.signing_in[:] = [
            one for one in self.signing_in if (one.server, one.label, one.claim.owner) != (server, label, owner)
        ]

    def registration(self, issuer: str, now: float) -> Registered | None:
        """Return the client's registration at an authorization server, unless it has expired.

        Args:
            issuer: the authorization server's issuer identifier.
            now: seconds since 1970.
        """
        return next(
            (one for one in self.registered if one.issuer == issuer and (one.expires_at or now + 1) > now), None
        )

    def register(self, registered: Registered) -> None:
        """Store a registration.

        Args:
            registered: the registration to store.
        """
        self.registered[:] = [one for one in self.registered if one.issuer != registered.issuer]
        self.registered.append(registered)
        del self.registered[:-MAX_LOGINS]

    def unregister(self, issuer: str) -> None:
        """Delete the registration at an authorization server.

        Args:
            issuer: the authorization server's issuer identifier.
        """
        self.registered[:] = [one for one in self.registered if one.issuer != issuer]


class LoginStore(Protocol):
    """Stores logins. Both methods are short: no request is made while one of them runs."""

    async def read(self) -> Document:
        """Return a copy of everything stored."""
        ...

    async def change(self, how: Callable[[Document], T]) -> T:
        """Change what is stored, atomically among all processes.

        Args:
            how: function that changes the document in place; its result is returned.
        """
        ...


class MemoryLogins:
    """Keeps logins in memory."""

    def __init__(self) -> None:
        self._kept = Document()

    async def read(self) -> Document:
        """See ``LoginStore.read``."""
        return self._kept.copied()

    async def change(self, how: Callable[[Document], T]) -> T:
        """See ``LoginStore.change``: atomic, because it does not await."""
        return how(self._kept)
