"""The client's identity at an authorization server (2026-07-28 basic/authorization, "Client Registration").

Owns the order: registered beforehand, a client metadata document, dynamic registration (new or stored); otherwise the
user has to register the client. An identity is used only at the issuer it belongs to.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal, cast

from yarl import URL

from antiphon.auth.client.addresses import checked_address
from antiphon.auth.client.exchange import Answer, ClientIdentity
from antiphon.auth.client.fetch import Fetch
from antiphon.auth.client.oauth import OAuth
from antiphon.auth.client.store import Registered
from antiphon.auth.client.token_endpoint import refusal_of
from antiphon.auth.metadata import ServerMetadata
from antiphon.errors import Unauthorized
from antiphon.machine.loopback import is_loopback

__all__ = ["choose", "preregistered", "register", "registration_request"]

Choice = Literal["preregistered", "document", "dynamic"]


def choose(settings: OAuth, server: ServerMetadata) -> Choice:
    """Choose the kind of registration, in the order of the specification.

    Raises:
        Unauthorized: the client has to be registered beforehand.
    """
    if settings.client_id is not None:
        return "preregistered"
    if settings.client_metadata_url is not None and server.client_id_metadata_document_supported:
        return "document"
    if server.registration_endpoint:
        return "dynamic"
    raise Unauthorized(
        f"{server.issuer} does not register clients itself: register one there, and give its client_id "
        "(OAuth(client_id=..., client_secret=..., issuer=...); --client-id)"
    )


def preregistered(settings: OAuth, server: ServerMetadata, known_issuer: str | None) -> ClientIdentity:
    """Return the identity in the user's settings.

    Args:
        settings: the user's settings.
        server: the authorization server.
        known_issuer: the issuer it was used at before, if any.

    Raises:
        Unauthorized: the MCP server now uses another authorization server, where this client is not registered; or a
            server of this machine asks for its secret elsewhere.
    """
    assert settings.client_id is not None
    if known_issuer is not None and known_issuer != server.issuer:
        raise Unauthorized(
            f"signing in was stopped: the server now uses {server.issuer}, but {settings.client_id} is "
            f"registered at {known_issuer}: register a client there, or log out first"
        )
    is_here = is_loopback(URL(server.issuer).host or "")
    if settings.client_secret is not None and settings.issuer is None and not is_here:
        raise Unauthorized(
            f"signing in was stopped: the server asks for the secret of {settings.client_id} at {server.issuer}: give "
            "its issuer (--issuer) if the secret belongs there"
        )
    return ClientIdentity(
        client_id=settings.client_id,
        secret=settings.client_secret,
        private_key=settings.private_key,
        algorithm=settings.algorithm,
    )


def registration_request(settings: OAuth, server: ServerMetadata, redirect_uri: str | None) -> dict[str, Any]:
    """Build the registration request (RFC 7591, section 2)."""
    methods = server.token_endpoint_auth_methods_supported
    # A program on a person's machine cannot keep a secret, so "none" is preferred.
    preferred = ("none", "client_secret_basic", "client_secret_post")
    method = next((one for one in preferred if methods is None or one in methods), "none")
    grant = settings.grant.grant_type if settings.grant is not None else "authorization_code"
    request: dict[str, Any] = {
        "client_name": settings.client_name,
        "grant_types": [grant, "refresh_token"],
        "response_types": ["code"] if redirect_uri is not None else [],
        "token_endpoint_auth_method": method,
        # OpenID Connect Registration: only native clients may be redirected to this machine.
        "application_type": "native",
    }
    if redirect_uri is not None:
        request["redirect_uris"] = [redirect_uri]
    return request


async def register(fetch: Fetch, settings: OAuth, server: ServerMetadata, redirect_uri: str | None) -> Registered:
    """Register the client dynamically (RFC 7591, section 3).

    Raises:
        Unauthorized: the authorization server refuses.
    """
    url = checked_address(server.registration_endpoint or "", "the registration endpoint")
    answer = await fetch.post_json(url, registration_request(settings, server, redirect_uri))
    if answer.status not in (200, 201):
        refused = refusal_of(answer, server.issuer)
        raise Unauthorized(f"{refused.message} while registering a client: register one there by hand")
    return _read(answer, server.issuer, redirect_uri, time.time)


def _read(answer: Answer, issuer: str, redirect_uri: str | None, clock: Callable[[], float]) -> Registered:
    said = answer.json()
    client_id, secret, method = (
        said.get(name) for name in ("client_id", "client_secret", "token_endpoint_auth_method")
    )
    if not isinstance(client_id, str) or not 0 < len(client_id) <= 2048 or not client_id.isprintable():
        raise Unauthorized(f"signing in failed: {issuer} registered a client without a client_id that can be used")
    expires = said.get("client_secret_expires_at")
    lasts = isinstance(secret, str) and isinstance(expires, int | float) and expires > clock()
    return Registered(
        issuer=issuer,
        identity=ClientIdentity(
            client_id=client_id,
            secret=secret if isinstance(secret, str) and len(secret) <= 4096 else None,
            method=method if isinstance(method, str) and len(method) <= 64 else None,
            redirect_uri=redirect_uri,
        ),
        expires_at=float(cast("float", expires)) if lasts else None,
    )
