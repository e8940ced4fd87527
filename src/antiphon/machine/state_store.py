"""Storage that the processes of one server share: what ``requestState`` cannot carry, and which process owns a call.

Owns the interface, and an implementation in memory for one process and for tests. Whatever is secret is sealed with the
server's keys before it is stored.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import RLock
from typing import Protocol, runtime_checkable

MAX_STORED = 64 * 1024 * 1024
"""Most bytes a store in memory keeps; beyond that, the entry stored first is dropped."""

_OVERHEAD = 200
"""Estimate of the bytes an entry costs beside its key and value."""


class StateStore(Protocol):
    """A store that the processes of a server share, such as Redis or a database; each operation is atomic.

    Once an operation has returned, every process must see what it wrote: completed steps are recorded here. An
    exception from a store fails only the call it belongs to.
    """

    async def get(self, key: str) -> bytes | None:
        """Return what is stored under a key, or ``None`` (Redis: ``GET``).

        Args:
            key: ASCII, below 100 characters.
        """
        ...

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value, replacing any that is there (Redis: ``SET key value EX ttl``).

        Args:
            key: ASCII, below 100 characters.
            value: bytes, up to about 1 MiB.
            ttl: seconds after which the value may be forgotten.
        """

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        """Store a value if there is none, and tell whether it was stored (Redis: ``SET key value NX EX ttl``).

        Args:
            key: ASCII, below 100 characters.
            value: bytes, up to about 1 MiB.
            ttl: seconds after which the value may be forgotten.
        """
        ...

    async def delete(self, key: str) -> None:
        """Forget a key, if it is there (Redis: ``DEL``).

        Args:
            key: ASCII, below 100 characters.
        """


@runtime_checkable
class CompareAndSetStore(StateStore, Protocol):
    """A ``StateStore`` that can also replace a value on condition that it has not changed.

    With it, a retry that reaches the process where its call is parked continues there, even if another process had
    taken the call over in the meantime and died.
    """

    async def replace(self, key: str, value: bytes, ttl: float, *, expected: bytes) -> bool:
        """Store a value if ``expected`` is stored now, and tell whether it was (SQL: ``UPDATE ... WHERE value = ...``).

        Args:
            key: ASCII, below 100 characters.
            value: bytes, up to about 1 MiB.
            ttl: seconds after which the value may be forgotten.
            expected: the value that must be stored now.
        """
        ...


class MemoryStateStore(CompareAndSetStore):
    """A ``CompareAndSetStore`` in memory, for several servers in one process.

    Args:
        limit: most bytes to keep, approximately; 64 MiB by default.
        clock: returns seconds that only increase; by default ``time.monotonic``.
    """

    def __init__(self, *, limit: int = MAX_STORED, clock: Callable[[], float] = time.monotonic) -> None:
        self._values: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._limit = limit
        self._clock = clock
        self._size = 0
        # The servers may run in several threads. Nothing waits while it is held, since no method is ever suspended.
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._values)

    async def get(self, key: str) -> bytes | None:
        value, until = self._values.get(key, (None, 0.0))
        return value if until > self._clock() else None

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        with self._lock:
            await self.delete(key)
            self._values[key] = value, self._clock() + ttl
            self._size += weigh_entry(key, value)
            while self._size > self._limit and len(self._values) > 1:
                await self.delete(next(iter(self._values)))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        with self._lock:
            if is_free := await self.get(key) is None:
                await self.put(key, value, ttl)
            return is_free

    async def replace(self, key: str, value: bytes, ttl: float, *, expected: bytes) -> bool:
        with self._lock:
            if is_same := await self.get(key) == expected:
                await self.put(key, value, ttl)
            return is_same

    async def delete(self, key: str) -> None:
        with self._lock:
            gone = self._values.pop(key, None)
            if gone is not None:
                self._size -= weigh_entry(key, gone[0])


def weigh_entry(key: str, value: bytes) -> int:
    """Return the bytes that an entry costs."""
    return len(key) + len(value) + _OVERHEAD
