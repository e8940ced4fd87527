"""What replicas know of each other's legacy sessions: where each lives, whose it is, and what restores it elsewhere.

A session lives in one replica, its home. Records are sealed, and named by a hash of the session's id, so that the
engine learns neither.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct, structs

from antiphon.channel import Peer
from antiphon.errors import ClusterUnavailable, PeerError
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.protocol.caller import Covers
from antiphon.replicas.engines.base import LEASE, Cluster, Tallies
from antiphon.transports.http.server.legacy_session import LegacySession

log = logging.getLogger(__name__)

MAX_LATE = 32 * 1024 * 1024
"""Most bytes of events that wait until the engine can store them: as many as one process keeps without an engine."""

MAX_HOMES = 10_000
"""Most sessions of other replicas of which it is remembered where they live."""

KNOWN_FOR = LEASE / 4
"""Seconds for which a session is taken to live where it was found. A replica must have been silent for longer before
others take its sessions over; one that stops waits for so long after it has given them up."""

_OVERHEAD = 200
"""Estimate of the bytes that an event costs beside its data."""

_TRIES = 5
"""Attempts to store a record that other tasks of this process store at the same time."""

_PAUSE = 0.5
"""Seconds between two attempts to store what the engine has refused."""


class ReplicaCommons(Struct, frozen=True, eq=False, kw_only=True):
    """What the replicas of a server have in common, as its endpoints use it."""

    cluster: Cluster
    name: str
    """The server's; replicas of different servers may share an engine."""
    seal: Callable[[bytes, bytes], bytes]
    """Encrypts data for a purpose."""
    unseal: Callable[[bytes, bytes], bytes]
    """Undoes it, or raises a ``PeerError``."""
    state_of: Callable[[Peer], bytes]
    """Returns what restores a session elsewhere."""
    restore: Callable[[Peer, bytes, int], None]
    """Makes a new session the one whose state this is; the number counts how often it has moved."""
    tallies: Tallies
    """What each replica counts is told to the others by these."""
    covers: Covers | None = None
    """Whether one scope includes another: the same function in all replicas, so that it need not be sent."""

    def purpose(self, *parts: str) -> bytes:
        """Return what sealed data is bound to."""
        return "/".join((self.name, *parts)).encode()


class SessionRecord(Struct, frozen=True, array_like=True):
    """What is known of one session."""

    home: str
    """The replica it lives in; empty if it has left the last one."""
    principal: str | None
    """Whose it is: nobody else's requests reach it."""
    revision: str | None
    key: str
    """What the names of its streams begin with, in the store of events."""
    moved: int
    """How often it has moved."""
    state: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SessionRecord).decode


class SessionRecords:
    """The records of one server. ``ttl``: seconds for which one is kept without a sign that its session is used."""

    def __init__(self, common: ReplicaCommons, ttl: float) -> None:
        self._common = common
        self._cluster = common.cluster
        self._ttl = ttl
        self._stored: dict[bytes, bytes] = {}
        """What we have stored last, of each session that lives here."""

    async def find(self, id: bytes) -> tuple[SessionRecord, bytes] | None:
        """Return the record of a session, and as it is stored.

        Raises ``ClusterUnavailable``: the engine cannot be reached.
        """
        key = self._key(id)
        stored = await self._cluster.get(key)
        if stored is None:
            return None
        try:
            return _decode(self._common.unseal(stored, self._common.purpose(key))), stored
        except (PeerError, msgspec.DecodeError):
            log.warning("the record of a session cannot be read: do all replicas have the same keys?")
            return None

    async def enter(self, session: LegacySession) -> None:
        """Store the record of a session that was opened here.

        Raises ``ClusterUnavailable``: the engine cannot be reached.
        """
        sealed = self._seal_data(session)
        await self._cluster.put(self._key(session.id), sealed, self._ttl)
        self._stored[session.id] = sealed

    async def keep(self, session: LegacySession) -> bool:
        """Store what has changed of a session that lives here, and that it is used; tell whether it still lives here.

        Raises ``ClusterUnavailable``: the engine cannot be reached.
        """
        key = self._key(session.id)
        for _ in range(_TRIES):
            before, sealed = self._stored.get(session.id, b""), self._seal_data(session)
            done = await self._cluster.replace(key, sealed, self._ttl, expected=before)
            # An engine that was started again may have lost it.
            if done or await self._cluster.add(key, sealed, self._ttl):
                self._stored[session.id] = sealed
                return True
            found = await self.find(session.id)
            if found is None:
                continue
            record, stored = found
            if record.home != self._cluster.replica and record.moved >= session.moved:
                return False
            # Stored by us, by an operation whose outcome we did not learn or at the same time; or one from before the
            # session moved here, by an engine that was started again with older data.
            self._stored[session.id] = stored
        return True

    async def take_over(self, id: bytes, record: SessionRecord, stored: bytes) -> SessionRecord | None:
        """Make this replica the home of a session, unless another has; return the new record.

        Raises ``ClusterUnavailable``: the engine cannot be reached.
        """
        taken = structs.replace(record, home=self._cluster.replica, moved=record.moved + 1)
        key = self._key(id)
        sealed = self._common.seal(_encode(taken), self._common.purpose(key))
        if not await self._cluster.replace(key, sealed, self._ttl, expected=stored):
            return None
        self._stored[id] = sealed
        return taken

    async def release(self, session: LegacySession) -> None:
        """Note that a session goes on at whichever replica its next request reaches.

        Raises ``ClusterUnavailable``: the engine cannot be reached.
        """
        before = self._stored.get(session.id, b"")
        await self._cluster.replace(
            self._key(session.id), self._seal_data(session, home=""), self._ttl, expected=before
        )
        self.left(session.id)

    async def forget(self, session: LegacySession) -> None:
        """Remove the record of a session that has ended here."""
        self.left(session.id)
        try:
            await self._cluster.delete(self._key(session.id))
        except ClusterUnavailable:
            log.debug("the record of a session that has ended stays until its time is over")

    def left(self, id: bytes) -> None:
        """Note that a session does not live here any more."""
        self._stored.pop(id, None)

    def _seal_data(self, session: LegacySession, *, home: str | None = None) -> bytes:
        state = self._common.state_of(session.peer)
        home = self._cluster.replica if home is None else home
        record = SessionRecord(home, session.principal, session.revision, session.key, session.moved, state)
        return self._common.seal(_encode(record), self._common.purpose(self._key(session.id)))

    def _key(self, id: bytes) -> str:
        return f"session/{hashlib.sha256(self._common.name.encode() + b'/' + id).hexdigest()}"


class KnownHomes:
    """Where sessions live that were found a moment ago, so that many requests of one cost one search."""

    def __init__(self) -> None:
        self._found: dict[bytes, tuple[str, str | None, float]] = {}
        """The home, whose the session is, and until when that counts, by the loop's clock."""

    def of(self, id: bytes, principal: str | None) -> str | None:
        """Return the home of a session if it is known, and is this principal's."""
        home, whose, until = self._found.get(id, ("", None, 0.0))
        return home if whose == principal and asyncio.get_running_loop().time() < until else None

    def note(self, id: bytes, record: SessionRecord) -> None:
        """Note where a session was found."""
        self.forget(id)
        while len(self._found) >= MAX_HOMES:
            del self._found[next(iter(self._found))]
        self._found[id] = record.home, record.principal, asyncio.get_running_loop().time() + KNOWN_FOR

    def forget(self, id: bytes) -> None:
        """Note that a session may live elsewhere."""
        self._found.pop(id, None)


class SharedEvents:
    """An ``EventStore`` in the engine that all replicas reach.

    What cannot be stored is sent nevertheless, and stored when the engine works again: nobody waits for it more than
    once, and it is lost only with this process.
    """

    def __init__(self, common: ReplicaCommons) -> None:
        self._common = common
        # Ordered: from a plain dict that shrinks, its first member is found ever more slowly.
        self._late: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        """What is not stored yet, sealed, in order."""
        self._late_bytes = 0
        self._storing: asyncio.Task[None] | None = None

    async def append(self, stream: str, number: int, data: bytes) -> None:
        sealed = self._common.seal(data, self._purpose(stream, number))
        if not self._late:
            try:
                await self._common.cluster.append(stream, number, sealed)
            except ClusterUnavailable as error:
                # Once until it works again: there may be thousands.
                log.warning("events of streams cannot be stored now, and are kept here meanwhile: %s", error)
            else:
                return
        self._late[stream, number] = sealed
        self._late_bytes += len(sealed) + _OVERHEAD
        while self._late_bytes > MAX_LATE:
            self._drop_late(next(iter(self._late)))
        if self._storing is None or self._storing.done():
            self._storing = asyncio.get_running_loop().create_task(self._store_late())

    async def after(self, stream: str, number: int) -> Sequence[tuple[int, bytes]]:
        """See ``EventStore.after``. Raises ``ClusterUnavailable``: the engine cannot be reached."""
        found = dict(await self._common.cluster.after(stream, number))
        found.update((each, data) for (name, each), data in self._late.items() if name == stream and each > number)
        events: list[tuple[int, bytes]] = []
        for each, sealed in sorted(found.items()):
            try:
                events.append((each, self._common.unseal(sealed, self._purpose(stream, each))))
            except PeerError:
                log.warning("an event cannot be read: do all replicas have the same keys?")
        return events

    async def forget(self, stream: str) -> None:
        if self._late:
            for place in [each for each in self._late if each[0] == stream]:
                self._drop_late(place)
            return
        try:
            await self._common.cluster.forget(stream)
        except ClusterUnavailable:
            log.debug("a stream that has ended stays until its time is over")

    async def close(self) -> None:
        """Store nothing more."""
        await end_tasks(self._storing)

    def _drop_late(self, place: tuple[str, int]) -> None:
        sealed = self._late.pop(place, None)
        if sealed is not None:
            self._late_bytes -= len(sealed) + _OVERHEAD

    async def _store_late(self) -> None:
        while self._late:
            place = next(iter(self._late))
            try:
                await self._common.cluster.append(*place, self._late[place])
            except ClusterUnavailable:
                await asyncio.sleep(_PAUSE)
            else:
                self._drop_late(place)

    def _purpose(self, stream: str, number: int) -> bytes:
        return self._common.purpose("event", stream, str(number))
