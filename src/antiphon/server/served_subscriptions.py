"""Subscriptions to changes, and their notifications: legacy subscriptions and modern ``subscriptions/listen``.

Sources: 2025-11-25 server/resources, Subscriptions; 2026-07-28 basic/patterns/subscriptions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Literal, cast

from msgspec import Struct, structs

from antiphon.engine.connection import LATER, Connection, Later
from antiphon.errors import InvalidRequest
from antiphon.protocol.events import Request
from antiphon.protocol.server_offer import ServerOffer
from antiphon.protocol.server_session import ServerSession
from antiphon.server.features.checked_options import ServedFeature
from antiphon.server.features.uri_template import normalize_uri
from antiphon.wire.common import SUBSCRIPTION_ID, EmptyResult, Meta, NotificationParams, Wire
from antiphon.wire.lossless import Received
from antiphon.wire.methods import METHODS
from antiphon.wire.resources import ResourceUpdatedNotificationParams, SubscribeRequestParams, UnsubscribeRequestParams
from antiphon.wire.subscriptions import (
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)
from antiphon.wire.task import GetTaskResult

ListKind = Literal["tools", "prompts", "resources"]

MAX_SUBSCRIPTIONS = 1_000
"""Most resources one legacy connection may subscribe to, and most streams or URIs of a modern one."""

Peer = Connection[ServerSession]


class Subscriptions:
    """The listeners of one server."""

    def __init__(self) -> None:
        self._peers: dict[Peer, dict[str, None]] = {}
        """The resources that each legacy connection subscribes to: most to none, and an empty set takes three times the
        memory of an empty dictionary."""
        self._listening: dict[Request, tuple[Peer, SubscriptionFilter]] = {}
        self.on_end: Callable[[], object] | None = None
        """Called when a client has ended a subscription, or left."""
        self.mounted: list[Subscriptions] = []
        """Subscriptions of the servers that are mounted on this one."""
        self.outer: list[Subscriptions] = []
        """Subscriptions of the servers that this one is mounted on, which have the subscribers of its resources."""

    @property
    def uris(self) -> set[str]:
        """The resources with at least one subscriber."""
        streams = (wanted.resource_subscriptions or () for _, wanted in self._listening.values())
        return {uri for uris in (*self._peers.values(), *streams, *(each.uris for each in self.outer)) for uri in uris}

    def ended(self) -> None:
        """Note that a client of this server, or of one it is mounted on, has ended a subscription, or left."""
        if self.on_end is not None:
            self.on_end()
        for each in self.mounted:
            each.ended()

    @property
    def count(self) -> tuple[int, int]:
        """Return the number of connections and of open streams."""
        return len(self._peers), len(self._listening)

    def offer(self, offer: ServerOffer) -> None:
        """Update the offer of every connection, because features may be added after clients have connected."""
        for peer in self._peers:
            peer.session.offer(offer)

    def join(self, peer: Peer) -> None:
        """Add a connection."""
        self._peers[peer] = {}

    def leave(self, peer: Peer) -> None:
        """Remove a connection and all its subscriptions."""
        self._peers.pop(peer, None)
        for request in [request for request, (owner, _) in self._listening.items() if owner is peer]:
            del self._listening[request]
        self.ended()

    # --- legacy -------------------------------------------------------------------------------------------------

    def subscribe(self, request: Request, peer: Peer) -> EmptyResult:
        """Serve ``resources/subscribe``."""
        params: SubscribeRequestParams = request.params
        uris = self._peers.setdefault(peer, {})
        if len(uris) >= MAX_SUBSCRIPTIONS and params.uri not in uris:
            raise InvalidRequest(f"Too many subscriptions: {MAX_SUBSCRIPTIONS} are allowed")
        uris[params.uri] = None
        return EmptyResult()

    def unsubscribe(self, request: Request, peer: Peer) -> EmptyResult:
        """Serve ``resources/unsubscribe``."""
        params: UnsubscribeRequestParams = request.params
        self._peers.setdefault(peer, {}).pop(params.uri, None)
        self.ended()
        return EmptyResult()

    def of(self, peer: Peer) -> Collection[str]:
        """Return the resources that a legacy connection subscribes to."""
        return self._peers.get(peer, ())

    def restore(self, peer: Peer, uris: Collection[str]) -> None:
        """Restore the subscriptions that a connection's client has made in another process."""
        self._peers[peer] = dict.fromkeys(uris)
        for kind in ("tools", "prompts", "resources"):
            # This process may run newer code, which offers something else.
            if peer.ready.is_set() and getattr(peer.session.capabilities, kind) is not None:
                self._tell(peer, None, f"notifications/{kind}/list_changed", NotificationParams())

    # --- modern -------------------------------------------------------------------------------------------------

    def listen(self, request: Request, peer: Peer, granted: SubscriptionFilter | None = None) -> Later:
        """Serve ``subscriptions/listen`` for the ``granted`` part, or all, until either side ends it."""
        params: SubscriptionsListenRequestParams = request.params
        asked = params.notifications
        wanted = granted if granted is not None else asked
        count = len(asked.resource_subscriptions or ()) + len(asked.task_ids or ())
        streams = sum(owner is peer for owner, _ in self._listening.values())
        if streams >= MAX_SUBSCRIPTIONS or count > MAX_SUBSCRIPTIONS:
            raise InvalidRequest(f"Too many subscriptions: {MAX_SUBSCRIPTIONS} are allowed")
        self._listening[request] = (peer, wanted)
        request.on_cancel = lambda _reason: self._withdraw_work(request)
        acknowledgement = SubscriptionsAcknowledgedNotificationParams(notifications=wanted, meta=_make_tag(request))
        self._tell(peer, request, "notifications/subscriptions/acknowledged", acknowledgement)
        return LATER

    def listen_to_tasks(
        self, request: Request, peer: Peer, tasks: Mapping[str, GetTaskResult] | Mapping[str, Received]
    ) -> Later:
        """Serve ``subscriptions/listen`` for tasks: send the state of each that the client may see, now and later."""
        granted = structs.replace(request.params.notifications, task_ids=list(tasks))
        later = self.listen(request, peer, granted)
        for task in tasks.values():
            self.task_changed(task, request)
        return later

    def _withdraw_work(self, request: Request) -> None:
        self._listening.pop(request, None)
        self.ended()

    def close(self, peer: Peer) -> None:
        """End the streams of a connection, each with its result."""
        for request, (owner, _) in list(self._listening.items()):
            if owner is peer:
                del self._listening[request]
                peer.reply(request, SubscriptionsListenResult(meta=_make_tag(request)))

    # --- notifications ------------------------------------------------------------------------------------------

    def list_changed(self, kind: ListKind, whose: Sequence[Container[object]] | None) -> None:
        """Notify all subscribers, or those of them in any of the sets ``whose``, that a list has changed."""
        name, method = f"{kind}_list_changed", f"notifications/{kind}/list_changed"
        for peer in self._legacy():
            if whose is None or any(peer in each for each in whose):
                self._tell(peer, None, method, NotificationParams())
        for request, (peer, wanted) in list(self._listening.items()):
            if getattr(wanted, name) and (whose is None or any(peer in each for each in whose)):
                self._tell(peer, request, method, NotificationParams(meta=_make_tag(request)))

    def resource_updated(self, uri: str, clients: Container[object] | None = None) -> None:
        """Notify all subscribers of a resource, or those of them among ``clients``, that it has changed."""
        method = "notifications/resources/updated"
        for peer in self._legacy():
            if (named := _find_spelling(uri, self._peers[peer])) and (clients is None or peer in clients):
                self._tell(peer, None, method, ResourceUpdatedNotificationParams(uri=named))
        for request, (peer, wanted) in list(self._listening.items()):
            named = _find_spelling(uri, wanted.resource_subscriptions or ())
            if named and (clients is None or peer in clients):
                self._tell(peer, request, method, ResourceUpdatedNotificationParams(uri=named, meta=_make_tag(request)))

    def task_changed(self, task: GetTaskResult | Received, only: Request | None = None) -> None:
        """Send the state of a task to all its listeners, or to one; that of another server with all its members."""
        now: GetTaskResult = task.read if isinstance(task, Received) else task
        received = task if isinstance(task, Received) else None
        listening = self._listening.items() if only is None else [(only, self._listening[only])]
        for request, (peer, wanted) in list(listening):
            if now.task_id in (wanted.task_ids or ()):
                told = structs.replace(now, meta=_make_tag(request), result_type=None)
                self._tell(peer, request, "notifications/tasks", told, received)

    @property
    def tasks(self) -> set[str]:
        """The tasks with at least one listener."""
        return {id for _, wanted in self._listening.values() for id in wanted.task_ids or ()}

    def _legacy(self) -> Sequence[Peer]:
        return [peer for peer in self._peers if peer.ready.is_set() and not peer.is_over]

    def _tell(
        self, peer: Peer, request: Request | None, method: str, params: Wire, original: Received | None = None
    ) -> None:
        peer.send(peer.session.notify(METHODS[method], params, request, original), request)


class Changes:
    """Collects changes from any thread, and reports them on the event loop; several changes of one list as one."""

    def __init__(self, subscriptions: Subscriptions, offer: Callable[[], ServerOffer]) -> None:
        self._subscriptions = subscriptions
        self._offer = offer
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the server while it is open."""
        self._pending: dict[ListKind, list[Container[object]] | None] = {}
        """Lists that have changed, and for whom; ``None`` for all clients."""
        self._lock = threading.Lock()

    def open(self) -> None:
        """Report changes from now on, on the running loop."""
        with self._lock:
            self.loop = asyncio.get_running_loop()
            self._pending.clear()

    def close(self) -> None:
        """Report nothing more."""
        with self._lock:
            self.loop = None

    def list(self, kind: ListKind, clients: Container[object] | None = None) -> None:
        """Note that a list has changed, for these clients; for all by default."""
        with self._lock:
            if self.loop is None or self.loop.is_closed():
                return
            if not self._pending:
                self.loop.call_soon_threadsafe(self._tell)
            whose = self._pending.setdefault(kind, [])
            if clients is None:
                self._pending[kind] = None
            elif whose is not None and clients not in whose:
                whose.append(clients)

    def resource(self, uri: str, clients: Container[object] | None = None) -> None:
        """Note that a resource has changed, for these clients; for all by default."""
        with self._lock:
            if self.loop is not None and not self.loop.is_closed():
                self.loop.call_soon_threadsafe(self._subscriptions.resource_updated, uri, clients)

    def _tell(self) -> None:
        with self._lock:
            pending, self._pending = sorted(self._pending.items()), {}
        self._subscriptions.offer(self._offer())
        for kind, whose in pending:
            self._subscriptions.list_changed(kind, whose)


class Readers(Struct, eq=False):
    """The clients among some, or of all, from which a resource is not hidden."""

    _resource: ServedFeature
    _clients: Container[object] | None

    def __contains__(self, client: object) -> bool:
        is_meant = self._clients is None or client in self._clients
        return is_meant and not self._resource.is_hidden_from(cast("Peer", client).principal)


def _make_tag(request: Request) -> Meta:
    return {SUBSCRIPTION_ID: request.id}


def _find_spelling(uri: str, subscribed: Collection[str]) -> str | None:
    """Return a URI as it is subscribed to: as given, or percent-encoded; ``None`` if it is not."""
    return next((each for each in (uri, normalize_uri(uri)) if each in subscribed), None)
