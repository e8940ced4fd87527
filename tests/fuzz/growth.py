"""Whether a run holds on to more and more memory. Owns the measurement; a run says when it has warmed up.

Measuring makes a run several times slower, so only long ones do it.
"""

from __future__ import annotations

import gc
import tracemalloc
from typing import Self

__all__ = ["Growth"]

LIMIT = 8 * 1024 * 1024
"""Bytes a run may hold more at its end than when it had warmed up."""


class Growth:
    """Counts what is allocated from ``begin`` on and still held at the end of the block."""

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Count from now on: caches and interned names are there."""
        gc.collect()
        tracemalloc.start(1)

    def __exit__(self, kind: object, *_: object) -> None:
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        if kind is None:
            assert held < LIMIT, f"{held:,} bytes more are held than after the warm-up"
