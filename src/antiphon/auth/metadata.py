"""Metadata documents of servers, as far as they are used here.

Where an authorization server has its document, and the types and parsing of all: RFC 9728 (protected resource), RFC
8414 and OpenID Connect Discovery (authorization server).
``client.discovery`` validates the content.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from antiphon.errors import RemoteProtocolError, Unauthorized

Text = Annotated[str, Meta(max_length=4096)]
Names = Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=1024)]

PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
"""Where the metadata of a protected resource is, followed by the resource's own path (RFC 9728, section 3)."""


class ResourceMetadata(Struct, frozen=True, kw_only=True):
    """Metadata of a protected resource (RFC 9728, section 2)."""

    resource: Text
    authorization_servers: Annotated[list[Text], Meta(max_length=64)] = []
    scopes_supported: Names | None = None
    dpop_bound_access_tokens_required: bool = False


class ServerMetadata(Struct, frozen=True, kw_only=True):
    """Metadata of an authorization server (RFC 8414, section 2)."""

    issuer: Text
    token_endpoint: Text = ""
    authorization_endpoint: Text | None = None
    registration_endpoint: Text | None = None
    device_authorization_endpoint: Text | None = None
    revocation_endpoint: Text | None = None
    end_session_endpoint: Text | None = None
    scopes_supported: Names | None = None
    code_challenge_methods_supported: Names | None = None
    token_endpoint_auth_methods_supported: Names | None = None
    dpop_signing_alg_values_supported: Names | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False


def issuer_places(issuer: str) -> list[str]:
    """List the possible locations of an authorization server's metadata, in order. ``issuer`` is an address.

    2026-07-28 basic/authorization/authorization-server-discovery, "Authorization Server Metadata Discovery".
    """
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    places = [
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    ]
    return list(dict.fromkeys(places))


D = TypeVar("D", ResourceMetadata, ServerMetadata)


def read_members(data: bytes) -> dict[str, Any]:
    """Decode a JSON object without a byte order mark and without members that are null; raise ``DecodeError``."""
    try:
        members = msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8), type=dict[str, Any])
    except RecursionError:
        raise msgspec.DecodeError("JSON is nested too deep") from None
    # Serializers of Java and C# write each member that an object does not have as null.
    return {name: value for name, value in members.items() if value is not None}


def read_document(data: bytes, kind: type[D], where: str) -> D:
    """Decode a metadata document; raise ``RemoteProtocolError``, which names ``where`` it was, if that fails."""
    try:
        return msgspec.convert(read_members(data), kind)
    except msgspec.DecodeError as error:
        raise RemoteProtocolError(f"{where} is not the OAuth metadata of a server: {error}") from None


class Answer(Struct, frozen=True, kw_only=True):
    """The response to an HTTP request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the JSON object in the body; an empty one if there is none."""
        try:
            return read_members(self.body)
        except msgspec.DecodeError:
            return {}


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


TROUBLE = 429
"""From this HTTP status on, a refusal is about the server's own state, whatever its body says."""


class Refused(Unauthorized):
    """The authorization server refused. ``error`` is its code, such as ``invalid_grant``; ``status`` that of HTTP."""

    def __init__(
        self, message: str, *, error: str = "", status: int = 0, code: int | None = None, data: Any = None
    ) -> None:
        super().__init__(message, code=code, data=data)
        self.error = error
        self.status = status
