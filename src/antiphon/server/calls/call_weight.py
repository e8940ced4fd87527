"""The memory that a kept call occupies, estimated from the JSON that came.

A handler holds its input twice: as JSON, and as the decoded values, which can be many times as large. The estimate
takes linear time, does not decode, and errs on the high side.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

__all__ = ["OVERHEAD", "SMALL", "weight_of"]

OVERHEAD = 10 * 1024
"""Bytes of a parked call itself: its task, the frames of its handler, its request, its place in the tables. Measured
over HTTP with a handler that only asks; memory that a handler allocates itself cannot be counted."""

SMALL = 4096
"""Bytes up to which nothing is counted, since the overhead of a call includes that much."""

_CONTAINER = 200
"""Bytes of an object or an array with few members: a dict has 184, a list 56 and its members."""

_ITEM = 40
"""Bytes of a member: its slot in the container, and the header of a number."""

_STRING = 56
"""Bytes of a string in addition to its characters, and of its slot in the container."""

_CONTINUED = bytes(range(0x80, 0xC0))
"""UTF-8 continuation bytes."""

_FOUR_BYTES = bytes(range(0xF0, 0x100))
"""Bytes that begin a character beyond U+FFFF, one of which makes its whole string four bytes wide."""

_COUNTED = 1024 * 1024
"""Bytes up to which all are counted, which takes 3 ms of the event loop. Of longer messages, as many are sampled."""

_STRETCHES = 64
"""Number of stretches of a longer message that are sampled. The position in each is random, so that a peer cannot hide
heavy data between the samples."""

_PIECE = 256 * 1024
"""Bytes examined at once, because a copy of a large message would itself take as much memory."""


def weight_of(data: bytes | Raw) -> int:
    """Return the bytes that JSON and its decoded values take together; beyond 1 MiB from a sample."""
    size = len(data)
    if size <= SMALL:
        return 2 * size
    view = memoryview(data)
    if size <= _COUNTED:
        return size + _values_of([bytes(view[at : at + _PIECE]) for at in range(0, size, _PIECE)])
    # Imported here, since few messages are as large.
    from secrets import randbelow

    stretch, drawn = size // _STRETCHES, _COUNTED // _STRETCHES
    starts = (n * stretch + randbelow(stretch - drawn + 1) for n in range(_STRETCHES))
    weight = _values_of([bytes(view[at : at + drawn]) for at in starts], width=_width_at_most(view))
    return size + weight * size // _COUNTED


def _values_of(pieces: Sequence[bytes], width: int = 1) -> int:
    """Return the bytes of the values in these pieces, whose characters take at least ``width`` bytes."""
    weight = characters = 0
    for piece in pieces:
        weight += _STRING * (piece.count(b'"') // 2) + _ITEM * (piece.count(b",") + piece.count(b":"))
        weight += _CONTAINER * (piece.count(b"{") + piece.count(b"["))
        characters += len(piece) if piece.isascii() else len(piece.translate(None, _CONTINUED))
        width = max(width, _width(piece))
    return weight + width * characters


def _width(piece: bytes) -> int:
    """Return the bytes per character of a string that contains all of these."""
    if b"\\u" in piece or (not piece.isascii() and len(piece.translate(None, _FOUR_BYTES)) < len(piece)):
        return 4
    return 1 if piece.isascii() else 2


def _width_at_most(view: memoryview) -> int:
    """Return the largest width that any character in the message may have; one wide character widens its string."""
    pieces = (bytes(view[at : at + _PIECE]) for at in range(0, len(view), _PIECE))
    return 1 if all(piece.isascii() and b"\\" not in piece for piece in pieces) else 4
