"""Values exchanged with an authorization server, and the token endpoint as grants use it.

Imports no HTTP library, so that importing ``OAuth`` stays fast.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol, Self, cast

from msgspec import Struct

from antiphon.auth.metadata import ServerMetadata
from antiphon.errors import Unauthorized


class Answer(Struct, frozen=True, kw_only=True):
    """The response to an HTTP request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the JSON object in the body; an empty one if there is none."""
        try:
            read: object = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", read) if isinstance(read, dict) else {}


class ClientIdentity(Struct, frozen=True, kw_only=True):
    """The client at one authorization server, and how it authenticates."""

    client_id: str
    secret: str | None = None
    method: str | None = None
    """Authentication method of the registration; ``None``: one that the server supports."""
    private_key: str | None = None
    """PEM; for ``private_key_jwt``."""
    algorithm: str = "ES256"
    redirect_uri: str | None = None
    """The redirect URI registered with it, if any."""

    def __repr__(self) -> str:
        return f"ClientIdentity({self.client_id!r})"


class TokenAnswer(Struct, frozen=True, kw_only=True):
    """A token that was granted."""

    access_token: str
    token_type: str = "Bearer"
    expires_in: float | None = None
    refresh_token: str | None = None
    scopes: tuple[str, ...] | None = None
    """The granted scopes; ``None``: exactly the requested ones."""
    raw: Mapping[str, Any] = {}
    """The complete response."""

    def __repr__(self) -> str:
        return f"TokenAnswer({self.token_type}, expires_in={self.expires_in})"


class Refused(Unauthorized):
    """The authorization server refused. ``error`` is its code, such as ``invalid_grant``."""

    def __init__(self, message: str, *, error: str = "", code: int | None = None, data: Any = None) -> None:
        super().__init__(message, code=code, data=data)
        self.error = error


class Endpoint(Protocol):
    """The token endpoint of one authorization server, as one client uses it (``token_endpoint``)."""

    server: ServerMetadata
    identity: ClientIdentity

    async def request(self, form: Mapping[str, str | None]) -> TokenAnswer:
        """Request a token.

        Args:
            form: what to send; members without a value are left out.

        Raises:
            Refused: the authorization server refused.
            Unauthorized: there is no response, or it cannot be used.
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
        """Return the token endpoint of another authorization server, for another client identity.

        Args:
            server: that server; only its ``token_endpoint`` is used.
            identity: the client there.
        """
        ...
