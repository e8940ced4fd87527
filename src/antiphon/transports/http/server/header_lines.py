"""Encoding of headers, with a cache of lines that were validated before."""

from __future__ import annotations

import functools
import re

from antiphon.transports.http.server.asgi import HeaderPair

__all__ = ["header_line", "header_lines"]

_BAD_NAME = re.compile(rb'[\x00-\x1f\x7f()<>@,;:\[\]={} \t\\"]')
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


@functools.lru_cache(256)
def header_line(name: bytes, value: bytes) -> bytes:
    """Encode a header. Raises ``RuntimeError`` if it is not valid."""
    if not name or _BAD_NAME.search(name) or _BAD_VALUE.search(value):
        raise RuntimeError(f"Invalid HTTP header: {name!r}")
    return b"%b: %b\r\n" % (name.lower(), value)


@functools.lru_cache(64)
def header_lines(headers: tuple[HeaderPair, ...]) -> bytes:
    """Encode several headers. Raises ``RuntimeError`` if one is not valid."""
    return b"".join(header_line(name, value) for name, value in headers)
