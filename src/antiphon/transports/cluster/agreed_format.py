"""Which format the replicas of a server write, while replicas of two releases serve side by side.

Each release reads two formats: the last and the present one. The replicas of a release renew one record together. It
says that a replica is alive that can read no newer format than theirs. While there is such a record of the release
before, the last format is written. Another record says which format was written at all, so that a release that cannot
read it does not start.

A release that is rolled out cannot overlook an older one: who joins first renews the record of its release, and then
looks at what was written; who wants to write a newer format first says that it is written, and then looks for others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from antiphon.errors import ClusterUnavailable, ConfigError
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.transports.cluster.base import Cluster

__all__ = ["AgreedFormat"]

log = logging.getLogger("antiphon.cluster")

PERIOD = 15.0
"""Seconds between two renewals, and between two looks for replicas of the release before."""

_LASTING = 4
"""Periods for which a renewal counts: long enough that a replica which crashed and is started again is noticed."""

_LOOKS = 2
"""How often in a row no older replica must be found: an engine that has lost everything shows none at first."""

_KEPT = 10 * 365 * 86_400.0
"""Seconds for which it is known which format was written."""


class AgreedFormat:
    """Agrees with the other replicas of a server on the format to write.

    Args:
        cluster: what the replicas share.
        name: that of the server.
        formats: the last format and the present one.
        write: called with the format to write from now on.
        chosen: the format that this server was told to write; by default they agree on one.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        formats: tuple[int, int],
        write: Callable[[int], None],
        *,
        chosen: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._last, self._present = formats
        self._write = write
        self._chosen = chosen
        self._period = PERIOD
        self._unseen = 0
        """How often in a row no older replica was found."""
        self._keeping: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Take part, until ``leave``.

        Raises:
            ConfigError: other releases have written what this one cannot read, or cannot read what this one writes.
            ClusterUnavailable: the engine cannot be reached.
        """
        # Also before the record is renewed: a replica that may not join must leave no record that others heed.
        await self._check()
        await self._renew()
        await self._check()
        if self._chosen == self._present:
            await self._raise_written()
        self._unseen = 0
        await self._agree()
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def leave(self) -> None:
        """Take part no longer."""
        keeping, self._keeping = self._keeping, None
        await end_tasks(keeping)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._period)
            try:
                await self._renew()
                await self._agree()
            except ClusterUnavailable as error:
                log.debug("the format was not agreed on anew: %s", error)

    async def _renew(self) -> None:
        await self._cluster.put(self._readers(self._present), b"", _LASTING * self._period)

    async def _check(self) -> None:
        if await self._cluster.add(self._written, b"%d" % self._last, _KEPT):
            return
        written = int(await self._cluster.get(self._written) or self._last)
        if written > self._present:
            raise ConfigError(
                f"The replicas of {self._name!r} write format {written} by now, and this release of antiphon reads "
                f"{self._present} at most: update it here, or give these replicas a prefix= or a name of their own"
            )
        if written < self._last:
            raise ConfigError(
                f"The replicas of {self._name!r} write format {written}, and this release of antiphon reads "
                f"{self._last} and {self._present}: first roll out a release that reads {written} and {self._last}"
            )

    async def _agree(self) -> None:
        """Look for replicas of the release before, and write what all can read."""
        self._unseen = 0 if await self._is_older_one_there() else self._unseen + 1
        agreed = self._last
        if self._unseen >= _LOOKS and self._chosen != self._last:
            await self._raise_written()
            if await self._is_older_one_there():
                self._unseen = 0
            else:
                agreed = self._present
        self._write(agreed)

    async def _raise_written(self) -> None:
        value = b"%d" % self._present
        if not await self._cluster.replace(self._written, value, _KEPT, expected=b"%d" % self._last):
            # It is written already; or the engine was started again, and knows nothing.
            await self._cluster.add(self._written, value, _KEPT)

    async def _is_older_one_there(self) -> bool:
        if self._last == self._present:
            return False
        return await self._cluster.get(self._readers(self._last)) is not None

    @property
    def _written(self) -> str:
        return f"format/{self._name}/written"

    def _readers(self, newest: int) -> str:
        """Return the key of the record that is renewed by replicas whose newest readable format this is."""
        return f"format/{self._name}/readers/{newest}"
