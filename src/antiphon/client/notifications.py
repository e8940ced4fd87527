"""Notifications of the server: log messages and changes, in both eras.

Owns the distribution to listeners. A modern client listens (``subscriptions/listen``); a legacy one subscribes to
resources and receives the other notifications anyway. Also caches results for as long as the server allows, until a
change is notified; a cache belongs to one client, so ``private`` and ``public`` make no difference. Sources: 2026-07-28
server/utilities/caching; 2026-07-28 basic/patterns/subscriptions; 2025-11-25 server/resources, Subscriptions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Literal, Protocol, Self, runtime_checkable

from msgspec import Struct

from antiphon.client.answers.answerers import Extension
from antiphon.client.client_middleware import ClientMiddlewareStack, ClientRequest
from antiphon.client.requests.request_calls import Calls
from antiphon.engine.reader import await_safely
from antiphon.errors import AntiphonError, CallTimeout, LocalProtocolError, PeerError
from antiphon.machine.asyncio_tasks import end_tasks, start_in
from antiphon.machine.call_time import TimeLeft
from antiphon.protocol.events import Notified
from antiphon.wire import subscriptions
from antiphon.wire.common import SUBSCRIPTION_ID, CacheableResult, EmptyResult, NotificationParams
from antiphon.wire.envelope import RequestId
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.lossless import Received, relay_object
from antiphon.wire.methods import METHODS
from antiphon.wire.resources import ResourceUpdatedNotificationParams, SubscribeRequestParams, UnsubscribeRequestParams
from antiphon.wire.task import GetTaskResult

log = logging.getLogger("antiphon.client")

OnLog = Callable[[LoggingMessageNotificationParams], object]
"""Called with each log message; may be a coroutine function."""

_LISTS: dict[str, tuple[Literal["tools", "prompts", "resources"], tuple[str, ...]]] = {
    "notifications/tools/list_changed": ("tools", ("tools/list",)),
    "notifications/prompts/list_changed": ("prompts", ("prompts/list",)),
    "notifications/resources/list_changed": ("resources", ("resources/list", "resources/templates/list")),
}


@runtime_checkable
class ForwardsLog(Protocol):
    """A receiver of log messages that passes them on to another peer, with all their members."""

    def __call__(self, params: LoggingMessageNotificationParams, /) -> object:
        """Take a message."""

    def forward(self, message: Received) -> object:
        """Take a message, decoded and as it came; may be a coroutine function."""


class Change(Struct, frozen=True, kw_only=True):
    """A change on the server: of a list, or of the resource ``uri``."""

    kind: Literal["tools", "prompts", "resources", "resource"]
    uri: str | None = None


class ClientNotices:
    """The notifications that one client receives."""

    def __init__(self, on_log: OnLog | None, extension: Extension | None = None) -> None:
        self._extension = extension
        self.cache: Cache | None = None
        self.on_tools_changed: Callable[[], object] | None = None
        self._tasks: dict[str, list[asyncio.Event]] = {}
        """For each followed task, by its id, the events to set when the server says that the task has changed."""
        self._on_log = on_log
        self._listening: list[Listening] = []
        self.leaving: set[asyncio.Task[None]] = set()
        """Unsubscribe from resources; the end of the connection ends them."""

    def add(self, listening: Listening) -> None:
        """Send changes to a listener from now on."""
        self._listening.append(listening)

    @contextlib.contextmanager
    def of_task(self, id: str, news: asyncio.Event) -> Generator[None]:
        """Have an event set whenever the server says that a task has changed."""
        following = self._tasks.setdefault(id, [])
        following.append(news)
        try:
            yield
        finally:
            following.remove(news)
            if not following:
                del self._tasks[id]

    def remove(self, listening: Listening) -> None:
        """Stop sending changes to a listener."""
        if listening in self._listening:
            self._listening.remove(listening)

    @property
    def uris(self) -> set[str]:
        """The resources that listeners subscribed to."""
        return {uri for listening in self._listening for uri in listening.uris}

    def take(self, _peer: object, event: Notified) -> object:
        """Handle one notification; return what a callback returned, to be awaited if it is a coroutine."""
        params = event.params
        if isinstance(params, LoggingMessageNotificationParams):
            return self._log(params, event)
        if isinstance(params, subscriptions.SubscriptionsAcknowledgedNotificationParams):
            self._acknowledge_changes(params)
        elif isinstance(params, ResourceUpdatedNotificationParams):
            self._forget("resources/read", subject=params.uri)
            self._tell(Change(kind="resource", uri=params.uri), params)
        elif isinstance(params, GetTaskResult):
            for news in self._tasks.get(params.task_id, ()):
                news.set()
        elif self._extension is not None and (
            event.method.name not in METHODS or event.method.name == "notifications/elicitation/complete"
        ):
            return self._extension.notified(event.method.name, relay_object(event.raw, params))
        elif event.method.name in _LISTS:
            kind, methods = _LISTS[event.method.name]
            self._forget(*methods)
            if kind == "tools" and self.on_tools_changed is not None:
                self.on_tools_changed()
            self._tell(Change(kind=kind), params)
        return None

    def _log(self, params: LoggingMessageNotificationParams, event: Notified) -> object:
        if isinstance(self._on_log, ForwardsLog):
            return self._on_log.forward(relay_object(event.raw, params))
        if self._on_log is not None:
            return self._on_log(params)
        log.debug("server log [%s] %s", params.level, params.logger or "")
        return None

    def _forget(self, *methods: str, subject: str | None = None) -> None:
        if self.cache is not None:
            self.cache.drop(*methods, subject=subject)

    def _acknowledge_changes(self, params: subscriptions.SubscriptionsAcknowledgedNotificationParams) -> None:
        for listening in self._listening:
            if listening.subscription is not None and listening.subscription == _get_tag(params):
                listening.acknowledged(params.notifications)

    def _tell(self, change: Change, params: NotificationParams) -> None:
        tag = _get_tag(params)
        for listening in self._listening:
            if tag is None or tag == listening.subscription:
                listening.tell(change)

    def ended(self, _peer: object) -> None:
        """Tell every listener that no more changes will come."""
        for listening in list(self._listening):
            listening.end()


def _get_tag(params: NotificationParams) -> object:
    return (params.meta or {}).get(SUBSCRIPTION_ID)


MAX_WAITING = 1_000
"""Most changes kept for a slow reader. The oldest are dropped first, since a change only says that something must be
read again."""

_ACKNOWLEDGE = 10.0
"""Seconds a server has to acknowledge a subscription."""


class Listening:
    """Changes, as an async iterator. Enter it before the first change matters, and leave it to stop."""

    def __init__(
        self,
        calls: Calls,
        notices: ClientNotices,
        wanted: subscriptions.SubscriptionFilter,
        middleware: ClientMiddlewareStack | None = None,
    ) -> None:
        self._middleware = middleware or ClientMiddlewareStack(())
        self.honoured: subscriptions.SubscriptionFilter = wanted
        """What the server agreed to send."""
        self.subscription: RequestId | None = None
        """Id of the subscription; ``None`` in revisions without one."""
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
            if not self._calls.is_modern:
                await self._subscribe()
            else:
                params = subscriptions.SubscriptionsListenRequestParams(notifications=self._wanted)
                sent = ClientRequest("subscriptions/listen", params)
                await self._middleware.run(sent, lambda passed: self._listen(passed.params))
                if self._stream is None:
                    # The request was never sent, so no notification can arrive.
                    self.end()
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
            await end_tasks(self._stream)
        elif not self._calls.peer.is_over:
            await asyncio.wait((self._unsubscribe(self.uris),))

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
        """The resources it subscribes to."""
        return self._wanted.resource_subscriptions or ()

    # --- called by Notices --------------------------------------------------------------------------------------

    def tell(self, change: Change) -> None:
        """Add one change, if it was subscribed to.

        Args:
            change: what changed.
        """
        is_resource = change.kind == "resource"
        if change.uri in self.uris if is_resource else getattr(self._wanted, f"{change.kind}_list_changed"):
            self._changes.append(change)
            self._news.set()

    def acknowledged(self, honoured: subscriptions.SubscriptionFilter) -> None:
        """Note what the server agreed to send.

        Args:
            honoured: the part of the subscription that it accepted.
        """
        self.honoured = honoured
        self._ready.set()

    def end(self) -> None:
        """End the iteration after the changes that are already here."""
        self._over = True
        self._news.set()

    def _stream_ended(self, stream: asyncio.Task[object]) -> None:
        if not stream.cancelled() and (error := stream.exception()) is not None:
            log.debug("a subscription has ended: %s", error)
        self.end()

    # --- both eras ----------------------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        for at, uri in enumerate(self.uris):
            try:
                await self._plain("resources/subscribe", SubscribeRequestParams(uri=uri))
            except BaseException as error:
                self._notices.remove(self)
                # Without a refusal the last one may have been made, too.
                leaving = self._unsubscribe(self.uris[: at if isinstance(error, PeerError) else at + 1])
                if isinstance(error, AntiphonError):
                    await asyncio.wait((leaving,))
                raise

    def _unsubscribe(self, uris: Sequence[str]) -> asyncio.Task[None]:
        """Unsubscribe in a task of its own, so that the server hears of it although the caller is cancelled."""
        return start_in(self._notices.leaving, await_safely(self._leave(uris)))

    async def _leave(self, uris: Sequence[str]) -> None:
        for uri in dict.fromkeys(uris):
            # Before 2026-07-28 the whole connection is subscribed to a resource, however many listeners it has here.
            if uri in self._notices.uris:
                continue
            try:
                await self._plain("resources/unsubscribe", UnsubscribeRequestParams(uri=uri))
            except AntiphonError as error:
                # A listener that has left drops what still comes.
                log.debug("the server goes on with the subscription to a resource: %s", error)

    async def _plain(self, method: str, params: SubscribeRequestParams | UnsubscribeRequestParams) -> None:
        await self._middleware.run(
            ClientRequest(method, params),
            lambda passed: self._calls.plain(method, passed.params, EmptyResult, timeout=TimeLeft(_ACKNOWLEDGE)),
        )

    async def _listen(self, params: subscriptions.SubscriptionsListenRequestParams) -> None:
        session, peer = self._calls.session, self._calls.peer
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


MAX_ENTRIES = 1_000
"""Most results; the oldest is dropped first."""

MAX_TTL_MS = 24 * 3_600_000
"""Longest time a result is kept, whatever the server allows: a day."""

Key = tuple[str, str]


class Cache:
    """Results by method and subject. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[Key, tuple[float, CacheableResult]] = {}

    def get(self, method: str, subject: str) -> CacheableResult | None:
        """Return a result that is still valid, or ``None``."""
        kept = self._kept.get((method, subject))
        if kept is None:
            return None
        if kept[0] <= self._clock():
            del self._kept[method, subject]
            return None
        return kept[1]

    def put(self, method: str, subject: str, result: CacheableResult) -> None:
        """Keep a result for its ``ttl_ms``; without one, or with 0, it is not kept."""
        ttl = min(result.ttl_ms or 0, MAX_TTL_MS)
        if ttl <= 0:
            return
        while len(self._kept) >= MAX_ENTRIES:
            del self._kept[next(iter(self._kept))]
        self._kept[method, subject] = (self._clock() + ttl / 1000, result)

    def clear(self) -> None:
        """Drop all results."""
        self._kept.clear()

    def drop(self, *methods: str, subject: str | None = None) -> None:
        """Drop the results of some methods, or only those about one subject."""
        for key in [key for key in self._kept if key[0] in methods and subject in (None, key[1])]:
            del self._kept[key]
