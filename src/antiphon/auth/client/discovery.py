"""Finds the authorization server of an MCP server, and its metadata.

Tries the locations in the order of 2026-07-28 basic/authorization, "Authorization Server Discovery", and validates what
it finds. An address that has something else, such as a web page, counts as one that has nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TypeVar

from msgspec import DecodeError, Struct, json
from yarl import URL

from antiphon.auth.boundary import check_address
from antiphon.auth.client.fetch import Fetch, TooLarge, Unavailable
from antiphon.auth.metadata import PROTECTED_RESOURCE, ResourceMetadata, ServerMetadata, issuer_places, read_document
from antiphon.errors import RemoteProtocolError, Unauthorized
from antiphon.machine.web_requests import make_printable, origin_of, show_address

D = TypeVar("D", ResourceMetadata, ServerMetadata)

_ENDPOINTS = tuple(name for name in ServerMetadata.__struct_fields__ if name.endswith("_endpoint"))

OFFLINE = "offline_access"
"""The scope that requests a refresh token, if the authorization server supports it."""

MAX_SCOPES = 256
"""Scopes that are requested at most, however many a server names."""


MAX_ISSUERS = 4
"""Most authorization servers of a resource whose metadata is asked for; usual are 1 or 2."""


class _NoMetadata(Unauthorized):
    """An address has no metadata, or that of another server; the next address may have it."""

    is_meant = False
    """Whether it has a description of a server that breaks its format, or may have one later; not something else."""


class FoundServer(Struct, frozen=True, kw_only=True):
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
    """List the possible locations of protected resource metadata (RFC 9728, 3.1 and 5.1), the ``hint`` first."""
    root = str(url.origin())
    path = url.raw_path.rstrip("/")
    places = [hint] if hint is not None else []
    places += [f"{root}{PROTECTED_RESOURCE}{path}", f"{root}{PROTECTED_RESOURCE}"]
    return list(dict.fromkeys(places))


def covers_server(resource: str, url: URL) -> bool:
    """Return whether a token for ``resource`` applies to a server: same origin, and the same path or one above it."""
    try:
        read = URL(resource, encoded=True)
        # Parsed once more, so that an IPv6 address is written in one way.
        same = origin_of(URL(resource)) == origin_of(url)
    except ValueError:
        return False
    if not same or read.query_string or read.fragment:
        return False
    above = read.raw_path.rstrip("/")
    path = url.raw_path.rstrip("/")
    return path == above or path.startswith(f"{above}/")


def is_same_issuer(one: str, other: str) -> bool:
    """Return whether two issuers are the same text (RFC 8414, section 3.3), but for the slash after a bare origin.

    Both spellings of an origin are one URI (RFC 3986, section 6.2.3), and their metadata has one address. Resources of
    Google's name ``https://accounts.google.com/``, whose own metadata says ``https://accounts.google.com``.
    """
    shorter, longer = sorted((one, other), key=len)
    return longer == shorter or (longer == f"{shorter}/" and longer.count("/") == 3)


def check_server(metadata: ServerMetadata, issuer: str, where: str) -> None:
    """Check that the metadata belongs to the issuer and its endpoints may be contacted."""
    if not is_same_issuer(metadata.issuer, issuer):
        raise _NoMetadata(
            f"signing in was stopped: {where} is the metadata of {make_printable(metadata.issuer)}, not of "
            f"{make_printable(issuer)}"
        )
    for name in _ENDPOINTS:
        address: str | None = getattr(metadata, name)
        if address:
            check_address(address, f"the {name} of {issuer}")
    if not metadata.token_endpoint:
        raise _NoMetadata(f"signing in was stopped: {where} names no token_endpoint")


def make_default_metadata(url: URL) -> ServerMetadata:
    """Return the default endpoints of 2025-03-26 for a server without metadata."""
    root = str(url.origin())
    return ServerMetadata(
        issuer=root,
        authorization_endpoint=f"{root}/authorize",
        token_endpoint=f"{root}/token",
        registration_endpoint=f"{root}/register",
    )


async def discover_server(
    fetch: Fetch, url: URL, hint: str | None, *, issuer: str | None = None, used: str | None = None
) -> FoundServer:
    """Find the authorization server of the server at ``url``, or raise ``Unauthorized``, which says why.

    ``hint``: where the server says its metadata is. ``issuer``: accept only this authorization server. ``used``: the
    issuer of the last login, preferred if the server still names it.
    """
    found = await _discover_server(fetch, url, hint, issuer=issuer, used=used)
    if found.server.authorization_endpoint:
        # The only endpoint that no request of ours is sent to: a browser opens it.
        await fetch.check_page(check_address(found.server.authorization_endpoint, "the authorization_endpoint"))
    return found


async def _discover_server(
    fetch: Fetch, url: URL, hint: str | None, *, issuer: str | None, used: str | None
) -> FoundServer:
    described = await _read_resource(fetch, url, hint)
    if described is None:
        return await _discover_at_root(fetch, url, issuer)
    if not covers_server(described.resource, url):
        raise Unauthorized(
            f"signing in was stopped: {show_address(url)} asks for tokens for {make_printable(described.resource)}, "
            "which is another server"
        )
    return FoundServer(
        server=await _read_first_server(fetch, _list_issuers(described, url, issuer, used)),
        resource=described.resource,
        scopes=None if described.scopes_supported is None else tuple(described.scopes_supported),
        wants_dpop=described.dpop_bound_access_tokens_required,
    )


def _list_issuers(described: ResourceMetadata, url: URL, issuer: str | None, used: str | None) -> list[str]:
    """List the authorization servers of a resource: only the configured one, or the last one before the others."""
    offered = described.authorization_servers
    if issuer is not None:
        named = [each for each in offered if is_same_issuer(each, issuer)]
        if not named:
            raise Unauthorized(
                f"signing in was stopped: {show_address(url)} does not accept logins of {issuer}, for which the "
                "client was set up; it names "
                + (", ".join(map(make_printable, offered[:3])) or "no authorization server")
            )
        return named[:1]
    if not offered:
        raise Unauthorized(f"{show_address(url)} wants a login, but names no authorization server")
    return sorted(dict.fromkeys(offered), key=lambda each: not is_same_issuer(each, used or ""))[:MAX_ISSUERS]


async def _read_resource(fetch: Fetch, url: URL, hint: str | None) -> ResourceMetadata | None:
    broken: _NoMetadata | None = None
    for place in resource_places(url, hint):
        try:
            found = await _read_metadata(fetch, place, ResourceMetadata, "where the server describes itself")
            if found is not None:
                return found
        except _NoMetadata as error:
            broken = broken or (error if error.is_meant else None)
    if broken is not None:
        raise broken
    return None


async def _read_first_server(fetch: Fetch, issuers: Sequence[str]) -> ServerMetadata:
    """Read the metadata of the first of these authorization servers that has any."""
    problems: list[_NoMetadata] = []
    for issuer in issuers:
        try:
            return await read_server(fetch, issuer)
        except _NoMetadata as error:
            problems.append(error)
    raise problems[0]


async def read_server(fetch: Fetch, issuer: str) -> ServerMetadata:
    """Read the metadata of an authorization server, or raise ``Unauthorized``, which says why."""
    check_address(issuer, "the authorization server")
    problems: list[_NoMetadata] = []
    for place in issuer_places(issuer):
        try:
            found = await _read_metadata(fetch, place, ServerMetadata, "the metadata of the authorization server")
            if found is not None:
                check_server(found, issuer, place)
                return found
        except _NoMetadata as error:
            problems.append(error)
    nothing = f"signing in was stopped: {make_printable(issuer)} has no metadata at a well-known address"
    raise [*problems, _NoMetadata(nothing)][0]


async def _discover_at_root(fetch: Fetch, url: URL, issuer: str | None) -> FoundServer:
    """Without resource metadata, use the configured issuer, otherwise the root of the server's origin (2025-03-26)."""
    if issuer is not None:
        return FoundServer(server=await read_server(fetch, issuer), resource=str(url.with_query(None)))
    root = str(url.origin())
    metadata = None
    for place in issuer_places(root):
        with contextlib.suppress(_NoMetadata):
            metadata = await _read_metadata(fetch, place, ServerMetadata, "the metadata of the server")
        if metadata is not None:
            check_server(metadata, root, place)
            return FoundServer(server=metadata, resource=None)
    return FoundServer(server=make_default_metadata(url), resource=None, is_described=False)


async def _read_metadata(fetch: Fetch, place: str, kind: type[D], what: str) -> D | None:
    """Read the metadata at an address; ``None`` if nothing is there, ``_NoMetadata`` if something else is."""
    try:
        data = await fetch.document(check_address(place, what))
    except (TooLarge, Unavailable) as error:
        found = _NoMetadata(error.message)
        found.is_meant = isinstance(error, Unavailable)
        raise found from None
    if data is None:
        return None
    try:
        return read_document(data, kind, place)
    except RemoteProtocolError as error:
        found = _NoMetadata(f"signing in was stopped: {error}")
        found.is_meant = _names_server(data)
        raise found from None


def _names_server(data: bytes) -> bool:
    try:
        members = json.decode(data, type=dict[str, object])
    except (DecodeError, RecursionError):
        return False
    return not members.keys().isdisjoint(("resource", "authorization_servers", "issuer"))


def join_scopes(*scopes: Sequence[str]) -> tuple[str, ...]:
    """Return all of these scopes in order, without duplicates, at most ``MAX_SCOPES``."""
    return tuple(dict.fromkeys(one for some in scopes for one in some))[:MAX_SCOPES]


def first_scopes(
    wanted: Sequence[str] | None, challenged: Sequence[str], found: FoundServer, *, refreshable: bool
) -> tuple[str, ...]:
    """Choose the scopes of the first request: the user's and the challenge's, otherwise all in the resource's metadata.

    ``refreshable``: whether the grant may return a refresh token; if so, ``offline_access`` is added when the
    authorization server supports it.
    """
    chosen = join_scopes(wanted or (), challenged)
    if not chosen and wanted is None:
        chosen = join_scopes(found.scopes or ())
    if refreshable and OFFLINE in (found.server.scopes_supported or ()):
        chosen = join_scopes(chosen, (OFFLINE,))
    return chosen


def format_scopes(scopes: Sequence[str]) -> str:
    """Format scopes for a message: those from a server may be long, many or unprintable."""
    return make_printable(" ".join(scopes)) or "none"
