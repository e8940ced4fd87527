"""What each replica counts, told to all others once a second, so that a limit holds for all of them together.

No counter is kept in the engine: a request would have to wait for it, and a replica that dies would leave what it has
counted. So each replica knows the others' counts as they were up to a second ago, and its own exactly; a limit on these
counts may be exceeded by what the others count within that second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import Struct

from antiphon.errors import ClusterUnavailable, PeerError
from antiphon.replicas.engines.base import Cluster

log = logging.getLogger("antiphon.cluster")

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
    """Something that is counted."""

    counts: Callable[[], Counts]
    heard: Callable[[str, Counts], object]
    left: Callable[[str], object]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_CountedTally).decode


class Tallies:
    """What one replica counts, and what it has heard of the others.

    Args:
        cluster: what the replicas share.
        name: that of the server.
        seal: encrypts a message for a purpose.
        unseal: undoes that, or raises a ``PeerError``.
        now: returns the time in seconds, of any clock that only increases.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        seal: Callable[[bytes, bytes], bytes],
        unseal: Callable[[bytes, bytes], bytes],
        now: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._topic = f"tallies/{name}"
        self._seal = seal
        self._unseal = unseal
        self._now = now
        self._subjects: dict[str, _Subject] = {}
        self._heard: dict[str, float] = {}
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
