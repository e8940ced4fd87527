"""What goes to an authorization server, and what comes back: the values, and the endpoint as grants see it.

Light to import: whoever only sets ``OAuth`` pays for no HTTP library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol, Self, cast

from msgspec import Struct

from antiphon.auth.metadata import ServerMetadata
from antiphon.errors import Unauthorized

__all__ = ["Answer", "ClientIdentity", "Endpoint", "Refused", "TokenAnswer"]


class Answer(Struct, frozen=True, kw_only=True):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the object in the body; an empty one if there is none."""
        try:
            read: object = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", read) if isinstance(read, dict) else {}


class ClientIdentity(Struct, frozen=True, kw_only=True):
    """What we are called at one authorization server, and how we prove it."""

    client_id: str
    secret: str | None = None
    method: str | None = None
    """As the registration says; ``None``: whatever the server takes."""
    private_key: str | None = None
    """PEM, for ``private_key_jwt``."""
    algorithm: str = "ES256"
    redirect_uri: str | None = None
    """The one that was registered with it, if any was."""

    def __repr__(self) -> str:
        return f"ClientIdentity({self.client_id!r})"


class TokenAnswer(Struct, frozen=True, kw_only=True):
    """A token that was granted."""

    access_token: str
    token_type: str = "Bearer"
    expires_in: float | None = None
    refresh_token: str | None = None
    scopes: tuple[str, ...] | None = None
    """What was granted; ``None``: just what was asked for."""
    raw: Mapping[str, Any] = {}
    """The whole answer."""

    def __repr__(self) -> str:
        return f"TokenAnswer({self.token_type}, expires_in={self.expires_in})"


class Refused(Unauthorized):
    """The authorization server says no. ``error`` is its code, such as ``invalid_grant``."""

    def __init__(self, message: str, *, error: str = "", code: int | None = None, data: Any = None) -> None:
        super().__init__(message, code=code, data=data)
        self.error = error


class Endpoint(Protocol):
    """The token endpoint of one authorization server, as one client uses it (``token_endpoint``)."""

    server: ServerMetadata
    identity: ClientIdentity

    async def request(self, form: Mapping[str, str | None]) -> TokenAnswer:
        """Ask for a token.

        Args:
            form: what to send; members without a value are left out.

        Raises:
            Refused: the answer is no.
            Unauthorized: there is none, or it cannot be used.
        """
        ...

    async def post(self, address: str, form: Mapping[str, str | None]) -> Answer:
        """Post a form to another endpoint of the same server, as the same client.

        Args:
            address: URL of that endpoint.
            form: what to send; members without a value are left out.
        """
        ...

    def at(self, server: ServerMetadata, identity: ClientIdentity) -> Self:
        """Return the token endpoint of another server, which knows us by another name.

        Args:
            server: that server; only its ``token_endpoint`` is used.
            identity: that name.
        """
        ...
