"""Metadata documents of servers, as far as they are used here.

Where an authorization server has its document, and the types and parsing of all: RFC 9728 (protected resource), RFC
8414 and OpenID Connect Discovery (authorization server).
``client.discovery`` validates the content.
"""

from __future__ import annotations

from typing import Annotated, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from antiphon.errors import RemoteProtocolError

Text = Annotated[str, Meta(max_length=4096)]
Names = Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=1024)]


class ResourceMetadata(Struct, frozen=True, kw_only=True):
    """Metadata of a protected resource (RFC 9728, section 2)."""

    resource: Text
    authorization_servers: Annotated[list[Text], Meta(max_length=64)] = []
    scopes_supported: Names | None = None
    resource_name: Text | None = None
    dpop_bound_access_tokens_required: bool = False


class ServerMetadata(Struct, frozen=True, kw_only=True):
    """Metadata of an authorization server (RFC 8414, section 2)."""

    issuer: Text
    token_endpoint: Text = ""
    authorization_endpoint: Text | None = None
    registration_endpoint: Text | None = None
    device_authorization_endpoint: Text | None = None
    revocation_endpoint: Text | None = None
    scopes_supported: Names | None = None
    grant_types_supported: Names | None = None
    code_challenge_methods_supported: Names | None = None
    token_endpoint_auth_methods_supported: Names | None = None
    token_endpoint_auth_signing_alg_values_supported: Names | None = None
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


def read_document(data: bytes, kind: type[D], where: str) -> D:
    """Decode a metadata document; raise ``RemoteProtocolError``, which names ``where`` it was, if that fails."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"{where} is not the OAuth metadata of a server: {error}") from None
