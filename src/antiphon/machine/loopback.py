"""Which hosts are this machine, by their names alone; which others a proxy reaches; addresses, compared and shown."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yarl import URL

log = logging.getLogger("antiphon.machine")

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names of the machine for itself, as they stand in ``Host`` headers."""


def is_loopback(host: str, *, subdomains: bool = True) -> bool:
    """Return whether a host name or address, without port and brackets, is this machine's, without a look-up.

    ``subdomains``: whether names below ``localhost`` count (RFC 6761). Pass false for an address to listen on: some
    resolvers ask the network for such a name, which may answer with any address.
    """
    # Loading it takes some milliseconds, and most servers never ask.
    from ipaddress import ip_address

    if host == "localhost" or (subdomains and host.endswith(".localhost")):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def find_environment_proxy(scheme: str, host: str) -> str | None:
    """Return the proxy for a host that the environment or the system names (``HTTPS_PROXY``, else ``ALL_PROXY``)."""
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    named = proxies.get(scheme) or proxies.get("all")
    # No proxy reaches this machine by the names it has for itself.
    if not named or is_loopback(host) or proxy_bypass(host):
        return None
    if "://" in named and not named.startswith("http://"):
        # Often meant for other programs. Not every event loop supports TLS within TLS, and SOCKS needs a library more.
        log.warning("the proxy of the environment is not used: only those at http:// are")
        return None
    return named if "://" in named else f"http://{named}"


def origin_of(url: URL) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port; ``ws`` and ``wss`` count as ``http`` and ``https``."""
    return ({"ws": "http", "wss": "https"}.get(url.scheme, url.scheme), url.host, url.port)


def show_address(url: URL) -> str:
    """Return an address without credentials, query (which may contain some) and fragment, for messages."""
    return str(url.with_user(None).with_query(None).with_fragment(None))
