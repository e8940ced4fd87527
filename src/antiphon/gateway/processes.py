"""The processes of all servers behind a gateway: counted, and limited.

If the limit is reached, the server that has been unused for longest is stopped to make room for another one. If all are
in use, the new one waits for a limited time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from antiphon.errors import AntiphonError

__all__ = ["Full", "Occupant", "Place", "Processes"]


class Full(AntiphonError):
    """The limit of processes is reached, and all of them are in use."""


class Occupant(Protocol):
    """A server that may have a process."""

    @property
    def resting_since(self) -> float | None:
        """Since when nobody uses it, in the event loop's time; ``None`` while it is used, starting or ending."""
        ...

    def stop_resting(self) -> bool:
        """Begin to stop it, if it is unused. Returns whether it does; its place is free when the process has ended."""
        ...


class Place:
    """The right to have one process. Call ``give_back`` when the process has ended; a second call does nothing."""

    def __init__(self, processes: Processes, occupant: Occupant) -> None:
        self.occupant = occupant
        self._processes: Processes | None = processes

    def give_back(self) -> None:
        """Give the place to the next server that waits."""
        processes, self._processes = self._processes, None
        if processes is not None:
            processes.left(self)


class Processes:
    """The places for processes.

    Args:
        limit: most processes at once.
        patience: seconds to wait for a place.
    """

    def __init__(self, limit: int, patience: float) -> None:
        self.limit = limit
        self._patience = patience
        self._places: set[Place] = set()
        self._turns = asyncio.Semaphore(limit)
        self._unmet: deque[object] = deque()
        """Those that wait, and for which no server is being stopped yet."""

    @property
    def running(self) -> int:
        """Number of processes, including those that are starting or ending."""
        return len(self._places)

    async def enter(self, occupant: Occupant) -> Place:
        """Wait for a place.

        Raises:
            Full: none became free in time.
        """
        if self._turns.locked():
            waiting = object()
            self._unmet.append(waiting)
            self._make_room()
            try:
                async with asyncio.timeout(self._patience):
                    await self._turns.acquire()
            except TimeoutError:
                raise Full(f"all {self.limit} processes of this gateway are in use; try again later") from None
            finally:
                if waiting in self._unmet:
                    self._unmet.remove(waiting)
        else:
            await self._turns.acquire()
        place = Place(self, occupant)
        self._places.add(place)
        return place

    def left(self, place: Place) -> None:
        """See ``Place.give_back``."""
        self._places.discard(place)
        self._turns.release()

    def rests(self) -> None:
        """Note that a server is unused now, so that its place can be given to one that waits."""
        self._make_room()

    def _make_room(self) -> None:
        while self._unmet and self._stop_one():
            self._unmet.popleft()

    def _stop_one(self) -> bool:
        resting = [(since, place) for place in self._places if (since := place.occupant.resting_since) is not None]
        return any(place.occupant.stop_resting() for _, place in sorted(resting, key=lambda one: one[0]))
