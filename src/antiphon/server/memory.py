"""How a process that serves holds the memory of large messages.

The C library gives large blocks back to the system as soon as they are free, and each comes again as pages that have
to be found and cleared: a third of the time of a call with an argument of 1 MiB. Owns nothing of Python's own memory.
"""

from __future__ import annotations

import os
import sys

__all__ = ["keep_large_blocks"]

_KEPT = 32 * 1024 * 1024
"""Bytes of free memory that are kept: a few of the largest messages."""

# The numbers of malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3


def keep_large_blocks() -> bool:
    """Have the process keep up to 32 MiB of free memory for the next large message; tell whether it does.

    Only with glibc, and only if its settings are not made in the environment: then they are somebody's choice.
    """
    if not sys.platform.startswith("linux") or _is_chosen():
        return False
    # Imported here: it takes milliseconds, and only who serves a network wants it.
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    # Both, since either ends the library's own adjusting of the other.
    return bool(set_option(_TRIM_THRESHOLD, _KEPT)) and bool(set_option(_MMAP_THRESHOLD, _KEPT))


def _is_chosen() -> bool:
    return "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") and name.endswith("_") for name in os.environ
    )
