"""How a process that serves, and does nothing else, uses its memory: what is collected when, what large blocks become.

The C library gives large blocks back to the system as soon as they are free, and each comes again as pages that have
to be found and cleared: a third of the time of a call with an argument of 1 MiB.
"""

from __future__ import annotations

import gc
import os
import sys

__all__ = ["collect_less", "keep_large_blocks"]

_YOUNG = 10_000
"""Objects that may be made, and not freed, before the collector looks for garbage among them. With Python's own 700 it
looks at every batch of sixteen calls that wait, finds all of them alive, and takes a twentieth of their time."""

_KEPT = 16 * 1024 * 1024
"""Bytes of free memory that are kept: several messages of 1 MiB."""

_LARGE = 4 * 1024 * 1024
"""Bytes from which a block goes back to the system as soon as it is free: kept among others, a few of the largest
messages would leave gaps that nothing else fits into, beside all that is counted."""

# The numbers of malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3


def collect_less() -> None:
    """Leave what is there now out of every collection (a tenth of a request's time), and have fewer of them.

    For when serving begins: what is there then stays. A threshold that somebody has raised, or turned off, is theirs.
    """
    gc.freeze()
    if 0 < gc.get_threshold()[0] < _YOUNG:
        gc.set_threshold(_YOUNG)


def keep_large_blocks() -> bool:
    """Have the process keep up to 16 MiB of free memory for the next messages of 1 MiB or so; tell whether it does.

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
    return bool(set_option(_TRIM_THRESHOLD, _KEPT)) and bool(set_option(_MMAP_THRESHOLD, _LARGE))


def _is_chosen() -> bool:
    return "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") and name.endswith("_") for name in os.environ
    )
