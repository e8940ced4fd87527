"""What a call weighs while it is kept: bytes of memory, estimated from the JSON that came.

A handler holds what it was given twice: as JSON, and as the values that were read from it, which can be many times as
large. Counted in linear time without looking into them, and rather too high than too low.
"""

from __future__ import annotations

from msgspec import Raw

__all__ = ["OVERHEAD", "SMALL", "weight_of"]

OVERHEAD = 10 * 1024
"""Bytes of a parked call itself: its task, the frames of its handler, its request, its place in the tables. Measured
over HTTP with a handler that does nothing but ask; what a handler makes for itself, nobody can count."""

SMALL = 4096
"""Bytes up to which nothing is counted: the overhead of a call has room for what comes of so little."""

_CONTAINER = 200
"""Bytes of an object or an array of few members: a dict has 184, a list 56 and its members."""

_ITEM = 40
"""Bytes of a member: its place in what holds it, and the head of a number."""

_STRING = 56
"""Bytes of a string beside its characters, and of its place in what holds it."""

_CONTINUED = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that begin no character."""

_FOUR_BYTES = bytes(range(0xF0, 0x100))
"""Bytes that begin a character beyond U+FFFF, each of which makes its whole string four bytes wide."""


_PIECE = 256 * 1024
"""Bytes looked at at once: a copy of a large message would itself weigh as much."""


def weight_of(data: bytes | Raw) -> int:
    """Return what JSON and the values read from it weigh together."""
    size = len(data)
    if size <= SMALL:
        return 2 * size
    weight, characters, width = size, 0, 1
    view = memoryview(data)
    for at in range(0, size, _PIECE):
        piece = bytes(view[at : at + _PIECE])
        weight += _STRING * (piece.count(b'"') // 2) + _ITEM * (piece.count(b",") + piece.count(b":"))
        weight += _CONTAINER * (piece.count(b"{") + piece.count(b"["))
        characters += len(piece) if piece.isascii() else len(piece.translate(None, _CONTINUED))
        width = max(width, _width(piece))
    return weight + width * characters


def _width(piece: bytes) -> int:
    """Return the bytes that each character of a string takes which has all of these."""
    if b"\\u" in piece or (not piece.isascii() and len(piece.translate(None, _FOUR_BYTES)) < len(piece)):
        return 4
    return 1 if piece.isascii() else 2
