"""The servers behind a gateway, as clients of one kind have them: connected, listed, and looked up by name.

Where the host answers, there is one group for all clients; where asks are relayed, one for each set of capabilities,
since a server is told exactly what the client offers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from antiphon.client.connection.targets import Target
from antiphon.errors import InvalidParams, ResourceNotFound
from antiphon.gateway.asks import Answerers
from antiphon.gateway.catalogue import Catalogue, Noun, Owned
from antiphon.gateway.names import Style
from antiphon.gateway.upstream import Kind, SignIn, Unavailable, Upstream
from antiphon.host.configured_host import Configured
from antiphon.host.host import Host

__all__ = ["Group"]


class Group:
    """The servers for one kind of client.

    Args:
        servers: targets by name.
        host: decides which tools may be called.
        answerers: makes what answers one server.
        names: how tools and prompts are called.
        timeout: seconds for each request to a server; ``None`` for no limit.
        start_timeout: seconds in which a server must start.
        changed: called with the kind of list that has changed.
        sign_in: see ``Upstream``.
    """

    def __init__(
        self,
        servers: Mapping[str, Target],
        host: Host | Configured,
        answerers: Callable[[], Answerers],
        *,
        names: Style,
        timeout: float | None,
        start_timeout: float,
        changed: Callable[[Kind], object],
        sign_in: SignIn | None = None,
    ) -> None:
        self.upstreams = {
            name: Upstream(
                name,
                target,
                host,
                answerers(),
                timeout=timeout,
                start_timeout=start_timeout,
                changed=self._changed,
                sign_in=sign_in,
            )
            for name, target in servers.items()
        }
        self._names: Style = names
        self._told = changed
        self._starting: asyncio.Task[None] | None = None
        self.catalogue = self._made()
        """What all of them offer."""

    def start(self) -> None:
        """Begin to start all servers, side by side."""
        self._starting = asyncio.get_running_loop().create_task(self._start_all())

    async def close(self) -> None:
        """End all servers."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await asyncio.gather(*(upstream.close() for upstream in self.upstreams.values()))

    async def listed(self) -> Catalogue:
        """Return what all offer, once every server has started or failed, because a client may list only once."""
        if self._starting is not None:
            await asyncio.shield(self._starting)
        return self.catalogue

    async def owned(self, noun: Noun, name: str) -> Owned:
        """Return whose tool or prompt this is.

        Raises:
            InvalidParams: nobody's.
        """
        owned = self.catalogue.find(noun, name) or (await self.listed()).find(noun, name)
        if owned is None:
            raise InvalidParams(f"Unknown {noun}: {name}")
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

    async def _start_all(self) -> None:
        await asyncio.gather(*(self._start(upstream) for upstream in self.upstreams.values()))

    async def _start(self, upstream: Upstream) -> None:
        try:
            await upstream.start()
        except Unavailable:
            # Logged, and reported to whoever calls something of it; the other servers are not affected.
            return
        self.catalogue = self._made()

    def _made(self) -> Catalogue:
        return Catalogue({name: upstream.offer for name, upstream in self.upstreams.items()}, self._names)

    def _changed(self, kind: Kind) -> None:
        self.catalogue = self._made()
        self._told(kind)
