"""Whether a run holds on to more and more memory. Owns the measurement; a run says when it has warmed up.

The objects are counted before and after, rather than each allocation traced: tracing makes a run several times slower.
"""

from __future__ import annotations

import gc
import sys
from typing import Self

__all__ = ["Growth"]

LIMIT = 8 * 1024 * 1024
"""Bytes a run may hold more at its end than when it had warmed up."""


def measure_objects() -> int:
    """Return the bytes of all objects that containers of the garbage collector hold, and of the containers."""
    gc.collect()
    containers = gc.get_objects()
    seen = {id(container) for container in containers}
    size = sum(map(sys.getsizeof, containers))
    for container in containers:
        for held in gc.get_referents(container):
            if id(held) not in seen:
                seen.add(id(held))
                size += sys.getsizeof(held)
    return size


class Growth:
    """Compares what is held at the end of the block with what was held at ``begin``."""

    def __init__(self) -> None:
        self._before = 0

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Count from now on: caches and interned names are there."""
        self._before = measure_objects()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._before:
            more = measure_objects() - self._before
            assert more < LIMIT, f"{more:,} bytes more are held than after the warm-up"
