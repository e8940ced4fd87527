"""The reading of a connection that is started: one frame after another, in one task at a time.

Most frames are requests whose handler never waits, and the task that reads serves them itself. If it comes to belong to
a handler that does, what arrived with that request is looked at in tasks of its own, and another goes on with the
reading. Owns which task that is, and what has arrived and was not looked at yet. What is done about a frame is
``connection``'s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Any, Protocol

from antiphon.channel import Channel, Offers, Oversized, Related
from antiphon.engine.serving import Serving
from antiphon.engine.tasks import Tasks
from antiphon.protocol.events import Event, Replied, Request
from antiphon.protocol.session import Session

__all__ = ["Reading"]

_TOGETHER = 64
"""Most messages that are looked at each in a task, after one whose handler waits."""


class Owner(Protocol):
    """The connection, as far as its reading needs it."""

    channel: Channel
    tasks: Tasks
    serving: Serving

    def act(self, event: Event) -> Awaitable[None] | None:
        """Do what has to be done about an event that is no request."""
        ...

    async def drained(self, wait: Awaitable[None]) -> None:
        """Wait until the peer has taken what it was sent."""
        ...

    async def peer_ended(self) -> None:
        """Take note that nothing will be received any more."""
        ...

    def failed(self, error: Exception) -> None:
        """End the connection for a fault of our own."""
        ...


class Reading:
    """Reads from one channel. ``limit``: bytes of the longest frame it takes, to tell a peer that sent a longer one."""

    __slots__ = ("_arrived", "_known", "_limit", "_owner", "_reader", "_session")

    def __init__(self, owner: Owner, session: Session, limit: int) -> None:
        self._owner = owner
        self._session = session
        self._limit = limit
        self._arrived: deque[bytes | Oversized] = deque()
        """What was received and not looked at yet."""
        self._known: tuple[bytes | Oversized, Event] | None = None
        """A frame that was looked at where it arrived and is to be received, and what it means."""
        self._reader: asyncio.Task[None] | None = None
        """The task that reads; ``None`` once nothing more is to be read."""
        if isinstance(owner.channel, Offers):
            owner.channel.offer_to(self._take_reply)
        self._go_on()

    def _go_on(self) -> None:
        self._reader = self._owner.tasks.start(self._read())

    def hand_over(self, task: asyncio.Task[Any]) -> None:
        """Take note that a task belongs to a handler from now on: if it was reading, another has to."""
        if self._reader is task:
            # What came with this one may wait as well: each in a task now, all of them begin in one pass of the loop.
            for _ in range(min(len(self._arrived), _TOGETHER)):
                self._owner.tasks.start(self._take(self._arrived.popleft()))
            self._go_on()

    def end(self) -> None:
        """Read nothing more; the task that reads is not stopped."""
        self._reader = None

    def _take_reply(self, frame: bytes | Oversized) -> bool:
        """Take a frame where it arrives, if it is a reply.

        Whoever waits for it goes on a pass of the event loop sooner, and the task that reads does not wake for it.
        """
        if self._reader is None:
            return False
        try:
            event = self._event(frame)
            if isinstance(event, Replied):
                self._owner.act(event)
                return True
        except Exception as error:
            self._owner.failed(error)
            return True
        self._known = frame, event
        return False

    async def _read(self) -> None:
        owner, me = self._owner, asyncio.current_task()
        try:
            while self._reader is me:
                if self._arrived:
                    if (work := self._begin(self._arrived.popleft())) is not None:
                        await work
                    continue
                frames = await owner.channel.receive()
                if not frames:
                    await owner.peer_ended()
                    return
                self._arrived.extend(frames)
        except Exception as error:
            owner.failed(error)

    async def _take(self, frame: bytes | Oversized) -> None:
        try:
            if (work := self._begin(frame, has_task=True)) is not None:
                await work
        except Exception as error:
            self._owner.failed(error)

    def _begin(self, frame: bytes | Oversized, *, has_task: bool = False) -> Awaitable[None] | None:
        """Act on a frame; return what is left to wait for. A request costs no coroutine but its handler's.

        ``has_task``: it is awaited in a task of its own.
        """
        known, self._known = self._known, None
        event = known[1] if known is not None and known[0] is frame else self._event(frame)
        if type(event) is Request:
            return self._owner.serving.serve(event, has_task=has_task)
        wait = self._owner.act(event)
        return None if wait is None else self._owner.drained(wait)

    def _event(self, frame: bytes | Oversized) -> Event:
        if isinstance(frame, Oversized):
            return self._session.oversized(frame.size, self._limit)
        event = self._session.receive(frame)
        if type(frame) is Related and isinstance(event, Request):
            event.related_to = frame.related_to
        return event
