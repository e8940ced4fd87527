"""What the environment says about reaching a server: the proxy, and our credentials.

Owns reading ``HTTPS_PROXY`` and similar variables, and ``.netrc``. aiohttp can do this too, but does it for every
request, in two threads, which takes longer than the rest of a call. Here it is done once per channel.
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
    """Return the address with its credentials from ``.netrc``, and the proxy to use.

    Credentials in ``target``, and ``proxy``, take precedence.

    Raises:
        ConfigError: a proxy variable holds no address.
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
        # Such a variable is often meant for other programs, and not every event loop supports TLS within TLS.
        log.warning("the proxy of the environment is not used: only those at http:// are")
        return None
    return found


def _known(url: URL, secrets: netrc.netrc | None) -> URL:
    """Return an address with its credentials from ``.netrc``, unless it has some."""
    if secrets is None or url.host is None or url.user is not None:
        return url
    found = secrets.authenticators(url.host)
    if found is None:
        return url
    login, account, password = found
    return url.with_user(login or account or "").with_password(password or "")


def _secrets() -> netrc.netrc | None:
    """Read ``.netrc``, or the file that ``NETRC`` names; one that cannot be read is ignored."""
    with contextlib.suppress(RuntimeError):
        path = Path(os.environ.get("NETRC") or Path.home() / ("_netrc" if os.name == "nt" else ".netrc"))
        try:
            return netrc.netrc(str(path))
        except FileNotFoundError:
            return None
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError) as error:
            # The text of the error may quote the file, which contains secrets.
            log.warning("%s cannot be read: %s", path, type(error).__name__)
    return None
