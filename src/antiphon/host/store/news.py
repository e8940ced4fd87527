"""Notices of changed questions, for those who wait for a change, whichever process made it.

Owns the list of those who wait, and when the database is listened to. A notice can be lost with its connection, so
whoever waits also reads the store now and then (``review.queue``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakSet

from antiphon.machine.asyncio_tasks import end_tasks, wait_at_most

REST = 60.0
"""Seconds after the last wait until listening to the database ends; the next wait begins it again."""
_log = logging.getLogger("antiphon.host")

Told = Callable[[str | None], None]


class NewsSource(Protocol):
    """The notices of one database; see ``sql.notices``."""

    @property
    def are_heard(self) -> bool:
        """Whether notices arrive now."""
        ...

    async def hear(self, told: Told) -> None:
        """Call a function with the id of each question that has changed, or ``None`` if it may be any.

        Args:
            told: the function; it must return at once.
        """


class News:
    """The notices of changed questions in one store, which calls ``tell`` for changes by its own process.

    Args:
        source: notices of changes by other processes; by default no other process uses the store.
        opened: awaited before the source is listened to, so that the database is open; by default nothing is.
    """

    def __init__(self, source: NewsSource | None = None, opened: Callable[[], Awaitable[None]] | None = None) -> None:
        self._source = source
        self._opened = opened
        self._listening: WeakSet[Listening] = WeakSet()
        self._waiting = 0
        self._hearing: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def are_heard(self) -> bool:
        """Whether notices arrive when changes happen, as far as is known."""
        return self._source is None or self._source.are_heard

    def tell(self, id: str | None = None) -> None:
        """Wake all who wait for a change of this question, or of any.

        Args:
            id: id of the question that has changed; by default it may be any.
        """
        for listening in list(self._listening):
            listening.on_change(id)

    @contextmanager
    def listening(self, on_change: Told | None = None) -> Generator[Listening]:
        """Note changes while the context lasts.

        Args:
            on_change: called with the id of each question that has changed, or ``None`` if it may be any; by default
                each change ends ``Listening.wait``.
        """
        listening = Listening(self, on_change)
        self._listening.add(listening)
        try:
            yield listening
        finally:
            self._listening.discard(listening)

    async def wait(self, told: asyncio.Event, seconds: float) -> None:
        """Wait for an event, and listen to the database meanwhile; see ``Listening.wait``.

        Args:
            told: the event.
            seconds: most seconds to wait.
        """
        self._waiting += 1
        try:
            self._hear()
            await wait_at_most(seconds, told.wait())
        finally:
            self._waiting -= 1

    async def aclose(self) -> None:
        """Stop listening to the database, for good."""
        self._closed = True
        hearing, self._hearing = self._hearing, None
        if hearing is not None and hearing.get_loop() is asyncio.get_running_loop():
            await end_tasks(hearing)

    def _hear(self) -> None:
        """Begin to listen to the database, unless this event loop does already."""
        loop = asyncio.get_running_loop()
        hearing = self._hearing
        if self._source is None or self._closed:
            return
        if hearing is None or hearing.done() or hearing.get_loop() is not loop:
            self._hearing = loop.create_task(self._heard(self._source), name="antiphon-store-news")

    async def _heard(self, source: NewsSource) -> None:
        if self._opened is not None:
            try:
                await self._opened()
            except Exception as error:
                # Whoever waits also reads the store: it raises the same error, or can be reached again.
                _log.debug("the store is not listened to: %s", type(error).__name__)
                return
        is_wanted = True
        while is_wanted:
            hearing = asyncio.create_task(source.hear(self.tell))
            try:
                idle = False
                while not (idle and not self._waiting):
                    idle = not self._waiting
                    await asyncio.sleep(REST)
            finally:
                await end_tasks(hearing)
            # Somebody may have begun to wait while the connection was being closed.
            is_wanted = bool(self._waiting)


class Listening:
    """One who waits for changes. A change between two waits is noted, and ends the next wait at once.

    Args:
        news: the news of the store.
        on_change: called with the id of each question that has changed; by default the change is noted in ``told``.
    """

    def __init__(self, news: News, on_change: Told | None) -> None:
        self._news = news
        self.told = asyncio.Event()
        self.on_change: Told = on_change or (lambda _id: self.told.set())

    async def wait(self, seconds: float) -> None:
        """Wait until something has changed since the last wait ended.

        Args:
            seconds: most seconds to wait.
        """
        await self._news.wait(self.told, seconds)
        self.told.clear()
