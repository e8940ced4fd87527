"""The cluster of the processes of one machine, without an engine: one of them keeps what they share.

That one has a ``Hub``, and each of the others a ``UnixCluster``, at the two ends of a pair of Unix sockets. The hub
carries out the operations of the others on a ``MemoryCluster``: a cluster within one process, also for several servers
of it and for tests, and the reference for the other engines.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from antiphon.errors import ClusterUnavailable
from antiphon.machine.asyncio_tasks import end_tasks, ignore_error, settle_future, start_in
from antiphon.machine.state_store import MemoryStateStore
from antiphon.replicas.engines.base import LEASE, MAX_MESSAGE, PATIENCE, ClusterMember, check_size

MAX_KEPT = 64 * 1024 * 1024
"""Most bytes of records, and of events, that are kept; the oldest are dropped first."""

_OVERHEAD = 200
"""Estimate of the bytes that an event costs beside its data."""


class Shared:
    """What the replicas have in common."""

    def __init__(self) -> None:
        self.members: dict[str, MemoryCluster] = {}
        self.records = MemoryStateStore(limit=MAX_KEPT, clock=lambda: asyncio.get_running_loop().time())
        self.events: OrderedDict[str, OrderedDict[int, bytes]] = OrderedDict()
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
        return await self._reach().records.get(key)

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        check_size(value)
        await self._reach().records.put(key, value, ttl)

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        check_size(value)
        return await self._reach().records.add(key, value, ttl)

    async def replace(self, key: str, value: bytes, ttl: float, *, expected: bytes) -> bool:
        check_size(value)
        return await self._reach().records.replace(key, value, ttl, expected=expected)

    async def delete(self, key: str) -> None:
        await self._reach().records.delete(key)

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
        return [(each, data) for each, data in self._reach().events.get(stream, OrderedDict()).items() if each > number]

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


_HEAD = 4
_LONGEST = MAX_KEPT + 4_096
"""Most bytes of a frame. The longest is the hub's reply with all events of a stream; 4 KiB are for the names in it."""

MAX_BEHIND = MAX_KEPT + 4 * MAX_MESSAGE
"""Most bytes that wait for a process that does not read, beyond which it is given up: the longest reply, and messages
of others that arrive while it is sent."""

_DELIVERY = 0
"""Stands in a frame from the hub where a reply has the number of its operation."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def _encode_frame(*members: object) -> bytes:
    data = _encode(members)
    return len(data).to_bytes(_HEAD, "big") + data


async def _read_frame(reader: asyncio.StreamReader) -> Any:
    """Read one frame; raise ``EOFError`` at the end, or where what comes is none."""
    try:
        size = int.from_bytes(await reader.readexactly(_HEAD), "big")
        if size > _LONGEST:
            raise EOFError
        return _decode(await reader.readexactly(size))
    except (OSError, asyncio.IncompleteReadError, msgspec.DecodeError):
        raise EOFError from None


class _Agent(MemoryCluster):
    """What stands for one process at the hub: its operations are carried out here, and its messages leave from here."""

    def __init__(self, beside: MemoryCluster, writer: asyncio.StreamWriter) -> None:
        super().__init__(beside)
        self._writer = writer
        self.is_given_up = False
        """Whether the process was cut off, because it read nothing for too long."""
        self.operations = {
            name: getattr(self, name)
            for name in (
                *("join", "_leave", "_renew", "is_alive", "send", "publish"),
                *("get", "put", "add", "replace", "delete", "append", "after", "forget"),
            )
        }

    async def join(self, name: str) -> None:
        """Let the others see the process under this name."""
        self.replica = name
        await self._join()

    def take(self, sender: str, topic: str, data: bytes) -> None:
        """Pass a message on, unless it was given up: messages of the same moment may follow then."""
        if self.is_given_up or self._writer.is_closing():
            return
        self._writer.write(_encode_frame(_DELIVERY, sender, topic, data))
        if self._writer.transport.get_write_buffer_size() > MAX_BEHIND:
            self.is_given_up = True
            self._writer.transport.abort()


class Hub:
    """Keeps what the processes at the other ends of its sockets share."""

    def __init__(self) -> None:
        self._all = MemoryCluster()
        self._serving: set[asyncio.Task[None]] = set()

    def serve(self, end: socket.socket, given_up: Callable[[], object] = lambda: None) -> None:
        """Serve the process at the other end until that closes: then it is dead for the others."""
        start_in(self._serving, self._serve(end, given_up))

    async def close(self) -> None:
        """Serve nobody any more."""
        await end_tasks(*self._serving)

    async def _serve(self, end: socket.socket, given_up: Callable[[], object]) -> None:
        reader, writer = await asyncio.open_connection(sock=end)
        agent = _Agent(self._all, writer)
        try:
            while True:
                number, name, given, named = await _read_frame(reader)
                reply = await agent.operations[name](*given, **named)
                if agent.is_given_up or writer.is_closing():
                    break
                writer.write(_encode_frame(number, reply))
                await writer.drain()
        except (EOFError, OSError, ValueError, TypeError, KeyError):
            # It has ended, or is no process of ours.
            pass
        finally:
            agent.die()
            writer.transport.abort()
            if agent.is_given_up:
                given_up()


def _run_at_hub(name: str) -> Any:
    """Make a method that has the hub carry out the operation of this name. Its types are those that ``Cluster`` has."""

    async def run_with(self: UnixCluster, *given: object, **named: object) -> Any:
        return await self.run_operation(name, *given, **named)

    return run_with


class UnixCluster(ClusterMember):
    """One process among those of a hub."""

    def __init__(self, end: socket.socket, *, lease: float = LEASE) -> None:
        super().__init__(lease=lease)
        self._end = end
        self._numbers = itertools.count(_DELIVERY + 1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        try:
            reader, self._writer = await asyncio.open_connection(sock=self._end)
        except (OSError, ValueError):
            raise ClusterUnavailable("The processes of this server cannot reach each other") from None
        self._reading = asyncio.get_running_loop().create_task(self._listen(reader))
        await self.run_operation("join", self.replica)

    async def _leave(self) -> None:
        with contextlib.suppress(ClusterUnavailable):
            await self.run_operation("_leave")
        await end_tasks(self._reading)
        if self._writer is not None:
            self._writer.transport.abort()

    # --- operations of the hub ----------------------------------------------------------------------------------

    _renew = _run_at_hub("_renew")
    is_alive = _run_at_hub("is_alive")
    send = _run_at_hub("send")
    publish = _run_at_hub("publish")
    get = _run_at_hub("get")
    put = _run_at_hub("put")
    add = _run_at_hub("add")
    replace = _run_at_hub("replace")
    delete = _run_at_hub("delete")
    append = _run_at_hub("append")
    forget = _run_at_hub("forget")

    async def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        return [(each, data) for each, data in await self.run_operation("after", stream, number)]

    async def run_operation(self, name: str, *given: object, **named: object) -> Any:
        """Have the hub carry out an operation; return its result."""
        if self._writer is None or self._writer.is_closing() or self._reading is None or self._reading.done():
            # A transport can be closed before its reader has seen the end; uvloop raises RuntimeError for a write then.
            raise ClusterUnavailable("The processes of this server cannot reach each other")
        # Checked before it is sent: the hub cuts off a process whose frame is too long.
        check_size(*given, *named.values())
        number = next(self._numbers)
        done = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(PATIENCE):
                self._writer.write(_encode_frame(number, name, given, named))
                await self._writer.drain()
                return await done
        except (TimeoutError, OSError):
            raise ClusterUnavailable("The processes of this server cannot reach each other") from None
        finally:
            del self._waiting[number]
            if done.done():
                # Both sides may have failed.
                ignore_error(done)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                number, *rest = await _read_frame(reader)
                if number == _DELIVERY:
                    self.take(*rest)
                elif (waiting := self._waiting.get(number)) is not None:
                    settle_future(waiting, result=rest[0])
        except EOFError:
            pass
        finally:
            for waiting in self._waiting.values():
                settle_future(waiting, ClusterUnavailable("The processes of this server cannot reach each other"))
