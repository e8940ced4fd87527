"""What the environment says about the way to a server: its proxy, and our credentials there.

Owns the reading of ``HTTPS_PROXY`` and its like, and of ``.netrc``. aiohttp can do so itself, but does it for every
request, in two threads: more work than all the rest of a call. Here a channel does it once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import netrc
import os
from pathlib import Path
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from antiphon.errors import ConfigError

__all__ = ["surroundings"]

log = logging.getLogger("antiphon.transports")


async def surroundings(target: URL, proxy: str | None) -> tuple[URL, str | None]:
    """Return the address with the credentials that ``.netrc`` has for it, and the proxy to reach it by.

    What is known already wins: credentials in ``target``, and ``proxy``.

    Raises:
        ConfigError: a proxy of the environment has no address.
    """
    return await asyncio.to_thread(_look_around, target, proxy)


def _look_around(target: URL, proxy: str | None) -> tuple[URL, str | None]:
    secrets = _secrets()
    found = None if proxy is not None else _proxy_to(target)
    if found is not None:
        proxy = str(_known(found, secrets))
    return _known(target, secrets), proxy


def _proxy_to(target: URL) -> URL | None:
    named = getproxies().get(target.scheme)
    if named is None or proxy_bypass(target.host or ""):
        return None
    try:
        found = URL(named)
    except ValueError:
        raise ConfigError(f"the environment names a proxy for {target.scheme} that has no address") from None
    if found.scheme == "https":
        # Such a variable is often meant for other programs, and TLS within TLS is not for every event loop.
        log.warning("the proxy of the environment is not used: only those at http:// are")
        return None
    return found


def _known(url: URL, secrets: netrc.netrc | None) -> URL:
    """Return an address with our credentials there, unless it names some."""
    if secrets is None or url.host is None or url.user is not None:
        return url
    found = secrets.authenticators(url.host)
    if found is None:
        return url
    login, account, password = found
    return url.with_user(login or account or "").with_password(password or "")


def _secrets() -> netrc.netrc | None:
    """Read ``.netrc``, or the file that ``NETRC`` names; one that cannot be read is as none."""
    with contextlib.suppress(RuntimeError):
        path = Path(os.environ.get("NETRC") or Path.home() / ("_netrc" if os.name == "nt" else ".netrc"))
        try:
            return netrc.netrc(str(path))
        except FileNotFoundError:
            return None
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError) as error:
            # What is wrong with it may quote it, and it holds secrets.
            log.warning("%s cannot be read: %s", path, type(error).__name__)
    return None
