"""Where servers of several processes keep what one call's ``requestState`` cannot carry, and who may go on with it.

Owns the seam and its form in memory, which serves one process and tests. Nothing in a store can be read without the
server's keys.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, runtime_checkable

__all__ = ["CompareAndSetStore", "MemoryStateStore", "StateStore"]

MAX_STORED = 64 * 1024 * 1024
"""Bytes that a store in memory keeps; beyond, what was put first is dropped."""

_OVERHEAD = 200
"""Bytes that an entry costs beside its key and value, roughly."""


class StateStore(Protocol):
    """A store that the processes of a server share: Redis or a database; four operations, each atomic.

    Keys are ASCII, below 100 characters; values are bytes, up to about 1 MiB, sealed where they tell anything. ``ttl``
    is in seconds; what is older may be forgotten. An exception fails the one call it belongs to. What is written must
    be there for every process once the operation has returned: completed steps are noted here.
    """

    async def get(self, key: str) -> bytes | None:
        """Return what is stored under a key (Redis: ``GET``)."""
        ...

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value, whatever was there (Redis: ``SET key value EX ttl``)."""
        ...

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        """Store a value if there is none; tell whether it was stored (Redis: ``SET key value NX EX ttl``)."""
        ...

    async def delete(self, key: str) -> None:
        """Forget a key, if it is there (Redis: ``DEL``)."""
        ...


@runtime_checkable
class CompareAndSetStore(StateStore, Protocol):
    """A ``StateStore`` that can also replace what it is told to expect, and nothing else.

    With it, a retry that comes back to the process where its call is parked goes on there, even if another process
    had taken the call over meanwhile and died.
    """

    async def replace(self, key: str, value: bytes, ttl: float, *, expected: bytes) -> bool:
        """Store a value if ``expected`` is stored now; tell whether it was (SQL: ``UPDATE ... WHERE value = ...``)."""
        ...


class MemoryStateStore:
    """A ``CompareAndSetStore`` in memory: for several servers in one process. ``limit``: bytes, nearly."""

    def __init__(self, *, limit: int = MAX_STORED, clock: Callable[[], float] = time.monotonic) -> None:
        self._values: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._limit = limit
        self._clock = clock
        self._size = 0

    def __len__(self) -> int:
        return len(self._values)

    async def get(self, key: str) -> bytes | None:
        """See ``StateStore.get``."""
        value, until = self._values.get(key, (None, 0.0))
        return value if until > self._clock() else None

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """See ``StateStore.put``."""
        await self.delete(key)
        self._values[key] = value, self._clock() + ttl
        self._size += _weight(key, value)
        while self._size > self._limit and len(self._values) > 1:
            await self.delete(next(iter(self._values)))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        """See ``StateStore.add``."""
        if await self.get(key) is not None:
            return False
        await self.put(key, value, ttl)
        return True

    async def replace(self, key: str, value: bytes, ttl: float, *, expected: bytes) -> bool:
        """See ``CompareAndSetStore.replace``."""
        # Nothing below waits, so no other task comes in between.
        if await self.get(key) != expected:
            return False
        await self.put(key, value, ttl)
        return True

    async def delete(self, key: str) -> None:
        """See ``StateStore.delete``."""
        gone = self._values.pop(key, None)
        if gone is not None:
            self._size -= _weight(key, gone[0])


def _weight(key: str, value: bytes) -> int:
    return len(key) + len(value) + _OVERHEAD
