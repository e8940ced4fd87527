"""Refreshes a login exactly once, however many requests and processes need it.

A rotating refresh token may be used only once: if it is used twice, the authorization server considers it stolen and
revokes the login. Therefore the process that refreshes a login first writes a claim with an expiry time into the stored
login; then it sends the request, without holding a lock; then it writes the answer. All others wait for that. A login
is deleted only after an error about the token: a network or server failure says nothing about it.

A process that is killed after sending leaves its claim behind. Others take the claim over when the process is gone or
the claim has expired, and send the same token again, since nobody knows whether it arrived. The worst case is one new
sign-in. A claim with the same rules lets one process sign in while the others wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import structs

from antiphon.auth.challenge import ProofKey
from antiphon.auth.client.fetch import PATIENCE as REQUEST_PATIENCE
from antiphon.auth.client.fetch import Fetch
from antiphon.auth.client.store import Claim, Document, Login, LoginStore
from antiphon.auth.client.token_endpoint import TokenEndpoint
from antiphon.auth.metadata import TROUBLE, Refused
from antiphon.errors import Unauthorized
from antiphon.machine.running_processes import find_start, identify_place, is_running

CLAIM = 2 * REQUEST_PATIENCE + 15.0
"""Seconds until a claim expires: two requests, if a nonce is required, and time to write the answer."""

_CLIENT_UNKNOWN = ("invalid_client", "unauthorized_client")
"""Errors of a server that has deleted the registered client."""
_PASSING = ("", "server_error", "temporarily_unavailable", "slow_down", "use_dpop_nonce", "invalid_dpop_proof")
"""Errors that say nothing about the refresh token. After any other only a new sign-in helps: RFC 6749, section 5.2, has
``invalid_grant``, but servers in use say ``invalid_request``, ``invalid_token`` or a word of their own."""

log = logging.getLogger("antiphon.auth")

LOOKS = (0.05, 0.25)
"""Seconds between the first two reads of another process's claim, and the longest pause between two reads."""


async def renew_login(store: LoginStore, fetch: Fetch, login: Login, owner: str) -> Login | None:
    """Refresh a login, or wait until another process has; return the login stored after that.

    Returns ``None`` if the login was deleted and somebody has to sign in. ``owner`` identifies the caller among all
    processes. Raises ``Unauthorized`` if it could not be refreshed now; the stored login is unchanged.
    """
    pause, longest = LOOKS
    while True:
        state, current = _look_up_standing(await store.read(), login)
        if state == "free":
            claimed = await store.change(lambda kept: _claim_login(kept, login, owner))
            if claimed is not None:
                return await _send_renewal(store, fetch, claimed, owner)
            continue
        if state == "done":
            return current
        await asyncio.sleep(pause)
        pause = min(2 * pause, longest)


def _look_up_standing(kept: Document, login: Login) -> tuple[Literal["free", "wait", "done"], Login | None]:
    """Look up whether a login is being refreshed, or was refreshed or deleted; return the stored one as well."""
    current = kept.find(login.server, login.label)
    if current is None or current.access_token != login.access_token:
        return "done", current
    if current.refresh_token is None:
        return "done", None
    now = time.time()
    # A claim that ends later than any can is from before the clock was set back.
    if current.claim is not None and current.claim.until <= now + 2 * CLAIM and not claim_is_void(current.claim, now):
        return "wait", current
    return "free", current


def _claim_login(kept: Document, login: Login, owner: str) -> Login | None:
    """Claim a login unless another process has claimed it."""
    state, current = _look_up_standing(kept, login)
    if state != "free" or current is None:
        return None
    # The issuer may have moved its token endpoint since the login was stored.
    claimed = structs.replace(current, claim=claim_of(owner, CLAIM), metadata=login.metadata)
    kept.put(claimed)
    return claimed


async def _send_renewal(store: LoginStore, fetch: Fetch, login: Login, owner: str) -> Login | None:
    key = None if login.key is None else ProofKey(login.key)
    endpoint = TokenEndpoint(fetch, login.metadata, login.identity, key)
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "resource": login.resource}
    # If this is cancelled, the request may have arrived: the claim stays, and others wait until it expires.
    try:
        answer = await endpoint.request(form)
    except Unauthorized as error:
        code = error.error if isinstance(error, Refused) else ""
        is_over = isinstance(error, Refused) and error.status < TROUBLE and code not in _PASSING
        left = None if is_over else structs.replace(login, claim=None)
        await store.change(lambda kept: _write_renewed(kept, left, login, owner))
        if code in _CLIENT_UNKNOWN:
            await store.change(lambda kept: kept.unregister(login.metadata.issuer))
        if left is None:
            return None
        raise
    renewed = login.with_token(answer)
    return await store.change(lambda kept: _write_renewed(kept, renewed, login, owner))


def _write_renewed(kept: Document, renewed: Login | None, login: Login, owner: str) -> Login | None:
    """Replace a login that is still claimed by ``owner``, or delete it; return the login stored after that."""
    current = kept.find(login.server, login.label)
    if current is None or current.claim is None or current.claim.owner != owner:
        # The login was deleted, replaced or taken over meanwhile: the stored one counts.
        return current
    if renewed is None:
        kept.drop(login.server, login.label)
    else:
        kept.put(renewed)
    return renewed


def claim_of(owner: str, seconds: float) -> Claim:
    """Make a claim of this process; ``seconds``: until others may take it over."""
    pid = os.getpid()
    where, since = identify_place(), find_start(pid)
    started = f"{where}:{since}" if where and since else ""
    return Claim(owner=owner, until=time.time() + seconds, pid=pid, started=started)


def claim_is_void(claim: Claim, now: float) -> bool:
    """Return whether a claim may be taken over: it has expired, or its process is gone."""
    if now >= claim.until:
        return True
    # The process of a claim made on another machine or in a container cannot be seen from here: its deadline decides.
    where, _, since = claim.started.rpartition(":")
    return bool(where) and where == identify_place() and not is_running(claim.pid, since)


async def sign_in_once(
    store: LoginStore,
    server: str,
    label: str,
    *,
    patience: float,
    serves: Callable[[Login], bool],
    sign_in: Callable[[], Awaitable[Login]],
) -> Login:
    """Sign in, unless another process is doing so; then wait for it, and use its login.

    ``patience``: seconds that a sign-in may take, and that other processes wait for it at most; then they raise
    ``Unauthorized``. ``serves`` tells whether a stored login makes a sign-in unnecessary; ``sign_in`` signs in and
    stores the login.
    """
    owner = secrets.token_hex(16)
    pause, longest = LOOKS
    is_told = False
    gives_up = time.monotonic() + patience
    while True:
        kept = await store.read()
        login = kept.find(server, label)
        if login is not None and serves(login):
            return login
        claim = _claim_on(kept, server, label)
        if claim is None and await store.change(
            lambda kept: _begin_claim(kept, server, label, claim_of(owner, patience), serves)
        ):
            try:
                return await sign_in()
            finally:
                await store.change(lambda kept: kept.end_sign_in(server, label, owner))
        if time.monotonic() >= gives_up:
            raise Unauthorized(
                f"signing in to {server} failed: other processes have not finished it within {patience:.0f} s"
            )
        if not is_told and claim is not None and claim.pid != os.getpid():
            is_told = True
            log.warning("another process is signing in to %s: waiting for it", server)
        await asyncio.sleep(pause)
        pause = min(2 * pause, longest)


def _claim_on(kept: Document, server: str, label: str) -> Claim | None:
    """Return the claim to wait for, if there is one."""
    claim = kept.sign_in_of(server, label)
    return None if claim is None or claim_is_void(claim, time.time()) else claim


def _begin_claim(kept: Document, server: str, label: str, claim: Claim, serves: Callable[[Login], bool]) -> bool:
    """Claim a sign-in, unless another process has claimed it or stored a login meanwhile."""
    login = kept.find(server, label)
    if _claim_on(kept, server, label) is not None or (login is not None and serves(login)):
        return False
    kept.begin_sign_in(server, label, claim)
    return True
