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
"""Seconds between the first two reads of another process's claim, and the longest pause between two reads."""


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
    # The process of a claim made on another machine or in a container cannot be seen from here: its deadline decides.
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
    """Sign in, unless another process is doing so; then wait for it, and use its login.

    Args:
        store: where the login and the claim are kept.
        server: URL of the MCP server.
        label: which of the user's clients the login is for (``OAuth.label``).
        patience: seconds that a sign-in may take, and that other processes wait for it at most.
        serves: tells whether a stored login makes a sign-in unnecessary.
        sign_in: signs in and stores the login.

    Raises:
        Unauthorized: signing in failed, or other processes did not finish their sign-in within ``patience``.
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


def _begin(kept: Document, server: str, label: str, claim: Claim, serves: Callable[[Login], bool]) -> bool:
    """Claim a sign-in, unless another process has claimed it or stored a login meanwhile."""
    login = kept.find(server, label)
    if _claim_on(kept, server, label) is not None or (login is not None and serves(login)):
        return False
    kept.begin_sign_in(server, label, claim)
    return True
