"""Finds the authorization server of an MCP server, and its metadata.

Tries the locations in the order of 2026-07-28 basic/authorization, "Authorization Server Discovery", and validates what
it finds. The functions make no requests; ``Discovery`` does.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct
from yarl import URL

from antiphon.auth.client.addresses import checked_address, origin_of, printable, shown
from antiphon.auth.client.fetch import Fetch
from antiphon.auth.metadata import ResourceMetadata, ServerMetadata, issuer_places, read_document
from antiphon.errors import RemoteProtocolError, Unauthorized

__all__ = ["Found", "check_server", "covers", "discover", "fallback", "resource_places"]

D = TypeVar("D", ResourceMetadata, ServerMetadata)

_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_ENDPOINTS = (
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "device_authorization_endpoint",
    "revocation_endpoint",
)


class Found(Struct, frozen=True, kw_only=True):
    """An authorization server, and the resource that tokens are requested for."""

    server: ServerMetadata
    """The authorization server."""
    resource: str | None
    """The resource identifier exactly as the server names it; ``None`` for a server of 2025-03-26, which has none."""
    scopes: tuple[str, ...] | None = None
    """The scopes in the resource's metadata, which cover basic use."""
    wants_dpop: bool = False
    is_described: bool = True
    """Whether there is metadata; otherwise the endpoints are the default ones of 2025-03-26."""


def resource_places(url: URL, hint: str | None) -> list[str]:
    """List the possible locations of protected resource metadata, in order (RFC 9728, sections 3.1 and 5.1).

    Args:
        url: the MCP server.
        hint: the location in the server's challenge, if any.
    """
    root = str(url.origin())
    path = url.raw_path.rstrip("/")
    places = [hint] if hint is not None else []
    places += [f"{root}{_RESOURCE}{path}", f"{root}{_RESOURCE}"]
    return list(dict.fromkeys(places))


def covers(resource: str, url: URL) -> bool:
    """Tell whether a token for ``resource`` applies to a server: same origin, and the same path or one above it."""
    try:
        read = URL(resource, encoded=True)
        same = origin_of(read) == origin_of(url)
    except ValueError:
        return False
    if not same or read.query_string or read.fragment:
        return False
    above = read.raw_path.rstrip("/")
    path = url.raw_path.rstrip("/")
    return path == above or path.startswith(f"{above}/")


def check_server(metadata: ServerMetadata, issuer: str, where: str) -> None:
    """Check that the metadata belongs to the issuer (RFC 8414, section 3.3) and its endpoints may be contacted.

    Raises:
        Unauthorized: a check failed; the message says which.
    """
    if metadata.issuer != issuer:
        raise Unauthorized(
            f"signing in was stopped: {where} is the metadata of {printable(metadata.issuer)}, not of "
            f"{printable(issuer)}"
        )
    for name in _ENDPOINTS:
        address: str | None = getattr(metadata, name)
        if address:
            checked_address(address, f"the {name} of {issuer}")
    if not metadata.token_endpoint:
        raise Unauthorized(f"signing in was stopped: {where} names no token_endpoint")


def fallback(url: URL) -> ServerMetadata:
    """Return the default endpoints of 2025-03-26 for a server without metadata."""
    root = str(url.origin())
    return ServerMetadata(
        issuer=root,
        authorization_endpoint=f"{root}/authorize",
        token_endpoint=f"{root}/token",
        registration_endpoint=f"{root}/register",
    )


async def discover(
    fetch: Fetch, url: URL, hint: str | None, *, issuer: str | None = None, used: str | None = None
) -> Found:
    """Find the authorization server of the server at ``url``.

    Args:
        fetch: makes the requests.
        url: the server.
        hint: where the server says its metadata is.
        issuer: accept only this authorization server.
        used: issuer of the last login; preferred if the server still names it.

    Raises:
        Unauthorized: there is none that may be used; the message says why.
    """
    found = await _discover(fetch, url, hint, issuer=issuer, used=used)
    if found.server.authorization_endpoint:
        # The only endpoint that no request of ours is sent to: a browser opens it.
        await fetch.check_page(checked_address(found.server.authorization_endpoint, "the authorization_endpoint"))
    return found


async def _discover(fetch: Fetch, url: URL, hint: str | None, *, issuer: str | None, used: str | None) -> Found:
    described = await _resource(fetch, url, hint)
    if described is None:
        return await _undescribed(fetch, url, issuer)
    if not covers(described.resource, url):
        raise Unauthorized(
            f"signing in was stopped: {shown(url)} asks for tokens for {printable(described.resource)}, "
            "which is another server"
        )
    chosen = _choose(described, url, issuer, used)
    return Found(
        server=await _server(fetch, chosen),
        resource=described.resource,
        scopes=None if described.scopes_supported is None else tuple(described.scopes_supported),
        wants_dpop=described.dpop_bound_access_tokens_required,
    )


def _choose(described: ResourceMetadata, url: URL, issuer: str | None, used: str | None) -> str:
    """Choose among the authorization servers of a resource: the configured one, the last one, otherwise the first."""
    offered = described.authorization_servers
    if issuer is not None:
        if issuer not in offered:
            raise Unauthorized(
                f"signing in was stopped: {shown(url)} does not accept logins of {issuer}, for which the client was "
                f"set up; it names {', '.join(map(printable, offered[:3])) or 'no authorization server'}"
            )
        return issuer
    if not offered:
        raise Unauthorized(f"{shown(url)} wants a login, but names no authorization server")
    return used if used is not None and used in offered else offered[0]


async def _resource(fetch: Fetch, url: URL, hint: str | None) -> ResourceMetadata | None:
    for place in resource_places(url, hint):
        data = await fetch.document(checked_address(place, "where the server describes itself"))
        if data is not None:
            return _read(data, ResourceMetadata, place)
    return None


async def _server(fetch: Fetch, issuer: str) -> ServerMetadata:
    checked_address(issuer, "the authorization server")
    for place in issuer_places(issuer):
        data = await fetch.document(checked_address(place, "the metadata of the authorization server"))
        if data is not None:
            metadata = _read(data, ServerMetadata, place)
            check_server(metadata, issuer, place)
            return metadata
    raise Unauthorized(f"signing in was stopped: {printable(issuer)} has no metadata at a well-known address")


async def _undescribed(fetch: Fetch, url: URL, issuer: str | None) -> Found:
    """Without resource metadata, use the configured issuer, otherwise the root of the server's origin (2025-03-26)."""
    if issuer is not None:
        return Found(server=await _server(fetch, issuer), resource=str(url.with_query(None)))
    root = str(url.origin())
    place = f"{root}{_OAUTH}"
    data = await fetch.document(checked_address(place, "the metadata of the server"))
    if data is None:
        checked_address(root, "the server")
        return Found(server=fallback(url), resource=None, is_described=False)
    metadata = _read(data, ServerMetadata, place)
    # It was found on the server's own origin, so an issuer with a slash at the end is accepted as well.
    check_server(metadata, metadata.issuer if metadata.issuer == f"{root}/" else root, place)
    return Found(server=metadata, resource=None)


def _read(data: bytes, kind: type[D], place: str) -> D:
    try:
        return read_document(data, kind, place)
    except RemoteProtocolError as error:
        raise Unauthorized(f"signing in was stopped: {error}") from None
