"""Our own requests: send one, wait for its reply, give it up.

Owns what happens when a reply does not come: deadlines, cancellation, a peer that reads nothing. What a request may be
is the session's rule; who waits for which is kept by ``waiting``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Raw

from antiphon.channel import Channel, Frame
from antiphon.engine.tasks import Tasks
from antiphon.engine.waiting import OnProgress, Waiting
from antiphon.errors import AntiphonError, ConnectionClosed
from antiphon.protocol.events import Outgoing
from antiphon.protocol.session import Session

__all__ = ["Asking"]


class Owner(Protocol):
    """The connection, as far as our requests need it."""

    channel: Channel
    tasks: Tasks
    gone: Callable[[], ConnectionClosed] | None
    """Why nothing will be received any more."""

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        ...

    async def drained(self, wait: Awaitable[None]) -> None:
        """Wait until the peer has taken what it was sent."""
        ...


class Asking:
    """Our requests on one connection."""

    __slots__ = ("_owner", "_session", "waiting")

    def __init__(self, owner: Owner, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self.waiting = Waiting(loop, self._expired)
        """Who waits for which reply."""
        self._owner = owner
        self._session = session

    async def request(self, outgoing: Outgoing, timeout: float | None, on_progress: OnProgress | None) -> Raw:
        """Send a request and wait for its result. See ``Connection.request``."""
        owner = self._owner
        if owner.gone is not None:
            self._session.cancel(outgoing.id)
            raise owner.gone()
        waiter = self.waiting.add(outgoing, timeout, on_progress)
        try:
            parent = outgoing.parent
            wait = owner.channel.send(Frame(outgoing.data, parent.id if parent is not None else None))
            if wait is not None:
                await self._drained_before(wait, waiter.future)
            return await waiter.future
        except asyncio.CancelledError:
            self._give_up(outgoing.id, "the caller no longer waits")
            waiter.let_go()
            raise
        except ConnectionClosed:
            self._session.cancel(outgoing.id)
            raise
        finally:
            self.waiting.end(waiter)

    def abandon(self, id: int | str, error: AntiphonError) -> None:
        """Give up a request: the peer is told to stop, whoever waits gets ``error``."""
        self._give_up(id, str(error))
        self.waiting.fail(id, error)

    def _expired(self, outgoing: Outgoing) -> None:
        self._give_up(outgoing.id, "the deadline passed")

    def _give_up(self, id: int | str, reason: str) -> None:
        frame = self._session.cancel(id, reason)
        if frame is not None and not self._owner.is_over:
            self._owner.channel.send(Frame(frame))

    async def _drained_before(self, wait: Awaitable[None], future: asyncio.Future[Raw]) -> None:
        """Wait until there is room, but no longer than for the reply: deadlines hold for a peer that reads nothing."""
        room = self._owner.tasks.start(self._owner.drained(wait))
        try:
            await asyncio.wait((room, future), return_when=asyncio.FIRST_COMPLETED)
        finally:
            room.cancel()
