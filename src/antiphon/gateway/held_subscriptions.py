"""Subscriptions to resources behind a gateway, held as long as any client subscribes, in the form of the server's era.

Each resource is subscribed to once for all clients of a group. Its changes go to ``Server.resource_updated``, which
knows the clients. Sources: 2025-11-25 server/resources, Subscriptions; 2026-07-28 basic/patterns/subscriptions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

from antiphon.errors import AntiphonError, InternalError, InvalidRequest, PeerError
from antiphon.gateway.upstream import Upstream, UpstreamUnavailable
from antiphon.machine.asyncio_tasks import end_tasks

MAX_WATCHED = 1_000
"""Most resources that are subscribed to for the clients of one group; as many as one client may subscribe to."""

_AGAIN = 5.0
"""Seconds until the gateway subscribes again after a server has ended, or has ended the subscription."""


class _Watch:
    """The subscription to one resource."""

    def __init__(self, task: asyncio.Task[None], begun: asyncio.Future[None]) -> None:
        self.task = task
        self.begun = begun
        self.holds = 0
        """Number of requests that are about to subscribe to it."""


class Watches:
    """The resources that the clients of one group subscribe to.

    ``find``: returns the server that a resource is read from; raises ``ResourceNotFound``. ``told``: called with the
    URI of a resource that has changed.
    """

    def __init__(self, find: Callable[[str], Awaitable[Upstream]], told: Callable[[str], object]) -> None:
        self._find = find
        self._told = told
        self._watches: dict[str, _Watch] = {}

    @property
    def uris(self) -> Collection[str]:
        """The URIs of the resources that are subscribed to."""
        return self._watches.keys()

    @asynccontextmanager
    async def hold_subscription(self, uri: str) -> AsyncGenerator[None]:
        """Subscribe to a resource, and keep the subscription until a client's request for it is served.

        Raises:
            ResourceNotFound: no server has it.
            InvalidRequest: too many resources are subscribed to.
            PeerError: its server refused, or cannot be used.
        """
        watch = self._watches.get(uri)
        if watch is None:
            if len(self._watches) >= MAX_WATCHED:
                raise InvalidRequest(f"Too many subscriptions: {MAX_WATCHED} are allowed")
            await self._find(uri)
            watch = self._watches.get(uri) or self._begin(uri)
        watch.holds += 1
        try:
            await asyncio.shield(watch.begun)
            yield
        except UpstreamUnavailable as error:
            raise InternalError(str(error)) from None
        except PeerError as error:
            raise PeerError(error.message, code=error.code, data=error.data) if error.remote else error from None
        finally:
            watch.holds -= 1

    def keep(self, uris: Collection[str]) -> None:
        """End the subscriptions to all resources but these."""
        for uri, watch in list(self._watches.items()):
            if uri not in uris and not watch.holds:
                del self._watches[uri]
                watch.task.cancel()

    async def close(self) -> None:
        """End all subscriptions."""
        tasks = [watch.task for watch in self._watches.values()]
        self._watches.clear()
        await end_tasks(*tasks)

    def _begin(self, uri: str) -> _Watch:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        watch = self._watches[uri] = _Watch(loop.create_task(self._watch(uri, begun)), begun)
        watch.task.add_done_callback(lambda _task: self._drop_watch(uri, watch))
        return watch

    def _drop_watch(self, uri: str, watch: _Watch) -> None:
        if self._watches.get(uri) is watch:
            del self._watches[uri]
        if not watch.begun.done():
            watch.begun.cancel()
        elif not watch.begun.cancelled():
            # Retrieve the error, so that asyncio does not report it if nobody waits any more.
            watch.begun.exception()

    async def _watch(self, uri: str, begun: asyncio.Future[None]) -> None:
        while True:
            try:
                await self._listen(uri, begun)
            except AntiphonError as error:
                if not begun.done():
                    begun.set_exception(error)
                    return
            await asyncio.sleep(_AGAIN)

    async def _listen(self, uri: str, begun: asyncio.Future[None]) -> None:
        server = await self._find(uri)
        async with server.running() as client, client.listen(uris=[uri]) as changes:
            if uri not in (changes.honoured.resource_subscriptions or ()):
                raise InvalidRequest(f"The server {server.name!r} reports no changes of {uri}")
            if begun.done():
                # It may have changed while there was no subscription.
                self._told(uri)
            else:
                begun.set_result(None)
            async for _ in changes:
                self._told(uri)
