"""Which addresses a sign-in may speak to: https, or this machine; and no local network for a public server.

Every address here was named by some server. Owns the rules that keep a hostile one from reading plain traffic, from
using us to reach what only we can reach, and from having anything opened that is no web page.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from yarl import URL

from antiphon.errors import Unauthorized

__all__ = ["checked_address", "is_loopback", "is_public", "origin_of", "shown"]

MAX_LENGTH = 4096
"""Characters of an address."""


def checked_address(text: str, what: str) -> URL:
    """Read an address that a server named. ``what`` it is, for the message.

    Raises:
        Unauthorized: it is none, is neither https nor on this machine, or holds credentials.
    """
    try:
        if len(text) > MAX_LENGTH or not text.isprintable():
            raise ValueError
        # As it stands: what is sent must be what was named.
        url = URL(text, encoded=True)
        usable = url.scheme in ("http", "https") and bool(url.host) and (url.port or 0) > 0
    except ValueError:
        usable, url = False, URL()
    if not usable:
        raise Unauthorized(f"signing in was stopped: {what} is not an http(s) address")
    if url.user is not None or url.password is not None:
        raise Unauthorized(f"signing in was stopped: {what} holds a name or a password")
    if url.scheme == "http" and not is_loopback(url.host or ""):
        raise Unauthorized(f"signing in was stopped: {what}, {shown(url)}, is plain http, and not on this machine")
    return url


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, by its name alone."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_public(addresses: Iterable[str]) -> bool:
    """Tell whether all these IP addresses are of the public network; of none at all it says no."""
    read = [ipaddress.ip_address(one.partition("%")[0]) for one in addresses]
    return bool(read) and all(_unmapped(one).is_global for one in read)


def _unmapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if isinstance(address, ipaddress.IPv6Address):
        # The same IPv4 host in other clothes.
        return address.ipv4_mapped or address.sixtofour or address
    return address


def origin_of(url: URL) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port; a WebSocket's scheme as that of the HTTP request it begins with."""
    return ({"ws": "http", "wss": "https"}.get(url.scheme, url.scheme), url.host, url.port)


def shown(url: URL) -> str:
    """Return an address as it may be shown: without credentials, query and fragment."""
    return str(url.with_user(None).with_query(None).with_fragment(None))
