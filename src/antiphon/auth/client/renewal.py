"""Refreshes a login exactly once, however many requests and processes need it.

A rotating refresh token may be used only once: if it is used twice, the authorization server considers it stolen and
revokes the login. Therefore the process that refreshes a login first writes a claim with an expiry time into the stored
login; then it sends the request, without holding a lock; then it writes the answer. All others wait for that. A login
is deleted only after the error ``invalid_grant``: a network or server failure says nothing about the token.

A process that is killed after sending leaves its claim behind. Others take the claim over when the process is gone or
the claim has expired, and send the same token again, since nobody knows whether it arrived. The worst case is one new
sign-in.
"""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from msgspec import Struct, structs
from yarl import URL

from antiphon.auth.client.claims import LOOKS, claim_is_void, claim_of
from antiphon.auth.client.discovery import Found
from antiphon.auth.client.exchange import Refused
from antiphon.auth.client.fetch import PATIENCE as REQUEST_PATIENCE
from antiphon.auth.client.fetch import Fetch
from antiphon.auth.client.sign_in import login_of
from antiphon.auth.client.store import Document, Login, LoginStore
from antiphon.auth.client.token_endpoint import TokenEndpoint
from antiphon.auth.dpop import ProofKey
from antiphon.errors import Unauthorized

__all__ = ["CLAIM", "renew"]

CLAIM = 2 * REQUEST_PATIENCE + 15.0
"""Seconds until a claim expires: two requests, if a nonce is required, and time to write the answer."""

_FORGOTTEN = ("invalid_grant",)


class Standing(Struct, frozen=True):
    """The state of a login that is to be refreshed."""

    what: Literal["free", "wait", "done"]
    login: Login | None = None
    """The stored login, if it differs from the one to be refreshed."""


async def renew(store: LoginStore, fetch: Fetch, login: Login, owner: str) -> Login | None:
    """Refresh a login, or wait until another process has; return the login stored after that.

    Returns ``None`` if the login was deleted and somebody has to sign in. ``owner`` identifies the caller among all
    processes.

    Raises:
        Unauthorized: it could not be refreshed now; the stored login is unchanged.
    """
    pause, longest = LOOKS
    while True:
        standing = _standing(await store.read(), login)
        if standing.what == "free":
            claimed = await store.change(lambda kept: _claim(kept, login, owner))
            if claimed is not None:
                return await _send(store, fetch, claimed, owner)
            continue
        if standing.what == "done":
            return standing.login
        await asyncio.sleep(pause)
        pause = min(2 * pause, longest)


def _standing(kept: Document, login: Login) -> Standing:
    """Look up whether a login was refreshed or deleted meanwhile, or is being refreshed."""
    current = kept.find(login.server, login.label)
    if current is None or current.access_token != login.access_token:
        return Standing("done", current)
    if current.refresh_token is None:
        return Standing("done")
    if current.claim is not None and not claim_is_void(current.claim, time.time()):
        return Standing("wait")
    return Standing("free", current)


def _claim(kept: Document, login: Login, owner: str) -> Login | None:
    """Claim a login unless another process has claimed it."""
    standing = _standing(kept, login)
    if standing.what != "free" or standing.login is None:
        return None
    claimed = structs.replace(standing.login, claim=claim_of(owner, CLAIM))
    kept.put(claimed)
    return claimed


async def _send(store: LoginStore, fetch: Fetch, login: Login, owner: str) -> Login | None:
    key = None if login.key is None else ProofKey(login.key)
    endpoint = TokenEndpoint(fetch, login.metadata, login.identity, key)
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "resource": login.resource}
    # If this is cancelled, the request may have arrived: the claim stays, and others wait until it expires.
    try:
        answer = await endpoint.request(form)
    except Refused as refused:
        forget = refused.error in _FORGOTTEN
        await store.change(lambda kept: _give_up(kept, login, owner, forget=forget))
        if forget:
            return None
        raise
    except Unauthorized:
        await store.change(lambda kept: _give_up(kept, login, owner, forget=False))
        raise
    found = Found(server=login.metadata, resource=login.resource)
    renewed = login_of(
        answer,
        server=URL(login.server),
        label=login.label,
        found=found,
        identity=login.identity,
        asked=login.asked,
        key=key,
    )
    renewed = structs.replace(
        renewed,
        # If the response has none, the old one stays valid (RFC 6749, section 6).
        refresh_token=answer.refresh_token or login.refresh_token,
        scopes=login.scopes if answer.scopes is None else answer.scopes,
    )
    return await store.change(lambda kept: _write(kept, renewed, login, owner))


def _write(kept: Document, renewed: Login, login: Login, owner: str) -> Login | None:
    current = kept.find(login.server, login.label)
    if current is None or current.claim is None or current.claim.owner != owner:
        # The login was deleted, replaced or taken over meanwhile: the stored one counts.
        return current
    kept.put(renewed)
    return renewed


def _give_up(kept: Document, login: Login, owner: str, *, forget: bool) -> None:
    current = kept.find(login.server, login.label)
    if current is None or current.claim is None or current.claim.owner != owner:
        return
    if forget:
        kept.drop(login.server, login.label)
    else:
        kept.put(structs.replace(current, claim=None))
