"""The servers behind a gateway, as clients of one kind have them: listed, started, and looked up by name.

A group belongs to one principal, and where asks are relayed to one set of capabilities as well, since a server is told
exactly what the client offers. So a process serves nobody but the principal that it was started for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from msgspec import Raw, structs

from antiphon.client.connection.targets import Target
from antiphon.errors import InvalidParams, ResourceNotFound
from antiphon.gateway.asks import Answerers, Clients
from antiphon.gateway.catalogue import Catalogue, Exposure, Noun, Owned
from antiphon.gateway.extensions import Spoken, addressed, chosen, note, spoken_by, without_ours
from antiphon.gateway.offer import KINDS, Kind, Offer
from antiphon.gateway.subscriptions import Watches
from antiphon.gateway.tasks_behind import TasksBehind
from antiphon.gateway.terms import Terms
from antiphon.gateway.upstream import Unavailable, Upstream
from antiphon.wire.lifecycle import ServerCapabilities
from antiphon.wire.lossless import Received

__all__ = ["Group"]

log = logging.getLogger("antiphon.gateway")

LIST_PATIENCE = 10.0
"""Seconds that a list waits for servers of which nothing is known yet. What they offer after that is told as a change.
Hosts give up a list after 30 seconds, some after 10."""

MAX_TRIES = 7
"""Times that a server of which nothing is known is started by itself; after that when somebody lists."""

MAX_SAID = 100
"""Most conflicts of names that are logged; all of them are in the catalogue."""


class Group:
    """The servers for one kind of client.

    Args:
        servers: targets by name.
        terms: how servers are run.
        answerers: makes what answers one server.
        exposure: which tools there are, and what they are called.
        changed: called with the kind of list that has changed.
        updated: called with the URI of a resource that has changed and is subscribed to.
        told: called with what a task that is listened to is now.
        seen_by: who sees these lists.
        clients: their connections; by default none is told anything outside of its requests.
    """

    def __init__(
        self,
        servers: Mapping[str, Target],
        terms: Terms,
        answerers: Callable[[], Answerers],
        *,
        exposure: Exposure,
        changed: Callable[[Kind], object],
        updated: Callable[[str], object] = lambda _uri: None,
        told: Callable[[Received], object] = lambda _task: None,
        seen_by: bytes = b"",
        clients: Clients | None = None,
    ) -> None:
        self.clients = Clients() if clients is None else clients
        """Their connections."""
        self._terms = terms
        self._answerers = answerers
        self._exposure = exposure
        self._said: set[str] = set()
        self._told = changed
        self._seen_by = seen_by
        self._tasks: set[asyncio.Task[None]] = set()
        self._first: set[asyncio.Task[None]] = set()
        """First starts of servers of which nothing is known."""
        self._made: Catalogue | None = None
        self._is_shown = False
        self.watches = Watches(self, updated)
        """The resources that their clients subscribe to."""
        self.tasks = TasksBehind(terms, answered_here=answerers().by_host, told=told)
        """The tasks of their clients."""
        self.upstreams: Mapping[str, Upstream] = {name: self._upstream(name, at) for name, at in servers.items()}

    @property
    def catalogue(self) -> Catalogue:
        """What all of them offer, as far as that is known."""
        if self._made is None:
            offers = {name: self._offered(one) for name, one in self.upstreams.items()}
            self._made = Catalogue(offers, self._exposure)
            self._say(self._made)
        return self._made

    @property
    def principal(self) -> str | None:
        """Whose the servers are; ``None`` where clients have no principal."""
        return self._terms.principal

    @property
    def is_used(self) -> bool:
        """Whether anybody waits for something of them."""
        return any(upstream.is_used for upstream in self.upstreams.values())

    def start(self) -> None:
        """Begin to start, side by side, the servers of which nothing is known, or all of them."""
        self._begin(self.upstreams.values())

    async def close(self) -> None:
        """End all servers."""
        await self.watches.close()
        await self.tasks.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.gather(*(upstream.close() for upstream in self.upstreams.values()))

    async def configure(self, servers: Mapping[str, Target]) -> None:
        """Have these servers from now on. Those that are the same go on undisturbed."""
        before = self.upstreams
        kept = {name: one for name, one in before.items() if name in servers and servers[name] == one.target}
        self.upstreams = {name: kept.get(name) or self._upstream(name, target) for name, target in servers.items()}
        self._begin(one for name, one in self.upstreams.items() if name not in kept)
        self._made = None
        for kind in KINDS:
            self._tell(kind)
        await asyncio.gather(*(one.close() for name, one in before.items() if name not in kept))

    async def listed(self) -> Catalogue:
        """Return what all offer, once each server is known, has failed, or takes too long."""
        if self._first:
            await asyncio.wait(self._first, timeout=LIST_PATIENCE)
        elif not self._tasks:
            self._retry_unknown()
        self._is_shown = True
        return self.catalogue

    async def owned(self, noun: Noun, name: str) -> Owned:
        """Return whose tool or prompt this is.

        Raises:
            InvalidParams: nobody's, as far as that is known; the message names the servers of which nothing is.
        """
        owned = self.catalogue.find(noun, name) or (await self.listed()).find(noun, name)
        if owned is None:
            raise InvalidParams(f"Unknown {noun}: {name}{self._unknown()}")
        return owned

    async def reader(self, uri: str) -> str:
        """Return the server that a resource is read from.

        Raises:
            ResourceNotFound: none lists it, or has a template that it fits.
        """
        server = (await self.listed()).reader(uri)
        if server is None:
            raise ResourceNotFound(f"Resource not found: {uri}", data={"uri": uri})
        return server

    async def template(self, uri_template: str) -> Owned:
        """Return whose template this is.

        Raises:
            InvalidParams: nobody's.
        """
        server = (await self.listed()).template(uri_template)
        if server is None:
            raise InvalidParams(f"Unknown resource template: {uri_template}")
        return Owned(server, uri_template)

    # --- extensions ---------------------------------------------------------------------------------------------

    @property
    def spoken(self) -> Spoken:
        """The servers that declare extensions, as far as that is known, with these."""
        offers = ((name, one.offer) for name, one in self.upstreams.items())
        return {
            k: v for name, offer in offers for k, v in spoken_by(name, offer.extensions, offer.experimental).items()
        }

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the servers declare beyond the protocol; of two with the same, as the first has it."""
        offers = [one.offer for one in reversed(list(self.upstreams.values()))]
        extensions = {name: value for offer in offers for name, value in offer.extensions.items()}
        experimental = {name: value for offer in offers for name, value in offer.experimental.items()}
        return ServerCapabilities(extensions=without_ours(extensions), experimental=experimental or None)

    async def speaker(self, method: str, params: Raw) -> tuple[str, Raw]:
        """Return the server that a request of an extension is for, and its params there. See ``extensions.chosen``."""
        catalogue = await self.listed()
        return chosen(method, params, self.spoken, catalogue)

    async def note(self, server: str, method: str) -> None:
        """Record a request of an extension before it is made."""
        await note(self._terms, self.upstreams[server].target, method)

    def notified(self, client: object, method: str, params: Received) -> None:
        """Pass a notification of a client on to the running servers that it may be for."""
        servers = addressed(method, self.spoken)
        if method == "notifications/roots/list_changed":
            self.clients.roots_changed(client)
            servers = [name for name, one in self.upstreams.items() if one.has_roots]
        for name in servers:
            self.upstreams[name].notify(method, params)

    # --- starting -----------------------------------------------------------------------------------------------

    def _upstream(self, name: str, target: Target) -> Upstream:
        lists = self._terms.lists
        kept = lists.of(target, self._seen_by) if lists is not None else None
        answerers = self._answerers()
        answerers.open.clients = self.clients
        one = Upstream(name, target, answerers, self._terms, changed=self._changed, kept=kept)
        one.recall()
        return one

    def _begin(self, upstreams: Iterable[Upstream]) -> None:
        for upstream in upstreams:
            if not upstream.is_listed:
                task = self._run(self._start(upstream))
                self._first.add(task)
                task.add_done_callback(self._first.discard)
            elif self._terms.starts == "eager":
                self._run(self._start(upstream))

    def _unknown(self) -> str:
        """Say of which servers nothing is known, since what is looked for may be theirs."""
        why = [f"{one.name!r} ({one.error or one.state})" for one in self.upstreams.values() if not one.is_listed]
        return f"; nothing is known yet of {', '.join(why)}" if why else ""

    def _retry_unknown(self) -> None:
        for upstream in self.upstreams.values():
            if not upstream.is_listed and upstream.pause == 0:
                self._run(self._start(upstream))

    async def _start(self, upstream: Upstream) -> None:
        try:
            await upstream.start()
        except Unavailable:
            # Logged, and reported to whoever calls something of it; the other servers are not affected.
            if 0 < upstream.failures < MAX_TRIES and not upstream.is_listed:
                self._run(self._start_later(upstream))

    async def _start_later(self, upstream: Upstream) -> None:
        await asyncio.sleep(upstream.pause)
        if self.upstreams.get(upstream.name) is upstream:
            await self._start(upstream)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def renew(self, *kinds: Kind) -> None:
        """Tell clients that there are others of these kinds now, because a person has said so."""
        self._made = None
        for kind in kinds:
            self._tell(kind)

    def _offered(self, upstream: Upstream) -> Offer:
        """Return what a server offers, without the tools that are switched off."""
        off = {tool for identity, tool in self._exposure.off if identity == upstream.identity}
        if not off:
            return upstream.offer
        return structs.replace(upstream.offer, tools=tuple(one for one in upstream.offer.tools if one.name not in off))

    def _say(self, made: Catalogue) -> None:
        """Log, once, what is called otherwise than it would be alone, because a person chooses by these names."""
        for said in map(str, made.conflicts[:MAX_SAID]):
            if said not in self._said and len(self._said) < MAX_SAID:
                self._said.add(said)
                log.warning("%s", said)

    def _changed(self, kind: Kind) -> None:
        self._made = None
        # Clients that search list the same two tools, whatever a server offers.
        if kind != "tools" or not self._exposure.is_searched:
            self._tell(kind)

    def _tell(self, kind: Kind) -> None:
        if self._is_shown:
            # Before, nobody has a list that could be wrong.
            self._told(kind)
