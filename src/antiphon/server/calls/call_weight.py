"""What a call weighs while it is kept: bytes of memory, estimated from the JSON that came.

A handler holds what it was given twice: as JSON, and as the values that were read from it, which can be many times as
large. Counted in linear time without looking into them, and rather too high than too low.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import randbelow

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

_COUNTED = 1024 * 1024
"""Bytes up to which every one is counted: 3 ms of the event loop. Of more, as many are drawn."""

_STRETCHES = 64
"""How many stretches of a longer message are drawn from. Where in each is left to chance, so that nobody can put what
weighs much where it is not seen."""

_PIECE = 256 * 1024
"""Bytes looked at at once: a copy of a large message would itself weigh as much."""


def weight_of(data: bytes | Raw) -> int:
    """Return what JSON and the values read from it weigh together; beyond 1 MiB it is estimated from a sample."""
    size = len(data)
    if size <= SMALL:
        return 2 * size
    view = memoryview(data)
    if size <= _COUNTED:
        return size + _values_of([bytes(view[at : at + _PIECE]) for at in range(0, size, _PIECE)])
    stretch, drawn = size // _STRETCHES, _COUNTED // _STRETCHES
    starts = (n * stretch + randbelow(stretch - drawn + 1) for n in range(_STRETCHES))
    weight = _values_of([bytes(view[at : at + drawn]) for at in starts], width=_width_at_most(view))
    return size + weight * size // _COUNTED


def _values_of(pieces: Sequence[bytes], width: int = 1) -> int:
    """Return what the values in these pieces weigh, whose characters take at least ``width`` bytes."""
    weight = characters = 0
    for piece in pieces:
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


def _width_at_most(view: memoryview) -> int:
    """Say in a quick look at all of a message what a character may take: one wide one anywhere makes all of them so."""
    pieces = (bytes(view[at : at + _PIECE]) for at in range(0, len(view), _PIECE))
    return 1 if all(piece.isascii() and b"\\" not in piece for piece in pieces) else 4
