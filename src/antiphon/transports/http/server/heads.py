"""The head of a request that comes again: known by its bytes, and not parsed a second time.

A client repeats its head from request to request, all but the length of the body. What was read from it once holds as
long as every other byte is the same. Nothing is read here: what is remembered, httptools has parsed.
"""

from __future__ import annotations

import re

from msgspec import Struct

from antiphon.transports.http.server.asgi import HeaderPair, Scope

__all__ = ["Head", "remember"]

_LONGEST = 4096
"""Bytes of a head that is worth to be remembered: each connection keeps one."""

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})[ \t]*\r\n", re.IGNORECASE)
_NAME = b"content-length"
_END = b"\r\n\r\n"


class Head(Struct):
    """A head, and what it said. ``scope`` is the one it was read to."""

    before: bytes
    """Its bytes up to the length of the body."""
    after: bytes
    """Those that follow the length, to the empty line and with it."""
    scope: Scope
    place: int
    """Where the length is among the headers."""
    approved_by: object = None
    """See ``asgi.KnownHead``."""

    def match(self, data: bytes) -> tuple[list[HeaderPair], bytes] | None:
        """Return headers and body, if this is what was read: such a head, and exactly the body that belongs to it."""
        if not data.startswith(self.before):
            return None
        start = len(self.before)
        end = data.find(b"\r", start, start + 16)
        length = data[start:end]
        if end < 0 or not length.isdigit() or not data.startswith(self.after, end):
            return None
        body = data[end + len(self.after) :]
        if len(body) != int(length):
            return None
        headers: list[HeaderPair] = self.scope["headers"].copy()
        headers[self.place] = (_NAME, length)
        return headers, body


def remember(data: bytes, scope: Scope) -> Head | None:
    """Make a ``Head`` of a request that came in one piece, and that httptools has read to ``scope``.

    ``None`` for what is not worth it, or could mean something else the next time.
    """
    end = data.find(_END, 0, _LONGEST)
    found = _LENGTH.search(data, 0, end + 2) if end >= 0 else None
    if found is None:
        return None
    headers: list[HeaderPair] = scope["headers"]
    names = [name for name, _ in headers]
    if names.count(_NAME) != 1 or b"transfer-encoding" in names or b"expect" in names or b"upgrade" in names:
        return None
    start, stop = found.span(1)
    if len(data) - end - len(_END) != int(found[1]):
        return None
    return Head(data[:start], data[stop : end + len(_END)], scope, names.index(_NAME))
