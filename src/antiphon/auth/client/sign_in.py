"""One sign-in, from the server's refusal to a stored login.

Runs the steps in order, discovery with its scopes, registration, grant, storage. Owns the registration: an identity of
the client is used only at the issuer that it belongs to.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal, cast
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct, structs
from yarl import URL

from antiphon.auth.boundary import check_address
from antiphon.auth.challenge import ALGORITHM, Challenge, ProofKey
from antiphon.auth.client.authorization_code import AuthorizationCode, Receiver, check_pkce, open_browser
from antiphon.auth.client.discovery import FoundServer, first_scopes, join_scopes
from antiphon.auth.client.fetch import Fetch
from antiphon.auth.client.grants import Grant, Wanted
from antiphon.auth.client.oauth import OAuth
from antiphon.auth.client.store import Login, Registered
from antiphon.auth.client.token_endpoint import TokenEndpoint, refusal_of
from antiphon.auth.metadata import Answer, ClientIdentity, Refused, ServerMetadata
from antiphon.errors import ConfigError, Unauthorized
from antiphon.machine.loopback import is_loopback
from antiphon.machine.web_requests import describe_cause, show_address

Choice = Literal["preregistered", "document", "dynamic"]


class _Entered(Struct):
    """A registered client, and the receiver of its redirect."""

    identity: ClientIdentity
    receiver: Receiver | None
    redirect_uri: str | None


async def sign_in(
    settings: OAuth, fetch: Fetch, server: URL, found: FoundServer, challenge: Challenge | None, before: Login | None
) -> Login:
    """Obtain a login and store it, or raise ``Unauthorized``, which says why no token was granted.

    ``found`` is the authorization server of ``server``; ``before`` the login that has expired or lacks scopes.
    """
    found = found if settings.names_resource else structs.replace(found, resource=None)
    moved = before is not None and before.metadata.issuer != found.server.issuer
    known = None if before is None or moved else before
    refreshable = settings.grant is None or settings.grant.needs_person
    scopes = join_scopes(
        known.asked if known is not None else (),
        first_scopes(settings.scopes, challenge.scopes if challenge else (), found, refreshable=refreshable),
    )
    key = _choose_key(settings, found, challenge, known)
    async with _prepare_grant(settings, fetch, found, before) as entered:
        grant = settings.grant or _make_browser_grant(settings, entered, found)
        endpoint = TokenEndpoint(fetch, found.server, entered.identity, key)
        try:
            answer = await grant.obtain(Wanted(endpoint=endpoint, resource=found.resource, scopes=scopes))
        except BaseException as error:
            # The server may have deleted the registered client, and many tell only the person, on the page. Whatever
            # ends this sign-in, also a person who gives it up: the next one registers a new client, unless the server
            # has asked that person, and so knows the client.
            if not isinstance(error, Refused) or error.error != "access_denied":
                await settings.store.change(lambda kept: kept.unregister(found.server.issuer))
            raise
    login = Login(
        server=show_address(server),
        label=settings.label,
        metadata=found.server,
        resource=found.resource,
        identity=entered.identity,
        access_token=answer.access_token,
        token_type=answer.token_type,
        scopes=scopes,
        asked=scopes,
        key=None if key is None else key.export_key(),
        is_issuer_set=settings.issuer is not None,
    ).with_token(answer)
    await settings.store.change(lambda kept: kept.put(login))
    return login


def _choose_key(
    settings: OAuth, found: FoundServer, challenge: Challenge | None, known: Login | None
) -> ProofKey | None:
    """Choose the key to bind the token to, if any; raise ``Unauthorized`` if DPoP is needed and not supported."""
    asked = found.wants_dpop or (challenge is not None and challenge.scheme == "dpop")
    if settings.dpop is False or not (settings.dpop or asked):
        return None
    algorithms = found.server.dpop_signing_alg_values_supported
    if algorithms is not None and ALGORITHM not in algorithms:
        raise Unauthorized(
            f"signing in was stopped: {found.server.issuer} accepts no DPoP proofs signed by {ALGORITHM}"
        )
    if algorithms is None and not (settings.dpop or found.wants_dpop):
        return None
    return ProofKey(known.key) if known is not None and known.key is not None else ProofKey()


@asynccontextmanager
async def _prepare_grant(
    settings: OAuth, fetch: Fetch, found: FoundServer, before: Login | None
) -> AsyncGenerator[_Entered]:
    """Register the client if necessary, and listen for the redirect if the grant needs a browser."""
    choice = choose_registration(settings, found.server)
    if choice == "preregistered":
        identity = find_preregistered_client(settings, found.server, None if before is None else before.metadata.issuer)
    elif choice == "document":
        identity = ClientIdentity(client_id=settings.client_metadata_url or "", method="none")
    else:
        kept = (await settings.store.read()).registration(found.server.issuer, time.time())
        # A client is registered either for a browser, which is redirected, or for grants that do without.
        fits = kept is not None and (kept.identity.redirect_uri is None) == (settings.grant is not None)
        identity = kept.identity if kept is not None and fits else None
    receiver, redirect_uri, is_same = await _open_receiver(settings, identity)
    try:
        if identity is None or not is_same:
            made = await register_client(fetch, settings, found.server, redirect_uri)
            await settings.store.change(lambda document: document.register(made))
            identity = made.identity
        yield _Entered(identity, receiver, redirect_uri)
    finally:
        if receiver is not None:
            await receiver.close()


async def _open_receiver(settings: OAuth, identity: ClientIdentity | None) -> tuple[Receiver | None, str | None, bool]:
    """Listen for the redirect; the last value tells whether that is at the registered address."""
    if settings.grant is not None:
        return None, None, True
    if settings.redirect_uri is not None:
        is_same = identity is None or identity.redirect_uri in (None, settings.redirect_uri)
        try:
            return await Receiver.open(settings.redirect_uri), settings.redirect_uri, is_same
        except (OSError, ValueError) as error:
            # ``open_page`` may return the address instead, so the port need not be available.
            if settings.open_page is not None:
                return None, settings.redirect_uri, is_same
            why = describe_cause(error) or "no such port"
            raise ConfigError(f"redirect_uri: cannot wait for the browser at {settings.redirect_uri}: {why}") from None
    registered = None if identity is None else identity.redirect_uri
    if registered is not None:
        with contextlib.suppress(OSError):
            return await Receiver.open(registered), registered, True
    receiver = await Receiver.open()
    return receiver, receiver.redirect_uri, registered is None


def _make_browser_grant(settings: OAuth, entered: _Entered, found: FoundServer) -> Grant:
    if not found.server.authorization_endpoint:
        raise Unauthorized(f"signing in was stopped: {found.server.issuer} has no page to sign in at")
    if found.is_described and settings.pkce_announced:
        check_pkce(found.server)
    show_page = settings.open_page or open_browser

    async def show_sign_in(address: str) -> str:
        if entered.receiver is not None:
            # Before the page is opened: a person who is signed in already is redirected at once.
            entered.receiver.expect(parse_qs(urlsplit(address).query)["state"][-1])
        ended = await show_page(address)
        if ended is not None:
            return ended
        if entered.receiver is None:
            raise Unauthorized("signing in failed: the browser is not redirected to this machine")
        return await entered.receiver.answer()

    return AuthorizationCode(show_sign_in, entered.redirect_uri or "", settings.timeout)


def choose_registration(settings: OAuth, server: ServerMetadata) -> Choice:
    """Choose the kind of registration, in the order of the specification, or raise ``Unauthorized``."""
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


def find_preregistered_client(settings: OAuth, server: ServerMetadata, known_issuer: str | None) -> ClientIdentity:
    """Return the identity in the user's settings. ``known_issuer``: the issuer it was used at before, if any.

    Raises ``Unauthorized`` if the MCP server now uses another authorization server, where this client is not
    registered, or if a server of this machine asks for its secret elsewhere.
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


async def register_client(
    fetch: Fetch, settings: OAuth, server: ServerMetadata, redirect_uri: str | None
) -> Registered:
    """Register the client dynamically (RFC 7591, section 3); raise ``Unauthorized`` if that is refused."""
    url = check_address(server.registration_endpoint or "", "the registration endpoint")
    answer = await fetch.post_json(url, registration_request(settings, server, redirect_uri))
    if answer.status not in (200, 201):
        refused = refusal_of(answer, server.issuer)
        raise Unauthorized(f"{refused.message} while registering a client: register one there by hand")
    return _read_registration(answer, server.issuer, redirect_uri)


def _read_registration(answer: Answer, issuer: str, redirect_uri: str | None) -> Registered:
    said = answer.json()
    client_id, secret, method = (
        said.get(name) or None for name in ("client_id", "client_secret", "token_endpoint_auth_method")
    )
    if not isinstance(client_id, str) or not 0 < len(client_id) <= 2048 or not client_id.isprintable():
        raise Unauthorized(f"signing in failed: {issuer} registered a client without a client_id that can be used")
    expires = said.get("client_secret_expires_at")
    lasts = isinstance(secret, str) and isinstance(expires, int | float) and time.time() < expires < 1e12
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
