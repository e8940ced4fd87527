"""Which addresses a sign-in may contact, by their text: https, or this machine.

All these addresses come from servers. The rules prevent a hostile server from making us send data unencrypted, or open
anything but a web page. ``auth.boundary`` keeps requests out of a private network.
"""

from __future__ import annotations

from yarl import URL

from antiphon.errors import Unauthorized
from antiphon.machine.loopback import is_loopback

MAX_LENGTH = 4096
"""Characters of an address at most."""


def checked_address(text: str, what: str) -> URL:
    """Parse an address that a server named as ``what``; raise ``Unauthorized`` unless it is https or local."""
    try:
        if len(text) > MAX_LENGTH or not text.isprintable():
            raise ValueError
        # Without normalization: what is sent must be exactly what the server named.
        url = URL(text, encoded=True)
        usable = url.scheme in ("http", "https") and bool(url.host) and (url.port or 0) > 0
    except ValueError:
        usable, url = False, URL()
    if not usable:
        raise Unauthorized(f"signing in was stopped: {what} is not an http(s) address")
    if url.user is not None or url.password is not None:
        raise Unauthorized(f"signing in was stopped: {what} holds a name or a password")
    if url.scheme == "http" and not is_loopback(url.host or ""):
        raise Unauthorized(
            f"signing in was stopped: {what}, {show_address(url)}, is plain http, and not on this machine"
        )
    return url


def origin_of(url: URL) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port; ``ws`` and ``wss`` count as ``http`` and ``https``."""
    return ({"ws": "http", "wss": "https"}.get(url.scheme, url.scheme), url.host, url.port)


def show_address(url: URL) -> str:
    """Return an address without credentials, query and fragment, for messages."""
    return str(url.with_user(None).with_query(None).with_fragment(None))


def make_printable(text: str) -> str:
    """Return the beginning of a server's own text, an address or scopes, without what a terminal would act on."""
    return "".join(one for one in text[:200] if one.isprintable())
