"""Claims: which process is refreshing a login, or signing in, so that the others wait for it.

A claim is written into the store under its lock, and nothing is locked while its process makes requests or a person
types a password. It has a deadline, and ends with its process, so a process that hangs or is killed holds up nobody
for long.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable

from antiphon.auth.client.store import Claim, Document, Login, LoginStore
from antiphon.errors import Unauthorized
from antiphon.machine.running_processes import began, is_running, place

__all__ = ["LOOKS", "claim_is_void", "claim_of", "sign_in_once", "this_process"]

log = logging.getLogger("antiphon.auth")

LOOKS = (0.05, 0.25)
"""Seconds between the first two looks at the claim of another process, and between two looks at most."""


def this_process() -> tuple[int, str]:
    """Return what identifies this process until the machine restarts; an empty text if its start is not known."""
    pid = os.getpid()
    where, since = place(), began(pid)
    return pid, f"{where}:{since}" if where and since else ""


def claim_of(owner: str, seconds: float) -> Claim:
    """Make a claim of this process; ``seconds``: until others may take it over."""
    pid, started = this_process()
    return Claim(owner=owner, until=time.time() + seconds, pid=pid, started=started)


def claim_is_void(claim: Claim, now: float) -> bool:
    """Tell whether a claim may be taken over: it has expired, or its process is gone."""
    if now >= claim.until:
        return True
    # One of another machine or container that shares the folder has its time: its process cannot be seen from here.
    where, _, since = claim.started.rpartition(":")
    return bool(where) and where == place() and not is_running(claim.pid, since)


async def sign_in_once(
    store: LoginStore,
    server: str,
    label: str,
    *,
    patience: float,
    serves: Callable[[Login], bool],
    sign_in: Callable[[], Awaitable[Login]],
) -> Login:
    """Sign in, unless another process is doing so; then wait, and take its login.

    Args:
        store: where the login and the claim are kept.
        server: of the login.
        label: of the login.
        patience: seconds that a sign-in may take, and that others wait for it at most.
        serves: tells whether a login is what is wanted.
        sign_in: signs in and stores the login.

    Raises:
        Unauthorized: signing in failed, here; or other processes were at it all that time.
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
            lambda kept: _begin(kept, server, label, claim_of(owner, patience), serves)
        ):
            try:
                return await sign_in()
            finally:
                await store.change(lambda kept: kept.end_sign_in(server, label, owner))
        if time.monotonic() >= gives_up:
            raise Unauthorized(f"signing in to {server} failed: other processes have been at it for {patience:.0f} s")
        if not is_told and claim is not None and claim.pid != os.getpid():
            is_told = True
            log.warning("another process is signing in to %s: waiting for it", server)
        await asyncio.sleep(pause)
        pause = min(2 * pause, longest)


def _claim_on(kept: Document, server: str, label: str) -> Claim | None:
    """Return the claim for which one has to wait."""
    claim = kept.sign_in_of(server, label)
    return None if claim is None or claim_is_void(claim, time.time()) else claim


def _begin(kept: Document, server: str, label: str, claim: Claim, serves: Callable[[Login], bool]) -> bool:
    """Claim a sign-in; not if another process was faster, with its claim or with its login."""
    login = kept.find(server, label)
    if _claim_on(kept, server, label) is not None or (login is not None and serves(login)):
        return False
    kept.begin_sign_in(server, label, claim)
    return True
