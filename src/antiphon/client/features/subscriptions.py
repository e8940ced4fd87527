"""Hearing of changes, on both eras: ``subscriptions/listen``, or subscriptions to resources and unasked notices before.

Sources: 2026-07-28 basic/patterns/subscriptions; 2025-11-25 server/resources, Subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Self

from antiphon.client.features.notifications import Change, Notices
from antiphon.client.requests.calls import Calls
from antiphon.errors import CallTimeout, LocalProtocolError
from antiphon.wire.common import EmptyResult
from antiphon.wire.envelope import RequestId
from antiphon.wire.methods import METHODS
from antiphon.wire.resources import SubscribeRequestParams, UnsubscribeRequestParams
from antiphon.wire.subscriptions import SubscriptionFilter, SubscriptionsListenRequestParams

__all__ = ["Change", "Listening"]

log = logging.getLogger("antiphon.client")

MAX_WAITING = 1_000
"""Most changes kept for a reader that is slow; the oldest go first, since every change only says: look again."""

_ACKNOWLEDGE = 10.0
"""Seconds a server has to acknowledge a subscription."""


class Listening:
    """Changes, as an async iterator. Enter it before the first change matters, and leave it to stop."""

    def __init__(self, calls: Calls, notices: Notices, wanted: SubscriptionFilter) -> None:
        self.honoured: SubscriptionFilter = wanted
        """What the server has agreed to tell."""
        self.subscription: RequestId | None = None
        """Id of the subscription, where the revision has one."""
        self._calls = calls
        self._notices = notices
        self._wanted = wanted
        self._changes: deque[Change] = deque(maxlen=MAX_WAITING)
        self._news = asyncio.Event()
        self._ready = asyncio.Event()
        self._entered = False
        self._over = False
        self._stream: asyncio.Task[object] | None = None

    async def __aenter__(self) -> Self:
        if self._entered:
            raise LocalProtocolError("This subscription was used already: call listen() again")
        self._entered = True
        self._notices.add(self)
        try:
            await (self._listen() if self._calls.is_modern else self._subscribe())
        except BaseException:
            self._notices.remove(self)
            if self._stream is not None:
                self._stream.cancel()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._notices.remove(self)
        self.end()
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.wait([self._stream])
        elif not self._calls.peer.is_over:
            # Before 2026-07-28 a connection is subscribed to a resource or not, however many here listen to it.
            for uri in set(self.uris) - self._notices.uris:
                params = UnsubscribeRequestParams(uri=uri)
                await self._calls.plain("resources/unsubscribe", params, EmptyResult, timeout=_ACKNOWLEDGE)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while not self._changes:
            if self._over:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._changes.popleft()

    @property
    def uris(self) -> Sequence[str]:
        """The resources it wants to hear of."""
        return self._wanted.resource_subscriptions or ()

    # --- told by Notices ----------------------------------------------------------------------------------------

    def tell(self, change: Change) -> None:
        """Take one change, if it is wanted."""
        if self._wants(change):
            self._changes.append(change)
            self._news.set()

    def _wants(self, change: Change) -> bool:
        if change.kind == "resource":
            return change.uri in self.uris
        return bool(getattr(self._wanted, f"{change.kind}_list_changed"))

    def acknowledged(self, honoured: SubscriptionFilter) -> None:
        """Take note of what the server agreed to."""
        self.honoured = honoured
        self._ready.set()

    def end(self) -> None:
        """Let the iteration end once everything was read."""
        self._over = True
        self._news.set()

    def _stream_ended(self, stream: asyncio.Task[object]) -> None:
        if not stream.cancelled() and (error := stream.exception()) is not None:
            log.debug("a subscription has ended: %s", error)
        self.end()

    # --- both eras ----------------------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        for uri in self.uris:
            await self._calls.plain(
                "resources/subscribe", SubscribeRequestParams(uri=uri), EmptyResult, timeout=_ACKNOWLEDGE
            )

    async def _listen(self) -> None:
        session, peer = self._calls.session, self._calls.peer
        params = SubscriptionsListenRequestParams(notifications=self._wanted)
        outgoing = session.request(METHODS["subscriptions/listen"], params)
        self.subscription = outgoing.id
        self._stream = asyncio.get_running_loop().create_task(peer.request(outgoing))
        self._stream.add_done_callback(self._stream_ended)
        ready = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait({ready, self._stream}, timeout=_ACKNOWLEDGE, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._stream.done() and not self._ready.is_set():
            await self._stream
        if not self._ready.is_set():
            raise CallTimeout(f"The server did not acknowledge the subscription within {_ACKNOWLEDGE:g} s")
