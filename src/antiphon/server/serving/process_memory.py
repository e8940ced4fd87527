"""Memory settings of a process that only serves: the garbage collector, and large blocks.

The C library returns large blocks to the system as soon as they are free, and each new one needs pages that must be
found and cleared: a third of the time of a call with an argument of 1 MiB.
"""

from __future__ import annotations

import gc
import os
import sys

__all__ = ["collect_less", "keep_large_blocks"]

_YOUNG = 10_000
"""Objects allocated and not freed before the collector runs. With Python's own 700 it examines every batch of sixteen
waiting calls, finds all of them alive, and takes a twentieth of the time."""

_KEPT = 16 * 1024 * 1024
"""Bytes of free memory that are kept: several messages of 1 MiB."""

_LARGE = 4 * 1024 * 1024
"""Size in bytes from which a block is returned to the system when it is free. If such blocks were kept, a few of the
largest messages would fragment the memory."""

# Constants of malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3


def collect_less() -> None:
    """Exclude all present objects from garbage collection (a tenth of a request's time), and run it less often.

    Call it when serving begins, since objects that exist then live as long as the process. A threshold that was raised
    or disabled by someone else is not changed.
    """
    gc.freeze()
    if 0 < gc.get_threshold()[0] < _YOUNG:
        gc.set_threshold(_YOUNG)


def keep_large_blocks() -> bool:
    """Keep up to 16 MiB of free memory for the next messages of about 1 MiB; tell whether this is possible.

    Only with glibc, and only if its settings are not in the environment, where a person has set them.
    """
    if not sys.platform.startswith("linux") or _is_chosen():
        return False
    # Imported here, because it takes milliseconds and only network servers need it.
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    # Both, because setting either one ends the library's automatic adjustment of the other.
    return bool(set_option(_TRIM_THRESHOLD, _KEPT)) and bool(set_option(_MMAP_THRESHOLD, _LARGE))


def _is_chosen() -> bool:
    return "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") and name.endswith("_") for name in os.environ
    )
