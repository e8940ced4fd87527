"""A process that shares a login: ``python -m tests.support.renewing FILE SERVER TIMES [POINT]``.

Renews the login so often, as if it had expired each time, and prints what came of each: ``renewed``, or ``none`` if
somebody has to sign in. POINT: where it kills itself, ``claimed`` (before it sends) or ``answered`` (before it writes);
or ``page``: it shows a page to sign in, prints ``page``, and waits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from yarl import URL

from antiphon.auth.client.access import SignedIn
from antiphon.auth.client.file_store import FileLogins
from antiphon.auth.client.oauth import OAuth
from antiphon.auth.client.token_endpoint import TokenEndpoint


def die() -> None:
    """End as with a power cut."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(point: str) -> None:
    """Arrange for it."""
    request = TokenEndpoint.request

    async def deadly(self, form):
        if point == "claimed":
            die()
        await request(self, form)
        die()

    TokenEndpoint.request = deadly


async def page(address: str) -> None:
    """Show a page to nobody."""
    print("page", flush=True)
    await asyncio.Event().wait()


async def main(file: str, server: str, times: str, point: str = "") -> None:
    """Renew so often."""
    if point in ("claimed", "answered"):
        die_at(point)
    oauth = OAuth(store=FileLogins(file, keyring=False), open_page=page)
    access = SignedIn(oauth, URL(server), ssl=True, proxy=None)
    if point == "page":
        await access.sign_in(None, None)
    for _ in range(int(times)):
        login = await access.fresh()
        print("none" if login is None else "renewed", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
