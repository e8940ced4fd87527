"""The asks that wait for a person now, so that a block or a stopped call ends all of them at once.

Only those of this process; ``Store.block`` withdraws those that wait in a store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from antiphon.host.review.review import Blocked, Reach
from antiphon.wire.origin import Origin

__all__ = ["Waiting"]

T = TypeVar("T")


class Waiting:
    """The asks of one host that wait for a person."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Timeout, Origin] = {}
        self._ended: set[asyncio.Timeout] = set()

    async def put(self, origin: Origin, seconds: float | None, review: Awaitable[T]) -> T:
        """Wait for a reviewer, for at most some seconds.

        Raises:
            TimeoutError: it took longer.
            Blocked: the server was blocked, or the call stopped.
        """
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                self._open[limit] = origin
                try:
                    return await review
                finally:
                    del self._open[limit]
        except TimeoutError:
            if limit in self._ended:
                raise Blocked("withdrawn with the rest of its call or server") from None
            raise
        finally:
            self._ended.discard(limit)

    def end(self, origin: Origin, reach: Reach) -> None:
        """End the asks of the same call, or of the same server."""
        now = asyncio.get_running_loop().time()
        for limit, other in self._open.items():
            same_call = other.chain == origin.chain
            same_server = other.identity == origin.identity
            # A block also covers similar servers, such as the same one started in another folder.
            blocked = reach == "server" and (same_server or origin.alike in other.identities)
            reached = blocked or (same_server and same_call)
            if reached and not limit.expired():
                self._ended.add(limit)
                limit.reschedule(now)
