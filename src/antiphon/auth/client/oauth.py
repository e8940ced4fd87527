"""``OAuth``: the user's settings of a sign-in; the other modules carry it out."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from antiphon.auth.client.grants import Grant
from antiphon.auth.client.store import LoginStore, MemoryLogins
from antiphon.errors import ConfigError

OpenPage = Callable[[str], Awaitable[str | None]]
"""Shows a person the page at an address. Returns ``None`` if the browser is redirected to this machine, otherwise the
address it was redirected to."""

PATIENCE = 300.0
"""Seconds a person has to sign in."""

_NAME = "Antiphon"


@dataclass(eq=False, kw_only=True, repr=False)
class OAuth:
    """Sign in at the authorization server that an MCP server names: ``Client(url, auth=OAuth())``.

    Without ``client_id`` and ``client_metadata_url`` the client registers itself.

    Args:
        client_id: id of a client that was registered with the authorization server beforehand; none by default.
        client_secret: secret of ``client_id``; none by default. It needs ``issuer``, the only authorization server that
            it is sent to; without one, it signs in only at servers of this machine.
        private_key: PEM; authenticates the client instead of a secret; none by default.
        algorithm: signature algorithm of ``private_key``; ``"ES256"`` by default.
        client_metadata_url: address of the client's metadata document (an https URL with a path); used if the
            authorization server supports such documents.
        issuer: the only authorization server to accept, and the one that ``client_id`` belongs to; by default the first
            that the server names.
        scopes: the scopes to request; by default those that the server names.
        names_resource: whether requests name the server that the token is for (RFC 8707), as all revisions since
            2025-06-18 demand; ``True`` by default. Some authorization servers refuse that, such as Microsoft Entra: a
            token is then for whatever its scopes belong to.
        pkce_announced: whether the authorization server must announce PKCE (S256), as the protocol demands; ``True`` by
            default. Microsoft Entra and Amazon Cognito have it without announcing it; ``False`` needs ``issuer``.
        grant: how tokens are obtained; by default a person signs in with a browser.
        dpop: whether tokens are bound to a key of this client; by default (``None``) if the server requires it.
        redirect_uri: where the browser is redirected to, if that was registered beforehand, for example
            ``http://localhost:3000/callback``; by default a free port of this machine.
        open_page: async function that shows a page to a person; by default the system's browser.
        store: keeps logins; by default they last as long as this object.
        client_name: the client's name on the page that asks a person for consent; ``"Antiphon"`` by default.
        timeout: seconds a person has to sign in; 300 by default.

    Raises:
        ConfigError: two of the arguments exclude each other, or one needs another.
    """

    client_id: str | None = None
    client_secret: str | None = None
    private_key: str | None = None
    algorithm: str = "ES256"
    client_metadata_url: str | None = None
    issuer: str | None = None
    scopes: Sequence[str] | None = None
    names_resource: bool = True
    pkce_announced: bool = True
    grant: Grant | None = None
    dpop: bool | None = None
    redirect_uri: str | None = None
    open_page: OpenPage | None = None
    store: LoginStore = field(default_factory=MemoryLogins)
    client_name: str = _NAME
    timeout: float = PATIENCE
    unattended: str | None = field(default=None, init=False)
    """Set by a program that runs where nobody can sign in: the reason, and what to do, for its error message."""

    def __post_init__(self) -> None:
        if self.client_id is None and (self.client_secret is not None or self.private_key is not None):
            raise ConfigError("OAuth: a client_secret or a private_key belongs to a client: give its client_id")
        if isinstance(self.scopes, str):
            raise ConfigError("OAuth: scopes is a list of scopes, not one text")
        url = self.client_metadata_url
        if url is not None and not re.fullmatch(r"https://[^/#@]+/[^#]+", url):
            raise ConfigError("OAuth: client_metadata_url has to be an https address with a path")
        if not self.pkce_announced and self.issuer is None:
            raise ConfigError("OAuth: pkce_announced=False is about one authorization server: give its issuer")
        self.scopes = None if self.scopes is None else tuple(self.scopes)

    def __repr__(self) -> str:
        return f"OAuth({self.label})"

    @property
    def label(self) -> str:
        """Distinguishes the logins of differently configured clients to one server; contains no secret."""
        who = self.client_id or self.client_metadata_url or "registered"
        # All ways in which a person signs in lead to the same login.
        return who if self.grant is None or self.grant.needs_person else f"{who}, {self.grant.name}"


Auth = str | Callable[[], Awaitable[str]] | OAuth
"""A token, an async function that returns one, or the settings of a sign-in."""
