"""A cluster within one process, for several servers of it and for tests; the reference for the other engines."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from antiphon.errors import ClusterUnavailable
from antiphon.replicas.engines.base import LEASE, ClusterMember, check_size

MAX_KEPT = 64 * 1024 * 1024
"""Most bytes of records, and of events, that are kept; the oldest are dropped first."""

_OVERHEAD = 200
"""Estimate of the bytes that an entry costs beside its key and its value."""


class Shared:
    """What the replicas have in common."""

    def __init__(self) -> None:
        self.members: dict[str, MemoryCluster] = {}
        self.records: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self.events: OrderedDict[str, OrderedDict[int, bytes]] = OrderedDict()
        self.record_bytes = 0
        self.event_bytes = 0
        self.is_gone = False
        """Whether nothing can be reached, as when an engine has stopped."""


class MemoryCluster(ClusterMember):
    """A replica in this process.

    Args:
        beside: another replica, whose records, events and messages this one shares; by default it is alone.
        lease: seconds without a sign of life after which a replica counts as dead.
    """

    joins_processes = False

    def __init__(self, beside: MemoryCluster | None = None, *, lease: float = LEASE) -> None:
        super().__init__(lease=lease)
        match beside:
            case MemoryCluster(_shared=shared):
                self._shared = shared
            case None:
                self._shared = Shared()

    # --- life ---------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        self._reach().members[self.replica] = self

    async def _leave(self) -> None:
        self._shared.members.pop(self.replica, None)

    async def _renew(self) -> bool:
        self._reach()
        return True

    async def is_alive(self, replica: str) -> bool:
        return replica in self._reach().members

    # --- messages -----------------------------------------------------------------------------------------------

    async def send(self, replica: str, topic: str, data: bytes) -> None:
        check_size(data)
        member = self._reach().members.get(replica)
        if member is not None:
            asyncio.get_running_loop().call_soon(member.take, self.replica, topic, data)

    async def publish(self, topic: str, data: bytes) -> None:
        for replica in self._reach().members:
            if replica != self.replica:
                await self.send(replica, topic, data)

    # --- records ------------------------------------------------------------------------------------------------

    async def get(self, key: str) -> bytes | None:
        value, until = self._reach().records.get(key, (None, 0.0))
        return value if until > _read_clock() else None

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        check_size(value)
        await self.delete(key)
        shared = self._shared
        shared.records[key] = value, _read_clock() + ttl
        shared.record_bytes += len(key) + len(value) + _OVERHEAD
        while shared.record_bytes > MAX_KEPT and len(shared.records) > 1:
            await self.delete(next(iter(shared.records)))

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        if await self.get(key) is not None:
            return False
        await self.put(key, value, ttl)
        return True

    async def replace(self, key: str, value: bytes, ttl: float, *, expected: bytes) -> bool:
        if await self.get(key) != expected:
            return False
        await self.put(key, value, ttl)
        return True

    async def delete(self, key: str) -> None:
        gone = self._reach().records.pop(key, None)
        if gone is not None:
            self._shared.record_bytes -= len(key) + len(gone[0]) + _OVERHEAD

    # --- events -------------------------------------------------------------------------------------------------

    async def append(self, stream: str, number: int, data: bytes) -> None:
        check_size(data)
        shared = self._reach()
        kept = shared.events.setdefault(stream, OrderedDict())
        if number in kept:
            return
        kept[number] = data
        shared.events.move_to_end(stream)
        shared.event_bytes += len(data) + _OVERHEAD
        while shared.event_bytes > MAX_KEPT and len(shared.events) > 1:
            await self.forget(next(iter(shared.events)))
        while shared.event_bytes > MAX_KEPT and len(kept) > 1:
            _, oldest = kept.popitem(last=False)
            shared.event_bytes -= len(oldest) + _OVERHEAD

    async def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        kept = self._reach().events.get(stream, OrderedDict())
        return [(each, data) for each, data in kept.items() if each > number]

    async def forget(self, stream: str) -> None:
        for data in self._reach().events.pop(stream, OrderedDict()).values():
            self._shared.event_bytes -= len(data) + _OVERHEAD

    # --- faults -------------------------------------------------------------------------------------------------

    def die(self) -> None:
        """Vanish for the other replicas, as a process that is killed does; nothing is told to this one."""
        self._shared.members.pop(self.replica, None)

    def reachable(self, is_reachable: bool) -> None:
        """Let every operation of all replicas fail, or work again, as when an engine stops and starts.

        Args:
            is_reachable: whether they work.
        """
        self._shared.is_gone = not is_reachable

    def _reach(self) -> Shared:
        if self._shared.is_gone:
            raise ClusterUnavailable("The replicas of this server cannot reach each other")
        return self._shared


def _read_clock() -> float:
    return asyncio.get_running_loop().time()
