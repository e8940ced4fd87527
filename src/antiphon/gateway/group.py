"""A group: the servers behind a gateway for one principal. It lists them, starts them, and finds them by name.

No process of a server is shared by two principals. If asks are relayed, clients with different capabilities have
different groups as well, because the capabilities of the client are declared to the servers.

Messages of extensions are passed on without knowing the extension: a method names neither the extension nor the server,
so a request goes to the server that declares an extension with the method's name; if there are several, to the one with
the tool, prompt or resource that the request names. A resource is subscribed to once for all clients, as long as any
subscribes, in the form of the server's era (2025-11-25 server/resources; 2026-07-28 basic/patterns/subscriptions).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import TypeVar

from msgspec import Raw, Struct, structs

from antiphon import errors
from antiphon.client.connection.targets import Target
from antiphon.gateway.offer import KINDS, Kind, UpstreamOffer
from antiphon.gateway.relayed_asks import Answerers, Clients, without_ours
from antiphon.gateway.server_catalogue import Exposure, Noun, ServerCatalogue, ServerItem
from antiphon.gateway.tasks_behind import TasksBehind
from antiphon.gateway.terms import GatewayTerms
from antiphon.gateway.upstream import Upstream, UpstreamUnavailable
from antiphon.machine.asyncio_tasks import end_tasks, ignore_error, start_in
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.lifecycle import ServerCapabilities
from antiphon.wire.lossless import Received

log = logging.getLogger("antiphon.gateway")

MAX_WATCHED = 1_000
"""Most resources that are subscribed to for the clients of one group; as many as one client may subscribe to."""

_AGAIN = 5.0
"""Seconds until the gateway subscribes again after a server has ended, or has ended the subscription."""


class _Watch(Struct, eq=False):
    task: asyncio.Task[None]
    begun: asyncio.Future[None]
    holds: int = 0
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

    @asynccontextmanager
    async def hold_subscription(self, uri: str) -> AsyncGenerator[None]:
        """Subscribe to a resource, and keep the subscription until a client's request for it is served.

        Raises ``ResourceNotFound``: no server has it. Raises ``InvalidRequest``: too many resources are subscribed to.
        Raises ``PeerError``: its server refused, or cannot be used.
        """
        watch = self._watches.get(uri)
        if watch is None:
            await self._find(uri)
            watch = self._watches.get(uri) or self._begin(uri)
        watch.holds += 1
        try:
            await asyncio.shield(watch.begun)
            yield
        except UpstreamUnavailable as error:
            raise errors.InternalError(str(error)) from None
        except errors.PeerError as error:
            raise errors.PeerError(error.message, code=error.code, data=error.data) if error.remote else error from None
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
        if len(self._watches) >= MAX_WATCHED:
            raise errors.InvalidRequest(f"Too many subscriptions: {MAX_WATCHED} are allowed")
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        watch = self._watches[uri] = _Watch(loop.create_task(self._watch(uri, begun)), begun)
        watch.begun.add_done_callback(ignore_error)
        watch.task.add_done_callback(lambda _task: self._drop_watch(uri, watch))
        return watch

    def _drop_watch(self, uri: str, watch: _Watch) -> None:
        if self._watches.get(uri) is watch:
            del self._watches[uri]
        watch.begun.cancel()

    async def _watch(self, uri: str, begun: asyncio.Future[None]) -> None:
        while True:
            try:
                await self._listen(uri, begun)
            except errors.AntiphonError as error:
                if not begun.done():
                    begun.set_exception(error)
                    return
            await asyncio.sleep(_AGAIN)

    async def _listen(self, uri: str, begun: asyncio.Future[None]) -> None:
        server = await self._find(uri)
        async with server.running() as client, client.listen(uris=[uri]) as changes:
            if uri not in (changes.honoured.resource_subscriptions or ()):
                raise errors.InvalidRequest(f"The server {server.name!r} reports no changes of {uri}")
            if begun.done():
                # It may have changed while there was no subscription.
                self._told(uri)
            else:
                begun.set_result(None)
            async for _ in changes:
                self._told(uri)


Spoken = Mapping[str, Sequence[str]]
"""The extensions that each server declares, by the name of the server."""


def list_addressed_servers(method: str, spoken: Spoken) -> list[str]:
    """Return the servers a message may be for: those whose extension has its name, else all that declare any."""
    by_name = [server for server, names in spoken.items() if any(_fits_extension(method, name) for name in names)]
    return by_name or list(spoken)


def _fits_extension(method: str, extension: str) -> bool:
    """Return whether a method has the name of an extension: ``com.example/maps`` has ``maps/find``."""
    plain = method.removeprefix("notifications/")
    return any(
        plain == name or plain.startswith((f"{name}/", f"{name}."))
        for name in (extension, extension.rpartition("/")[2])
    )


def choose_server(method: str, params: Raw, spoken: Spoken, catalogue: ServerCatalogue) -> tuple[str, Raw]:
    """Return the server that a request is for, and its params in the names of that server.

    Raises ``MethodNotFound`` if no server declares an extension, and ``InvalidParams`` if several do, and the params
    name no tool, prompt or resource of any of them.
    """
    servers = list_addressed_servers(method, spoken)
    if not servers:
        raise errors.MethodNotFound(f"Method not found: {method}: no server here declares an extension")
    members = decode_wire(params, dict[str, Raw])
    named = _decode_text(members.get("name"))
    owned = catalogue.find("tool", named) or catalogue.find("prompt", named) if named is not None else None
    if owned is not None and owned.server in servers:
        return owned.server, Raw(encode_value({**members, "name": owned.name}))
    uri = _decode_text(members.get("uri"))
    reader = catalogue.reader(uri) if uri is not None else None
    if reader in servers:
        return reader, params
    if len(servers) > 1:
        several = " and ".join(map(repr, sorted(servers)[:10]))
        raise errors.InvalidParams(f"{method} may be for {several}: name a tool, a prompt or a resource of one of them")
    return servers[0], params


def _decode_text(member: Raw | None) -> str | None:
    value = decode_wire(member, object) if member is not None else None
    return value if isinstance(value, str) else None


async def note_request(terms: GatewayTerms, upstream: Upstream, method: str) -> None:
    """Record a request before it is passed on. The client may make any request of an extension: nobody is asked."""
    log.info("%s is passed on", method)
    if terms.host is not None:
        await terms.host.audit.record(upstream.make_origin(), method, "answered", "passed-on")


CALL_PATIENCE = 10.0
"""Seconds that a call waits for servers that were never listed, if no other server has its tool, prompt or resource."""

T = TypeVar("T")

MAX_TRIES = 7
"""Attempts to start a server that was never listed; after these it is tried again when a client asks for a list."""

MAX_SAID = 100
"""Most conflicts of names, and of URIs, that are logged; the catalogue has all of them."""


@dataclass(eq=False)
class PrincipalGroup:
    """The servers for the clients of one principal."""

    servers: InitVar[Mapping[str, Target]]
    """Targets by name."""
    terms: GatewayTerms
    """How the servers are run."""
    answerers: Callable[[], Answerers]
    """Makes the answerers of one server."""
    _: KW_ONLY
    exposure: Exposure
    """Which tools are shown, and their names."""
    changed: Callable[[Kind], object]
    """Called with the kind of list that has changed."""
    updated: InitVar[Callable[[str], object]] = lambda _uri: None
    """Called with the URI of a resource that has changed, if clients subscribe to it."""
    told: InitVar[Callable[[Received], object]] = lambda _task: None
    """Called with the new state of a task, if clients listen to it."""
    seen_by: bytes = b""
    """Key of the clients that see these lists, for the lists kept on disk."""
    clients: Clients = field(default_factory=Clients)
    """The connections of the clients; by default nothing is sent outside of their requests."""
    _said: set[str] = field(default_factory=set[str])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _first: dict[asyncio.Task[None], Upstream] = field(default_factory=dict[asyncio.Task[None], Upstream])
    """Starts of servers that were never listed."""
    _lists_wait_until: float = 0.0
    """Until when lists wait for these, in the event loop's time."""
    _made: ServerCatalogue | None = None
    _is_shown: bool = False

    def __post_init__(
        self, servers: Mapping[str, Target], updated: Callable[[str], object], told: Callable[[Received], object]
    ) -> None:
        self.watches = Watches(self._find_reader, updated)
        """The resources that the clients subscribe to."""
        self.tasks = TasksBehind(self.terms, answered_here=self.answerers().by_host, told=told)
        """The tasks of the clients."""
        self.upstreams: Mapping[str, Upstream] = {name: self._upstream(name, at) for name, at in servers.items()}

    @property
    def catalogue(self) -> ServerCatalogue:
        """What all servers offer, as far as known."""
        if self._made is None:
            offers = {name: self._filter_offer(one) for name, one in self.upstreams.items()}
            left_out = [name for name, one in self.upstreams.items() if not one.is_listed]
            self._made = ServerCatalogue(offers, self.exposure, left_out)
            self._say(self._made)
        return self._made

    @property
    def is_used(self) -> bool:
        """Whether any of the servers is in use, or a call waits for a person."""
        return self.tasks.has_waiting or any(upstream.is_used for upstream in self.upstreams.values())

    def start(self) -> None:
        """Begin to start, concurrently, the servers that were never listed; with ``starts="eager"`` all servers."""
        self._begin(self.upstreams.values())

    async def close(self) -> None:
        """End all servers."""
        await self.watches.close()
        await self.tasks.close()
        await end_tasks(*self._tasks)
        await asyncio.gather(*(upstream.close() for upstream in self.upstreams.values()))

    async def configure(self, servers: Mapping[str, Target]) -> None:
        """Replace the servers. Unchanged ones continue undisturbed."""
        before = self.upstreams
        kept = {name: one for name, one in before.items() if name in servers and servers[name] == one.target}
        self.upstreams = {name: kept.get(name) or self._upstream(name, target) for name, target in servers.items()}
        self._begin(one for name, one in self.upstreams.items() if name not in kept)
        self.renew(*KINDS)
        await asyncio.gather(*(one.close() for name, one in before.items() if name not in kept))

    async def listed(self) -> ServerCatalogue:
        """Return what all servers offer, once each was listed, has failed, or takes too long."""
        if awaited := {task: upstream for task, upstream in self._first.items() if not upstream.was_late}:
            patience = self._lists_wait_until - asyncio.get_running_loop().time()
            _, late = await asyncio.wait(awaited, timeout=max(0.0, patience))
            await asyncio.gather(*(awaited[task].note_late() for task in late))
        elif not self._tasks:
            for upstream in self.upstreams.values():
                if not upstream.is_listed and upstream.pause == 0:
                    start_in(self._tasks, self._start(upstream))
        self._is_shown = True
        return self.catalogue

    async def owned(self, noun: Noun, name: str) -> ServerItem:
        """Return the server of a tool or prompt, and the server's own name of it.

        Raises ``InvalidParams``: no known server has it; the message names the servers that were never listed.
        """
        # First without the way that waits: each call of a tool comes by here.
        owned = self.catalogue.find(noun, name)
        owned = owned or await self._find_in_catalogue(lambda catalogue: catalogue.find(noun, name))
        if owned is None:
            raise errors.InvalidParams(f"Unknown {noun}: {name}{self._unknown()}")
        return owned

    async def reader(self, uri: str) -> str:
        """Return the server that a resource is read from.

        Raises ``ResourceNotFound``: no server lists it or has a template that matches it.
        """
        server = await self._find_in_catalogue(lambda catalogue: catalogue.reader(uri))
        if server is None:
            why = self.catalogue.refusal(uri)
            raise errors.ResourceNotFound(f"Resource not found: {uri}{why}", data={"uri": uri})
        return server

    async def _find_reader(self, uri: str) -> Upstream:
        return self.upstreams[await self.reader(uri)]

    async def skill_file(self, uri: str) -> tuple[str, str, str]:
        """Return the server of a skill's file, its word in URIs, and its own URI of the file.

        Raises ``InvalidParams``: no server with skills has this word.
        """
        found = await self._find_in_catalogue(lambda catalogue: catalogue.find_skill_file(uri))
        if found is None:
            raise errors.InvalidParams(f"No skill is served at {uri}", data={"uri": uri})
        return found

    async def template(self, uri_template: str) -> ServerItem:
        """Return the server of a template. Raises ``InvalidParams``: no server has it."""
        server = await self._find_in_catalogue(lambda catalogue: catalogue.template(uri_template))
        if server is None:
            why = self.catalogue.refusal(uri_template)
            raise errors.InvalidParams(f"Unknown resource template: {uri_template}{why}")
        return ServerItem(server, uri_template)

    async def _find_in_catalogue(self, find: Callable[[ServerCatalogue], T | None]) -> T | None:
        """Find something in the catalogue; if it is not there, wait longer than a list would for servers that start."""
        found = find(self.catalogue)
        if found is None and self._first:
            await asyncio.wait(self._first, timeout=CALL_PATIENCE)
        return find(await self.listed()) if found is None else found

    # --- extensions ---------------------------------------------------------------------------------------------

    @property
    def spoken(self) -> Spoken:
        """The servers that declare extensions, each with its extensions, as far as known."""
        offers = ((name, one.offer) for name, one in self.upstreams.items())
        named = {name: [*(without_ours(offer.extensions) or ()), *offer.experimental] for name, offer in offers}
        return {name: extensions for name, extensions in named.items() if extensions}

    @property
    def capabilities(self) -> ServerCapabilities:
        """The extensions that the servers declare; if two declare the same one, with the settings of the first."""
        offers = [one.offer for one in reversed(list(self.upstreams.values()))]
        extensions = {name: value for offer in offers for name, value in offer.extensions.items()}
        experimental = {name: value for offer in offers for name, value in offer.experimental.items()}
        return ServerCapabilities(extensions=without_ours(extensions), experimental=experimental or None)

    def notified(self, client: object, method: str, params: Received) -> None:
        """Pass a notification of a client on to the running servers that it may be for."""
        servers = list_addressed_servers(method, self.spoken)
        if method == "notifications/roots/list_changed":
            self.clients.roots_changed(client)
            servers = [name for name, one in self.upstreams.items() if one.answerers.roots is not None]
        for name in servers:
            self.upstreams[name].notify(method, params)

    # --- starting -----------------------------------------------------------------------------------------------

    def _upstream(self, name: str, target: Target) -> Upstream:
        lists = self.terms.lists
        kept = lists.of(target, self.seen_by) if lists is not None else None
        answerers = self.answerers()
        answerers.open.clients = self.clients
        one = Upstream(name, target, answerers, self.terms, self._note_change, kept)
        one.recall()
        return one

    def _begin(self, upstreams: Iterable[Upstream]) -> None:
        self._lists_wait_until = asyncio.get_running_loop().time() + self.terms.list_timeout
        for upstream in upstreams:
            if not upstream.is_listed:
                task = start_in(self._tasks, self._start(upstream))
                self._first[task] = upstream
                task.add_done_callback(self._first.pop)
            elif self.terms.starts == "eager":
                start_in(self._tasks, self._start(upstream))

    def _unknown(self) -> str:
        """Name the servers that were never listed, because one of them may have what was not found.

        Their errors may quote what a server wrote, so they are only logged, and shown to the person.
        """
        why = [f"{one.name!r} ({one.state})" for one in self.upstreams.values() if not one.is_listed]
        return f"; nothing is known yet of {', '.join(why)}" if why else ""

    async def _start(self, upstream: Upstream) -> None:
        try:
            await upstream.start()
        except UpstreamUnavailable:
            # The failure was logged, and whoever uses this server gets it as an error. Other servers are not affected.
            if 0 < upstream.failures < MAX_TRIES and not upstream.is_listed:
                start_in(self._tasks, self._start_later(upstream))

    async def _start_later(self, upstream: Upstream) -> None:
        await asyncio.sleep(upstream.pause)
        if self.upstreams.get(upstream.name) is upstream:
            await self._start(upstream)

    def renew(self, *kinds: Kind) -> None:
        """Make the catalogue again after what is shown was changed, and notify clients of these kinds."""
        self._made = None
        for kind in kinds:
            self._tell(kind)

    def _filter_offer(self, upstream: Upstream) -> UpstreamOffer:
        """Return what a server offers, without the tools that are switched off."""
        off = {tool for identity, tool in self.exposure.off if identity == upstream.identity}
        if not off:
            return upstream.offer
        return structs.replace(upstream.offer, tools=tuple(one for one in upstream.offer.tools if one.name not in off))

    def _say(self, made: ServerCatalogue) -> None:
        """Log each name that had to be changed, once, because rules and people refer to tools by these names."""
        for said in map(str, [*made.conflicts[:MAX_SAID], *made.overlaps[:MAX_SAID]]):
            if said not in self._said and len(self._said) < MAX_SAID:
                self._said.add(said)
                log.warning("%s", said)

    def _note_change(self, kind: Kind) -> None:
        self._made = None
        # Clients that search list the same two tools, whatever a server offers.
        if kind != "tools" or not self.exposure.is_searched:
            self._tell(kind)

    def _tell(self, kind: Kind) -> None:
        if self._is_shown:
            # Before the first list no client has anything that could be out of date.
            self.changed(kind)
