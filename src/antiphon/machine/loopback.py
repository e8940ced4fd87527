"""Which hosts are this machine, by their names alone."""

from __future__ import annotations

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
