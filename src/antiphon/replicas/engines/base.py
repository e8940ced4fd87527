"""The interface to an engine that the replicas of one server share, and what all engines have in common.

An engine keeps records and events, carries messages between replicas, and knows which replicas are alive. It need not
be trusted with content: whoever uses it seals what must not be read or forged.

What each replica counts is told to all others once a second (``Tallies``), so that a limit holds for all of them
together. No counter is kept in the engine: a request would have to wait for it, and a replica that dies would leave
what it has counted. So a limit may be exceeded by what the others count within that second.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec
from msgspec import Struct

from antiphon.errors import ClusterUnavailable, ConfigError, PeerError
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.machine.state_store import CompareAndSetStore
from antiphon.transports.http.server.event_store import EventStore

log = logging.getLogger("antiphon.cluster")

Deliver = Callable[[str, bytes], object]
"""Called with the name of the replica that sent a message, and its data. It neither waits nor raises."""

LEASE = 2.0
"""Seconds without a sign of life after which a replica counts as dead."""

PATIENCE = 2.0
"""Seconds that an engine has for one operation."""

MAX_MESSAGE = 24 * 1024 * 1024
"""Most bytes of one message or record: the largest frame, with room for headers and a token's claims."""


READ = 64
"""Most messages of a replica that one read of an engine returns."""

WAITING = 60
"""Seconds that messages wait for a replica that reads none."""

EVENTS = 1_000
"""Most events of one stream that an engine keeps; a few more until it next removes some."""

EVENTS_FOR = 1_800
"""Seconds for which an engine keeps an event: with PostgreSQL each, with Redis all after the last one."""

REVISION, OLDEST = 1, 1
"""The revision of what an engine keeps (tables, keys and their fields), and the oldest whose code may work with it.

A release that adds only what older code can ignore raises the first; one that adds what older code must know raises
both to the same number."""


class Cluster(CompareAndSetStore, EventStore, Protocol):
    """What the replicas of one server share. Each object is one replica's part in it.

    Every operation either takes effect or raises ``ClusterUnavailable`` within a deadline; after that error it may
    have taken effect nevertheless. Keys, topics and names of streams are ASCII and below 200 characters; a value or an
    event has at most ``MAX_MESSAGE`` bytes. A stream is kept for half an hour after its last event, and its oldest
    events are dropped first. An event that is kept already, by an operation whose outcome was not known, stays as it
    is.
    """

    replica: str
    """Name of this replica, new with each start."""
    joins_processes: bool
    """Whether replicas in other processes can be reached."""

    @property
    def is_past_lease(self) -> bool:
        """Whether this replica has given no sign of life for so long that the others may take it for dead."""
        ...

    # --- life ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Join: from now on messages are delivered, and the others see this replica. May be called several times.

        Raises:
            ClusterUnavailable: the engine cannot be reached.
        """

    async def close(self) -> None:
        """Leave, after as many calls as there were of ``open``: for the others this replica is dead at once."""

    async def is_alive(self, replica: str) -> bool:
        """Tell whether a replica is alive: it has given a sign within the last seconds, and has not left.

        Args:
            replica: its name.
        """
        ...

    async def give_sign(self) -> None:
        """Give a sign of life now, so that the others take this replica for alive."""

    def on_lapse(self, function: Callable[[], object]) -> Callable[[], None]:
        """Have a function called when this replica finds that the engine has not known it as alive for a while.

        The others may have taken it for dead; or the engine was started again, and has lost what was in it.

        Args:
            function: plain, without arguments.

        Returns:
            a function that ends this.
        """
        ...

    # --- messages -----------------------------------------------------------------------------------------------

    def listen(self, topic: str, deliver: Deliver) -> Callable[[], None]:
        """Have the messages of a topic delivered, each once and those of one sender in order.

        Args:
            topic: its name; there is one listener for each.
            deliver: called on the event loop that has opened this.

        Returns:
            a function that ends this.
        """
        ...

    async def send(self, replica: str, topic: str, data: bytes) -> None:
        """Send a message to one replica. It is lost if that replica is dead, or has no listener.

        Args:
            replica: its name; may be this one.
            topic: what it is about.
            data: at most ``MAX_MESSAGE`` bytes.
        """

    async def publish(self, topic: str, data: bytes) -> None:
        """Send a message to all replicas but this one.

        Args:
            topic: what it is about.
            data: at most 64 KiB.
        """


class ClusterMember(Cluster, ABC):
    """What every engine's replica does in the same way: who listens, how often it was opened, its signs of life."""

    joins_processes = True

    def __init__(self, *, lease: float = LEASE) -> None:
        self.replica = secrets.token_hex(8)
        self._lease = lease
        self._users = 0
        self._gate = asyncio.Lock()
        self._listeners: dict[str, Deliver] = {}
        self._lapses: list[Callable[[], object]] = []
        self._heart: asyncio.Task[None] | None = None
        self._signed = 0.0
        """When the last sign of life was given that has arrived, by the loop's clock."""

    async def open(self) -> None:
        async with self._gate:
            if self._users == 0:
                self._signed = asyncio.get_running_loop().time()
                try:
                    await self._join()
                except BaseException:
                    await self._leave()
                    raise
                self._heart = asyncio.get_running_loop().create_task(self._beat())
            self._users += 1

    async def close(self) -> None:
        async with self._gate:
            if self._users == 0:
                return
            self._users -= 1
            if self._users == 0:
                await end_tasks(self._heart)
                await self._leave()
                # Its name was given up: nobody may send to what is opened next what was meant for this one.
                self.replica = secrets.token_hex(8)

    def listen(self, topic: str, deliver: Deliver) -> Callable[[], None]:
        self._listeners[topic] = deliver

        def end() -> None:
            if self._listeners.get(topic) is deliver:
                del self._listeners[topic]

        return end

    def on_lapse(self, function: Callable[[], object]) -> Callable[[], None]:
        self._lapses.append(function)

        def end() -> None:
            if function in self._lapses:
                self._lapses.remove(function)

        return end

    def take(self, sender: str, topic: str, data: bytes) -> None:
        """Deliver a message that has arrived.

        Args:
            sender: the replica that sent it.
            topic: what it is about.
            data: the message.
        """
        listener = self._listeners.get(topic)
        if listener is None:
            return
        try:
            listener(sender, data)
        except Exception:
            log.exception("a message from another replica could not be handled")

    async def _beat(self) -> None:
        """Give a sign of life four times within a lease."""
        while True:
            await asyncio.sleep(self._lease / 4)
            try:
                await self.give_sign()
            except Exception as error:
                log.debug("no sign of life could be given: %r", error)

    @property
    def is_past_lease(self) -> bool:
        return asyncio.get_running_loop().time() - self._signed > self._lease

    async def give_sign(self) -> None:
        """See ``Cluster.give_sign``. Notes when there was none for too long, or the last one is lost."""
        begun = asyncio.get_running_loop().time()
        is_known = await self._renew()
        silent, self._signed = begun - self._signed, begun
        if silent > self._lease:
            log.warning("this replica gave no sign of life for %.1f s; others may have taken over", silent)
        elif not is_known:
            log.warning("the engine knew nothing of this replica: it may have lost what it kept")
        if silent > self._lease or not is_known:
            for function in list(self._lapses):
                function()

    @abstractmethod
    async def _join(self) -> None:
        """Begin to receive messages, and give the first sign of life; after an error, ``_leave`` is called."""

    @abstractmethod
    async def _leave(self) -> None:
        """Take back the signs of life, receive nothing more, and free everything."""

    @abstractmethod
    async def _renew(self) -> bool:
        """Give a sign of life; tell whether the engine still had the one before."""


def make_unavailable(engine: str, patience: float, error: Exception) -> ClusterUnavailable:
    """Make the error for a failed operation. ``patience``: seconds that the engine had for it."""
    # The text may have the address with its password.
    log.debug("%s failed", engine, exc_info=error)
    return ClusterUnavailable(f"{engine} did not do it within {patience:g} s: {type(error).__name__}")


def check_size(*values: object) -> None:
    """Raise ``ClusterUnavailable`` if bytes among these values are too many for any engine."""
    for data in values:
        if isinstance(data, bytes) and len(data) > MAX_MESSAGE:
            raise ClusterUnavailable(f"{len(data)} bytes are too many for one message: {MAX_MESSAGE} are allowed")


def check_revision(found: int, oldest: int) -> None:
    """Return if this release may work with what a newer one keeps in an engine.

    Raises ``ConfigError``: this release is too old; says what to do.
    """
    if oldest > REVISION:
        raise ConfigError(
            f"The engine is used by a newer release of antiphon: what it keeps is of revision {found}, which takes "
            f"code of {oldest} or later, and this is {REVISION}. Update antiphon here, or give these replicas a prefix="
        )
    if found > REVISION:
        log.warning("what the engine keeps is of a newer release (%d) than this one (%d)", found, REVISION)


_INTERVAL = 1.0
"""Seconds between two tellings: a message a second from each replica to all others costs no engine anything."""

_FORGOTTEN = 5
"""Intervals of silence after which the counts of a replica no longer count: a few of its messages may be late."""

_MAX_BYTES = 48 * 1024
"""Most bytes of one message, which may have 64 KiB when it is sealed; what is more takes several."""

Counts = Mapping[str, int]


class _CountedTally(Struct, frozen=True, array_like=True):
    """What one replica has counted of a subject; nothing but that it lives, if there is no subject."""

    subject: str
    counts: dict[str, int]


class _Subject(Struct, eq=False):
    counts: Callable[[], Counts]
    heard: Callable[[str, Counts], object]
    left: Callable[[str], object]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_CountedTally).decode


class Tallies(Struct, eq=False):
    """What one replica counts, and what it has heard of the others."""

    _cluster: Cluster
    """What the replicas share."""
    _topic: str
    """Where the replicas of the same server tell each other."""
    _seal: Callable[[bytes, bytes], bytes]
    """Encrypts a message for a purpose."""
    _unseal: Callable[[bytes, bytes], bytes]
    """Undoes that, or raises a ``PeerError``."""
    _now: Callable[[], float]
    """Returns the time in seconds, of any clock that only increases."""
    _subjects: dict[str, _Subject] = {}
    _heard: dict[str, float] = {}
    """When each of the other replicas was heard last."""

    @property
    def replicas(self) -> int:
        """How many replicas count, this one included."""
        return 1 + len(self._heard)

    def add(
        self,
        subject: str,
        counts: Callable[[], Counts],
        heard: Callable[[str, Counts], object],
        left: Callable[[str], object] = lambda _replica: None,
    ) -> Callable[[], None]:
        """Have something counted.

        Args:
            subject: its name, the same at all replicas.
            counts: returns what this replica has counted.
            heard: called with another replica, and what it has counted; in parts, if that is much.
            left: called with a replica of which nothing is heard any more.

        Returns:
            a function that ends this.
        """
        mine = self._subjects[subject] = _Subject(counts, heard, left)

        def end() -> None:
            if self._subjects.get(subject) is mine:
                del self._subjects[subject]

        return end

    async def run(self) -> None:
        """Tell and listen until cancelled."""
        stop = self._cluster.listen(self._topic, self._deliver)
        try:
            while True:
                await self.tell()
                await asyncio.sleep(_INTERVAL)
        finally:
            stop()

    async def tell(self) -> None:
        """Tell the others what is counted here, once, and forget those that are silent."""
        silent = self._now() - _FORGOTTEN * _INTERVAL
        for replica in [each for each, when in self._heard.items() if when <= silent]:
            del self._heard[replica]
            for subject in self._subjects.values():
                subject.left(replica)
        try:
            for message in list(self._messages()):
                await self._cluster.publish(self._topic, self._seal(_encode(message), self._topic.encode()))
        except ClusterUnavailable as error:
            log.debug("what is counted here could not be told: %s", error)

    def _messages(self) -> Iterator[_CountedTally]:
        is_empty = True
        for name, subject in self._subjects.items():
            part: dict[str, int] = {}
            size = 0
            for key, count in subject.counts().items():
                size += len(key) + 16
                is_empty = False
                if size > _MAX_BYTES:
                    yield _CountedTally(name, part)
                    part, size = {}, len(key) + 16
                part[key] = count
            if part:
                yield _CountedTally(name, part)
        if is_empty:
            yield _CountedTally("", {})

    def _deliver(self, replica: str, sealed: bytes) -> None:
        try:
            told = _decode(self._unseal(sealed, self._topic.encode()))
        except (PeerError, msgspec.DecodeError):
            log.warning("what another replica has counted cannot be read: do all replicas have the same keys?")
            return
        self._heard[replica] = self._now()
        subject = self._subjects.get(told.subject)
        if subject is not None:
            subject.heard(replica, told.counts)
