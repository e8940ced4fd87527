"""``Service``: a running server. Opens a connection for every client, and owns what all of them share.

Owns the lifespan, the offer, the subscriptions and the rounds of a server. ``app`` has the author's options,
``handlers`` serves requests, ``run`` and ``network`` start transports.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Container, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import structs

from antiphon.channel import Channel
from antiphon.engine.connection import Connection
from antiphon.errors import ConfigError, LocalProtocolError, NotInRevision
from antiphon.machine.asyncio_tasks import end_tasks, start_in
from antiphon.protocol.caller import Caller
from antiphon.protocol.events import Notified
from antiphon.protocol.server_offer import ServerOffer
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import read_reply
from antiphon.server.calls.server_rounds import RoundOptions, ServerRounds
from antiphon.server.core import Core, Extension
from antiphon.server.handlers import Handlers
from antiphon.server.listing import make_lists
from antiphon.server.mounts import Mount, Mounts
from antiphon.server.served_subscriptions import Changes, ListKind, Readers, Subscriptions
from antiphon.server.server_middleware import Middleware, ServerMiddlewareStack
from antiphon.server.state.request_state import Seal, check_encryption
from antiphon.telemetry import find_current_telemetry
from antiphon.wire.common import ClientCapabilities, RequestParams
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.lossless import Received, passed_on
from antiphon.wire.methods import METHODS, unknown_notification
from antiphon.wire.tools import Tool

if TYPE_CHECKING:
    from antiphon.engine.request_telemetry import ConnectionWatch
    from antiphon.protocol.caller import Covers
    from antiphon.replicas.engines.base import Cluster
    from antiphon.replicas.replica_server import Replicas
    from antiphon.server.tasks.served_tasks import ServedTasks
    from antiphon.server.tasks.task_requests import TaskRequests
    from antiphon.server.tasks.task_store import TaskOptions
    from antiphon.server.tasks.task_worker import TaskWorker
    from antiphon.transports.http.server.routes import Routes

log = logging.getLogger("antiphon.server")

_ROOTS = 60.0
"""Seconds within which a client must list its roots, for which no person is needed."""

_RECORDED_FOR = 3_600.0
"""Seconds for which records of a legacy call are kept; a stream can be resumed for half an hour."""

_GRACE = 2.0
"""Seconds that running handlers have to finish after a client has ended its side, for the last answers of a piped
script."""


class Service:
    """Serves clients, each over a channel of its own.

    ``core``: the server, as seen by its calls.
    ``offer``: returns what is offered now; called whenever it may have changed.
    ``lifespan``: makes the context manager that is entered for the first client and left after the last, or ``None``.
    ``page_size``: most entries in one page of a list.
    ``seal``, ``rounds``: how calls that ask continue from request to request (2026-07-28).
    ``tasks``: where tasks are kept, how long and how many; ``None`` for the defaults.
    ``cluster``: what it shares with other processes, if there are any.
    """

    def __init__(
        self,
        core: Core,
        offer: Callable[[], ServerOffer],
        *,
        lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None,
        page_size: int,
        seal: Seal,
        rounds: RoundOptions,
        tasks: TaskOptions | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self.core = core
        self.subscriptions = Subscriptions()
        self.changes = Changes(self.subscriptions, offer)
        self.rounds = ServerRounds(core, seal, rounds)
        self._offer = offer
        self._lifespan = lifespan
        self._middleware = ServerMiddlewareStack()
        self._mounts = Mounts(core)
        lists = make_lists(core, page_size, self._mounts)
        self._task_options = tasks
        self._worker: TaskWorker | None = None
        self._functions = Handlers(core, lists, self.subscriptions, self.rounds, self._middleware, self._mounts)
        self._functions.task_requests = lambda: self._task_requests
        core.definition_of = self._functions.definition_of
        self.rounds.tasks = lambda: self.tasks
        self._handlers = self._functions.table()
        self._mounted: list[Service] = []
        """The servers that are mounted on this one, in the order of mounting."""
        self._outer: list[Service] = []
        """The servers that this one is mounted on."""
        self._mounting: set[asyncio.Task[None]] = set()
        """Mounts made while the server is open, whose lifespans are being entered."""
        self._entered = AsyncExitStack()
        """Left when the server closes: its lifespan, and its mounted servers."""
        self.routes: Routes | None = None
        """The pages beside the endpoint, if there are any."""
        self._is_open = False
        self._keeps_tasks = tasks is not None and tasks.store is not None and tasks.store.shared
        self._seal = seal
        self.on_notice: Callable[[str, str], object] | None = None
        """Called with each change of which clients of other processes are notified, too: ``resource`` and its URI, or a
        list."""
        self.replicas = None if cluster is None else _join_cluster(cluster, self, seal)
        """The other processes that serve the same sessions, if there are any."""
        self._users = 0
        self._adding = threading.Lock()
        self._gate: tuple[asyncio.AbstractEventLoop | None, asyncio.Lock] = None, asyncio.Lock()
        features = core.features
        features.tools.on_change(lambda: self._notify_everywhere("tools"))
        features.prompts.on_change(lambda: self._notify_everywhere("prompts"))
        features.resources.on_change(lambda: self._notify_everywhere("resources"))
        features.templates.on_change(lambda: self._notify_everywhere("resources"))

    def use(self, middleware: Middleware) -> None:
        """Put a function around the requests of every connection that is opened from now on."""
        self._middleware.add(middleware)
        self._handlers = self._functions.table()
        self.refresh()

    def refresh(self) -> None:
        """Find out again which mounted servers may answer by middleware, here and on outer servers."""
        self._mounts.refresh()
        for outer in self._outer:
            outer.refresh()

    def definition_of(self, name: str, principal: str | None = None) -> Tool | None:
        """Return the definition of a tool, also of one that middleware serves; ``None`` if it is not known."""
        return self._functions.definition_of(name, principal)

    def list_changed(self, kind: ListKind, clients: Container[object] | None = None) -> None:
        """Notify the clients of this server, and of those it is mounted on, that a list has changed.

        ``clients``: the clients of this process to notify; by default all, in all processes.
        """
        self.changes.list(kind, clients)
        if self.on_notice is not None and clients is None:
            self.on_notice(kind, "")
        for outer in self._outer:
            outer.list_changed(kind, clients)

    def resource_updated(self, uri: str, clients: Container[object] | None = None) -> None:
        """Notify clients that a resource has changed; see ``list_changed``."""
        self.changes.resource(uri, self._list_readers(uri, clients))
        if self.on_notice is not None and clients is None:
            self.on_notice("resource", uri)
        for outer in self._outer:
            outer.resource_updated(uri, clients)

    def _list_readers(self, uri: str, clients: Container[object] | None) -> Container[object] | None:
        """Return which of these clients may hear of a resource; ``None`` if all may."""
        found = self.core.resource(uri)
        return clients if found is None or found.visible is None else Readers(found, clients)

    def noticed(self, kind: str, uri: str) -> None:
        """Notify the clients of this process of a change in another process."""
        if kind == "resource":
            self.changes.resource(uri, self._list_readers(uri, None))
        elif kind in ("tools", "prompts", "resources"):
            self.changes.list(kind)

    # --- several processes --------------------------------------------------------------------------------------

    def share(self, key: bytes) -> None:
        """Seal with a key that other processes also have, unless the server was given keys of its own."""
        self._seal.share(key)
        self.rounds.is_shared = True
        for other in self._mounted:
            other.share(key)

    def join(self, cluster: Cluster) -> None:
        """Share sessions and notices with other processes. Call it before the server is opened."""
        self.replicas = _join_cluster(cluster, self, self._seal)

    @property
    def joins_processes(self) -> bool:
        """Whether its sessions may be reached from other processes, by its cluster or by that of its workers."""
        return self.replicas is None or self.replicas.cluster.joins_processes

    def connect_endpoint(self, options: dict[str, Any], covers: Covers | None) -> None:
        """Complete the options of an endpoint with what it shares with those of other processes, if there are any."""
        if self.replicas is not None:
            self.replicas.connect_endpoint(options, covers)

    # --- tasks --------------------------------------------------------------------------------------------------

    @cached_property
    def tasks(self) -> ServedTasks:
        """The tasks of this server; made when they are first wanted, since most servers never have one."""
        from antiphon.server.tasks.served_tasks import ServedTasks
        from antiphon.server.tasks.task_store import TaskOptions

        return ServedTasks(
            self.core,
            self._seal,
            self._offer,
            options=self._task_options or TaskOptions(),
            find=lambda request, peer: self._functions.target(request.params, request, peer),
            tell=self.subscriptions.task_changed,
            listened=lambda: self.subscriptions.tasks,
        )

    @cached_property
    def _task_requests(self) -> TaskRequests:
        from antiphon.server.tasks.task_requests import TaskRequests

        return TaskRequests(self.tasks, self.subscriptions)

    @property
    def _has_task_tools(self) -> bool:
        return any(tool.task != "never" for tool in self.core.features.tools)

    @property
    def keeps_tasks_in_memory(self) -> bool:
        """Whether calls may become tasks that other processes cannot find."""
        return not self._keeps_tasks and self._has_task_tools

    def _open_tasks(self) -> None:
        if not self._keeps_tasks and not self._has_task_tools and "tasks" not in vars(self):
            # No call can become a task, and no earlier process has left any.
            return
        from antiphon.server.tasks.task_worker import TaskWorker

        self.tasks.closed = False
        if self._keeps_tasks or self._has_task_tools:
            self._worker = TaskWorker(self.tasks)
            self._worker.start()

    def _notify_everywhere(self, kind: ListKind) -> None:
        """Notify the clients of all processes that a feature was added or removed, if the server is open."""
        self.changes.list(kind)
        if self.on_notice is not None and self.changes.loop is not None:
            self.on_notice(kind, "")

    # --- open and closed ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Hold the server open: the lifespan is entered with the first user and left with the last."""
        gate = self._add_user()
        try:
            async with gate:
                if not self._is_open:
                    await self._open()
            yield
        finally:
            try:
                async with gate:
                    if self._users == 1 and self._is_open:
                        await self._close()
            finally:
                self._users -= 1

    def _add_user(self) -> asyncio.Lock:
        """Count a user, and return the lock for opening and closing.

        All users are on one event loop at a time, unless there is nothing that has to be opened.
        """
        loop = asyncio.get_running_loop()
        with self._adding:
            open_on, gate = self._gate
            is_elsewhere = self._users and open_on is not loop and open_on is not None and not open_on.is_closed()
            if is_elsewhere and (
                self.replicas or self._lifespan or self._mounted or self._keeps_tasks or self._has_task_tools
            ):
                raise LocalProtocolError(f"{self.core.name!r} is open on another event loop: make a server for each")
            if open_on is not loop:
                self._gate = loop, (gate := asyncio.Lock())
            self._users += 1
        return gate

    async def _open(self) -> None:
        async with AsyncExitStack() as entered:
            if self.replicas is not None:
                await entered.enter_async_context(self.replicas.joined())
            if self._lifespan is not None:
                held = Held(self._lifespan())
                self.core.state = await held.enter()
                entered.push_async_callback(self._leave, held)
            for other in self._mounted:
                await entered.enter_async_context(self._serving_mounted(other))
            self._entered = entered.pop_all()
        self.rounds.closed = False
        self.changes.open()
        self._open_tasks()
        self._is_open = True

    async def _close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop()
        if "tasks" in vars(self):
            await self.tasks.close()
        running = self.rounds.close()
        if running:
            await asyncio.wait(running, timeout=_GRACE)
        self.changes.close()
        self._is_open = False
        await end_tasks(*self._mounting)
        # In the opposite order of entering.
        await self._entered.aclose()

    async def _leave(self, held: Held) -> None:
        try:
            await held.leave()
        finally:
            self.core.state = None

    # --- mounted servers ----------------------------------------------------------------------------------------

    def mount(self, other: Service, prefix: str | None) -> None:
        """Offer everything that another server offers. See ``Server.mount``."""
        mount = Mount(prefix, other.core, other._functions)
        if self in other.all_mounted():
            raise ConfigError(f"the server {self.core.name!r} cannot be mounted on itself")
        if other in self._mounted:
            raise ConfigError(f"the server {other.core.name!r} is mounted on {self.core.name!r} already")
        include = mount.include_in(self.core)
        loop = self.changes.loop
        if loop is None:
            self._mount(mount, other, include)
        else:
            loop.call_soon_threadsafe(lambda: start_in(self._mounting, self._mount_live(mount, other)))

    def all_mounted(self) -> Iterator[Service]:
        """Iterate over this server, and all that are mounted on it or on one of these."""
        yield self
        for other in self._mounted:
            yield from other.all_mounted()

    def _mount(self, mount: Mount, other: Service, include: Callable[[], None]) -> None:
        self._mounted.append(other)
        other._outer.append(self)
        self.subscriptions.mounted.append(other.subscriptions)
        other.subscriptions.outer.append(self.subscriptions)
        self._mounts.add(mount)
        include()
        self.refresh()

    async def _mount_live(self, mount: Mount, other: Service) -> None:
        """Enter the lifespan of a server that is mounted on an open one, and only then offer its features."""
        try:
            async with AsyncExitStack() as entered:
                await entered.enter_async_context(self._serving_mounted(other))
                self._mount(mount, other, mount.include_in(self.core))
                self._entered.push_async_exit(entered.pop_all())
        except Exception:
            log.exception("the server %r could not be mounted on %r", other.core.name, self.core.name)

    @asynccontextmanager
    async def _serving_mounted(self, other: Service) -> AsyncGenerator[None]:
        """Hold a mounted server open; an error of its lifespan names both servers."""
        serving = other.serving()
        with self._saying_whose(other):
            await serving.__aenter__()
        try:
            yield
        finally:
            with self._saying_whose(other):
                await serving.__aexit__(None, None, None)

    @contextmanager
    def _saying_whose(self, other: Service) -> Generator[None]:
        try:
            yield
        except Exception as error:
            error.add_note(f"in the lifespan of the server {other.core.name!r}, mounted on {self.core.name!r}")
            raise

    # --- clients ------------------------------------------------------------------------------------------------

    def connect(
        self,
        channel: Channel,
        *,
        principal: str | None = None,
        headers: Mapping[str, str] | None = None,
        caller: Caller | None = None,
        assumed: str | None = None,
    ) -> Connection[ServerSession]:
        """Open a connection to one client; the caller starts, awaits and closes it, inside ``serving``.

        ``principal``: the client's verified principal; ``headers``: headers of the transport's request, if it has any;
            ``caller``: the verified caller, if one token counts for all messages of the connection; ``assumed``: name
            of the legacy revision of its messages, if no session is kept.
        """
        offer = self._offer()
        session = ServerSession(offer, None if assumed is None else offer.assumed(assumed))
        if self.core.extension is not None:
            session.offered_to = partial(self._make_offer_for, self.core.extension, principal)
        told: ConnectionWatch | None = None
        if find_current_telemetry() is not None:
            # Imported only where telemetry is configured.
            from antiphon.engine.request_telemetry import make_watch

            told = make_watch(channel, over=None if headers is None else "tcp", knows=self.core.has)
        peer = Connection(channel, session, told.serving(self._handlers) if told else self._handlers, grace=_GRACE)
        if told is not None:
            peer.watch, session.carries = told, told.carries
        peer.on_notified = self._notify_clients
        peer.on_close = self.subscriptions.close
        peer.on_end = self._forget_connection
        peer.principal, peer.caller = principal, caller
        # Standard input and memory have no headers: the client has started this process, or runs in it.
        peer.is_local = headers is None and principal is None
        peer.headers = headers or {}
        self.subscriptions.join(peer)
        return peer

    async def serve(
        self,
        channel: Channel,
        *,
        principal: str | None = None,
        headers: Mapping[str, str] | None = None,
        caller: Caller | None = None,
    ) -> None:
        """Serve one client over a channel until it ends. See ``connect`` for the arguments."""
        async with self.serving():
            peer = self.connect(channel, principal=principal, headers=headers, caller=caller)
            peer.start()
            try:
                await peer.wait_ended()
            finally:
                await peer.close()

    def _make_offer_for(
        self, extension: Extension, principal: str | None, client: ClientCapabilities | None
    ) -> ServerOffer:
        """Return what is offered to one client, with what the extension declares to it."""
        own, more = self._offer(), extension.capabilities(principal, client)
        if not more.extensions and not more.experimental:
            return own
        has = own.capabilities
        both = structs.replace(
            has,
            extensions={**(has.extensions or {}), **(more.extensions or {})} or None,
            experimental={**(has.experimental or {}), **(more.experimental or {})} or None,
        )
        return ServerOffer(own.info, both, own.instructions, tuple(own.revisions.values()), passes_on=True)

    def _notify_clients(self, peer: Connection[ServerSession], event: Notified) -> object:
        method = event.method.name
        if method == "notifications/initialized":
            peer.ready.set()
        elif self.core.extension is not None:
            return self.core.extension.notified(peer, method, Received(passed_on(event.raw), event.params))
        return None

    def notify(self, client: object, method: str, params: Received) -> bool:
        """Send one client a notification outside of any request. See ``Server.notify``."""
        if not isinstance(client, Connection) or client.is_over or not client.ready.is_set():
            return False
        peer = cast("Connection[ServerSession]", client)
        try:
            if isinstance(params.read, LoggingMessageNotificationParams):
                data = peer.session.log(params.read, None, params)
            else:
                spec = METHODS.get(method) or unknown_notification(method)
                data = peer.session.notify(spec, params.read, None, params)
        except NotInRevision:
            return False
        if data is not None:
            peer.send(data)
        return data is not None

    async def list_roots(self, client: object) -> Received:
        """Ask one client for its roots, outside of any request. See ``Server.list_roots``."""
        if not isinstance(client, Connection) or not client.ready.is_set():
            raise NotInRevision("this client is asked for its roots within its requests only")
        peer, spec = cast("Connection[ServerSession]", client), METHODS["roots/list"]
        reply = await peer.request(peer.session.ask(spec, RequestParams(), None), timeout=_ROOTS)
        return Received(passed_on(reply), read_reply(reply, spec))

    def _forget_connection(self, peer: Connection[ServerSession]) -> None:
        self.subscriptions.leave(peer)
        self.core.forget(peer)


def _join_cluster(cluster: Cluster, service: Service, seal: Seal) -> Replicas:
    """Join a server to its cluster. The modules are imported only for servers with one."""
    from antiphon.replicas.replica_server import Replicas
    from antiphon.server.calls.replayed_call import StoredCalls

    check_encryption("a server of several processes")
    found = Replicas(cluster, service.core.name, seal, service.subscriptions, service.share, service.noticed)
    service.on_notice = found.tell
    service.rounds.own_process = lambda: cluster.replica
    service.rounds.legacy_calls = StoredCalls(cluster, seal, _RECORDED_FOR)
    limiter = service.core.share_rate()
    if limiter is not None:
        found.tallies.add("tool calls", limiter.untold, limiter.charge)
    return found


class Held:
    """A lifespan that was entered, until it is left."""

    def __init__(self, lifespan: AbstractAsyncContextManager[Any]) -> None:
        if not hasattr(lifespan, "__aenter__"):
            raise ConfigError(
                f"lifespan= gave a {type(lifespan).__name__} and no async context manager: decorate the function with "
                "contextlib.asynccontextmanager"
            )
        loop = asyncio.get_running_loop()
        self._entered: asyncio.Future[Any] = loop.create_future()
        self._leave = asyncio.Event()
        self._task = loop.create_task(self._hold(lifespan))

    async def _hold(self, lifespan: AbstractAsyncContextManager[Any]) -> None:
        async with lifespan as state:
            self._entered.set_result(state)
            await self._leave.wait()

    async def enter(self) -> Any:
        """Return what the lifespan yields, or raise what it raises. Cancelling this ends it."""
        try:
            await asyncio.wait((self._entered, self._task), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await end_tasks(self._task)
            raise
        if not self._entered.done():
            self._entered.cancel()
            self._task.result()
        return self._entered.result()

    async def leave(self) -> None:
        """Leave the lifespan; raise what it raises."""
        self._leave.set()
        await asyncio.shield(self._task)
