"""``Gateway``: many servers as one, for clients of any revision; one host answers what they ask.

The gateway is an ordinary ``Server`` whose middleware passes requests on. Each server behind it is reached by a
``Client`` of its own, which speaks that server's revision. So a client and a server without a common revision can work
together, and a server can ask even if the client cannot answer.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Unpack

from antiphon.client.connection.targets import Target
from antiphon.errors import ConfigError
from antiphon.gateway.asks import Answered, Answerers, Relay, by_host
from antiphon.gateway.group import Group
from antiphon.gateway.names import Style
from antiphon.gateway.requests import SERVED
from antiphon.gateway.upstream import SignIn, Upstream
from antiphon.host.configured_host import Configured
from antiphon.host.host import Host
from antiphon.server.app import Server
from antiphon.server.middleware import CallNext, ServerRequest
from antiphon.server.network import ServeOptions
from antiphon.wire.envelope import encode

__all__ = ["Gateway"]

MAX_GROUPS = 8
"""Most sets of capabilities for which the servers are connected at once, where asks are relayed; the longest unused
goes first."""


class Gateway:
    """One server in front of many. ``run`` serves it; ``server`` can be mounted, or connected to in memory.

    Args:
        servers: targets by name, each as ``Client`` takes it; started when the first client connects.
        host: decides which tools may be called, and answers what the servers ask, unless that is relayed.
        asks: who answers: ``"host"``, whatever the client offers; or ``"relay"``, the client that made the call, which
            is then declared to the servers with exactly what it offers.
        names: ``"prefix"`` calls a tool ``server__tool``; ``"none"`` keeps its name, unless two servers have it.
        timeout: seconds for each request to a server, without the time a person takes; ``None``, the default, waits
            as long as the client does.
        start_timeout: seconds in which a server must open its session and list what it has.
        sign_in: called with the name of a server before it is connected to; returns what ``Client(auth=)`` takes, or
            ``None``. By default nobody is signed in.
        closes_host: close the host with the gateway; by default its maker does.

    Raises:
        ConfigError: there is no server.
    """

    def __init__(
        self,
        servers: Mapping[str, Target],
        host: Host | Configured,
        *,
        asks: Answered = "host",
        names: Style = "prefix",
        timeout: float | None = None,
        start_timeout: float = 30.0,
        sign_in: SignIn | None = None,
        closes_host: bool = False,
    ) -> None:
        if not servers:
            raise ConfigError("a gateway needs at least one server")
        self._closes = host if closes_host else None
        self._asks: Answered = asks
        self._by_host = by_host(host)
        self._groups: OrderedDict[bytes, Group] = OrderedDict()
        self.server = Server(
            "antiphon-gateway",
            lifespan=self._lifespan,
            tool_rate=None,
            declares=("tools", "prompts", "resources", "completions"),
        )
        """The server that clients connect to."""
        self.server.middleware(self._serve)
        self._group = partial(
            Group,
            servers,
            host,
            names=names,
            timeout=timeout,
            start_timeout=start_timeout,
            changed=self.server.list_changed,
            sign_in=sign_in,
        )

    @property
    def upstreams(self) -> Sequence[Upstream]:
        """The servers behind it that were started, in the given order."""
        return [upstream for group in self._groups.values() for upstream in group.upstreams.values()]

    def run(
        self, transport: str = "stdio", *, host: str = "127.0.0.1", port: int = 8000, **options: Unpack[ServeOptions]
    ) -> None:
        """Serve until the client ends it, or until interrupted; blocks.

        Args:
            transport: ``"stdio"``, ``"http"``, ``"sse"`` or ``"websocket"``, as for ``Server.run``.
            host: address to listen on, for all but stdio.
            port: port to listen on, for all but stdio.
            options: see ``ServeOptions``.
        """
        self.server.run(transport, host=host, port=port, **options)

    # --- life ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lifespan(self, _server: Server) -> AsyncGenerator[None]:
        if self._asks == "host":
            # Without waiting for the first request: whoever connects is about to list.
            self._started(b"", lambda: self._by_host)
        try:
            yield
        finally:
            groups = list(self._groups.values())
            self._groups.clear()
            await asyncio.gather(*(group.close() for group in groups))
            if self._closes is not None:
                await self._closes.aclose()

    def _started(self, key: bytes, answerers: Callable[[], Answerers]) -> Group:
        group = self._groups[key] = self._group(answerers)
        group.start()
        return group

    async def _group_of(self, request: ServerRequest) -> Group:
        """Return the servers as this client has them, connected to when it first comes."""
        offered = request.ctx.request.capabilities
        key = b"" if self._asks == "host" else encode((offered.sampling, offered.elicitation, offered.roots))
        if key not in self._groups:
            while len(self._groups) >= MAX_GROUPS:
                _, oldest = self._groups.popitem(last=False)
                await oldest.close()
            return self._started(key, lambda: Relay(offered).answerers)
        self._groups.move_to_end(key)
        return self._groups[key]

    # --- requests -----------------------------------------------------------------------------------------------

    async def _serve(self, request: ServerRequest, call_next: CallNext) -> Any:
        serve = SERVED.get(request.method)
        return await (call_next(request) if serve is None else serve(await self._group_of(request), request))
