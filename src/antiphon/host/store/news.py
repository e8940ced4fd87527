"""How those who wait for a change of a question hear of it, whichever process made it.

Owns who waits, and for how long the database is listened to. Nobody may rely on it alone: a notice can be lost with a
connection, so whoever waits looks at the store now and then as well (``review.queue``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Protocol
from weakref import WeakSet

__all__ = ["Listening", "News", "NewsSource"]

REST = 60.0
"""Seconds without anybody who waits, after which the database is not listened to any more until somebody does."""
_log = logging.getLogger("antiphon.host")

Told = Callable[[str | None], None]


class NewsSource(Protocol):
    """What a database says; see ``sql.notices`` and ``sql.watched_file``."""

    @property
    def are_heard(self) -> bool:
        """Whether it is heard now."""
        ...

    async def hear(self, told: Told) -> None:
        """Call a function with the id of each question that has changed, or ``None`` if it may be any.

        Args:
            told: the function; it must return at once.
        """
        ...


class News:
    """The changes of questions in one store.

    A store whose questions no other process can change makes one without arguments, and calls ``tell``.

    Args:
        source: says what other processes change; by default there are none.
        opened: awaited before the source is heard; by default nothing is.
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
        """Whether changes are heard of when they happen, as far as is known."""
        return self._source is None or self._source.are_heard

    def tell(self, id: str | None = None) -> None:
        """Wake all who wait for a change of this question, or of any.

        Args:
            id: id of the question that has changed; by default it may be any.
        """
        for listening in list(self._listening):
            if not id or listening.id in (None, id):
                listening.told.set()

    @contextmanager
    def listening(self, id: str | None = None) -> Generator[Listening]:
        """Note changes while the context lasts.

        Args:
            id: id of the question whose changes are wanted; by default those of all.
        """
        listening = Listening(self, id)
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
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await told.wait()
        finally:
            self._waiting -= 1

    async def aclose(self) -> None:
        """Listen no more."""
        self._closed = True
        hearing, self._hearing = self._hearing, None
        if hearing is not None and hearing.get_loop() is asyncio.get_running_loop():
            hearing.cancel()
            await asyncio.wait([hearing])

    def _hear(self) -> None:
        """Listen to the database, unless that is done already. Each event loop of a program begins anew."""
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
                # Whoever waits has the same error from the store, or finds it there again.
                _log.debug("the store is not listened to: %s", type(error).__name__)
                return
        await self._heard_while_wanted(source)
        while self._waiting:
            # Somebody has begun to wait while the connection was being closed.
            await self._heard_while_wanted(source)

    async def _heard_while_wanted(self, source: NewsSource) -> None:
        hearing = asyncio.create_task(source.hear(self.tell))
        try:
            idle = False
            while not (idle and not self._waiting):
                idle = not self._waiting
                await asyncio.sleep(REST)
        finally:
            hearing.cancel()
            await asyncio.wait([hearing])


class Listening:
    """One who waits. What happens while they do not wait is noted, so nothing between two waits is missed.

    Args:
        news: the news of the store.
        id: id of the question whose changes are wanted, or ``None`` for those of all.
    """

    def __init__(self, news: News, id: str | None) -> None:
        self._news = news
        self.id = id
        self.told = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait until something has changed since the last wait ended.

        Args:
            seconds: most seconds to wait.
        """
        await self._news.wait(self.told, seconds)
        self.told.clear()
