"""Renewing a login by its refresh token: once, however many want it, in this process and in others.

A refresh token that rotates may be sent once only: a second time, the authorization server takes it for stolen, and
ends the login for everybody. Owns the claim. Whoever renews first writes into the login that they do, and until when;
then sends, with no lock held; then writes the answer. Everybody else waits for that. A login is forgotten only when
the authorization server says ``invalid_grant``: no network, or a server that fails, says nothing of the token.

Somebody who is killed after they sent leaves a claim behind. It is taken over once its process is gone, or its time:
the same token is then sent again, since nobody knows whether it arrived. That costs at most one new login.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs
from yarl import URL

from antiphon.auth.client.discovery import Found
from antiphon.auth.client.exchange import Refused
from antiphon.auth.client.fetch import PATIENCE as REQUEST_PATIENCE
from antiphon.auth.client.fetch import Fetch
from antiphon.auth.client.sign_in import login_of
from antiphon.auth.client.store import Claim, Document, Login, LoginStore
from antiphon.auth.client.token_endpoint import TokenEndpoint
from antiphon.auth.dpop import ProofKey
from antiphon.errors import Unauthorized

__all__ = ["CLAIM", "claim_is_void", "renew", "this_process"]

CLAIM = 2 * REQUEST_PATIENCE + 15.0
"""Seconds a claim lasts: two requests, should a nonce be wanted, and some for writing the answer."""

_LOOK = 0.05
"""Seconds between two looks at a login that somebody else renews, at first."""

_LONGEST_LOOK = 0.25

_FORGOTTEN = ("invalid_grant",)


class Standing(Struct, frozen=True):
    """How it stands with the wish to renew a login."""

    what: Literal["free", "wait", "done"]
    login: Login | None = None
    """The one there is now, if it is not the one that was to be renewed."""


def this_process() -> tuple[int, str]:
    """Return what names this process, as long as the machine runs."""
    return os.getpid(), _started(os.getpid())


def claim_is_void(claim: Claim, now: float) -> bool:
    """Tell whether a claim may be taken over: its time is over, or its process is gone."""
    if now >= claim.until:
        return True
    # Without a start time it may be of another machine that shares the folder.
    return bool(claim.started) and _started(claim.pid) != claim.started


async def renew(store: LoginStore, fetch: Fetch, login: Login, owner: str) -> Login | None:
    """Renew a login, or wait until somebody else has; return the one that is kept then.

    ``None``: there is none any more; somebody has to sign in. ``owner``: names who asks, within all processes.

    Raises:
        Unauthorized: it could not be renewed now; it is kept as it was.
    """
    pause = _LOOK
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
        pause = min(2 * pause, _LONGEST_LOOK)


def _standing(kept: Document, login: Login) -> Standing:
    """Look whether a login was renewed or forgotten meanwhile, or somebody is renewing it."""
    current = kept.find(login.server, login.label)
    if current is None or current.access_token != login.access_token:
        return Standing("done", current)
    if current.refresh_token is None:
        return Standing("done")
    if current.claim is not None and not claim_is_void(current.claim, time.time()):
        return Standing("wait")
    return Standing("free", current)


def _claim(kept: Document, login: Login, owner: str) -> Login | None:
    """Claim a login, if nobody was faster."""
    standing = _standing(kept, login)
    if standing.what != "free" or standing.login is None:
        return None
    pid, started = this_process()
    claim = Claim(owner=owner, until=time.time() + CLAIM, pid=pid, started=started)
    claimed = structs.replace(standing.login, claim=claim)
    kept.put(claimed)
    return claimed


async def _send(store: LoginStore, fetch: Fetch, login: Login, owner: str) -> Login | None:
    key = None if login.key is None else ProofKey(login.key)
    endpoint = TokenEndpoint(fetch, login.metadata, login.identity, key)
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "resource": login.resource}
    try:
        answer = await endpoint.request(form)
    except Refused as refused:
        forget = refused.error in _FORGOTTEN
        await store.change(lambda kept: _give_up(kept, login, owner, forget=forget))
        if forget:
            return None
        raise
    except asyncio.CancelledError:
        # It may have arrived. The claim stays: whoever takes it over finds the process alive, and waits its time out.
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
        # One that was not replaced stays good (RFC 6749, section 6).
        refresh_token=answer.refresh_token or login.refresh_token,
        scopes=login.scopes if answer.scopes is None else answer.scopes,
    )
    return await store.change(lambda kept: _write(kept, renewed, login, owner))


def _write(kept: Document, renewed: Login, login: Login, owner: str) -> Login | None:
    current = kept.find(login.server, login.label)
    if current is None or current.claim is None or current.claim.owner != owner:
        # Logged out, signed in anew, or taken over since we were silent for too long: theirs counts.
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


def _started(pid: int) -> str:
    """Return when a process was started, in the kernel's words; empty where that cannot be known, or it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    # The second field is a name, which may hold anything but its last closing bracket.
    return f"{boot}:{stat.rpartition(')')[2].split()[19]}"
