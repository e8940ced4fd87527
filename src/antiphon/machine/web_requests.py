"""Web requests of this machine: which proxy carries them, and how addresses and failures are shown."""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from antiphon.errors import ConfigError
from antiphon.machine.loopback import is_loopback

log = logging.getLogger("antiphon.transports")

_MAX_SHOWN = 200
"""Most characters of a server's own text that an error repeats."""


def show_address(url: URL) -> str:
    """Return an address that can be shown: without credentials, query and fragment, which may contain some."""
    return str(url.with_user(None).with_query(None).with_fragment(None))


def origin_of(url: URL) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port; ``ws`` and ``wss`` count as ``http`` and ``https``."""
    return ({"ws": "http", "wss": "https"}.get(url.scheme, url.scheme), url.host, url.port)


def make_printable(text: str) -> str:
    """Return the part of a server's text that can be shown: its first line, short, without control characters."""
    return "".join(each for each in text.strip().split("\n", 1)[0] if each.isprintable())[:_MAX_SHOWN]


def find_proxy(target: URL) -> URL | None:
    """Return the proxy that the environment names for an address. Its own is not shown: it may hold a password."""
    proxies, host = getproxies(), target.host or ""
    named = proxies.get(target.scheme) or proxies.get("all")
    # No proxy reaches this machine by the names it has for itself.
    if not named or is_loopback(host) or proxy_bypass(host):
        return None
    try:
        found = URL(named if "://" in named else f"http://{named}")
    except ValueError:
        raise ConfigError(f"the environment names a proxy for {target.scheme} that has no address") from None
    if found.scheme != "http":
        # Such a variable is often meant for other programs, and not every event loop supports TLS within TLS.
        log.warning("the proxy of the environment is not used: only those at http:// are")
        return None
    return found


def describe_cause(error: BaseException) -> str:
    """Say what TLS, the system or its resolver has found; empty without that. Libraries' texts repeat secrets."""
    found = (describe_os_error(each) for each in list_causes(error) if isinstance(each, OSError))
    return next(filter(None, found), "")


def list_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes; a limited number of steps, since a chain may be a cycle."""
    at: Any = error
    for _ in range(10):
        if at is None:
            return
        # An error of aiohttp repeats the type of the one that it wraps, and not what that one has found.
        at = getattr(at, "os_error", at)
        yield at
        at = at.__cause__ or at.__context__


def describe_os_error(error: OSError) -> str:
    """Say what TLS, the system or its resolver has found; empty if there is nothing of theirs to say."""
    if isinstance(error, ssl.SSLCertVerificationError):
        # OpenSSL's codes for a certificate that no known authority vouches for. It passes over a file that is missing.
        remedy = " (SSL_CERT_FILE names a file with what you trust)" if error.verify_code in (18, 19, 20) else ""
        return f"its certificate is not accepted: {error.verify_message}{remedy}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {getattr(error, 'reason', None) or 'the connection was cut'}"
    if error.errno is not None and error.errno > 0:
        # Its own text repeats the address, and names what nobody chose.
        return os.strerror(error.errno)
    # The resolver's numbers are its own. Whatever else has none is a library's, whose text shows the whole address.
    return (error.strerror or "") if isinstance(error, socket.gaierror) else ""
