"""``Gateway``: many servers as one, for clients of any revision; one host answers what they ask.

The gateway is an ordinary ``Server`` whose middleware passes requests on. Each server behind it is reached by a
``Client`` of its own, which speaks that server's revision. So a client and a server without a common revision can work
together, and a server can ask even if the client cannot answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Unpack

from msgspec import Raw

from antiphon.client.connection.targets import Target
from antiphon.errors import ConfigError, InvalidParams, PeerError, Rejected, ResourceNotFound, ResultInvalid
from antiphon.gateway.catalogue import Catalogue, Noun, Owned
from antiphon.gateway.names import Style
from antiphon.gateway.progress import reporting
from antiphon.gateway.upstream import Kind, Unavailable, Upstream
from antiphon.host.configured_host import Configured
from antiphon.host.host import Host
from antiphon.server.app import Server
from antiphon.server.middleware import CallNext, ServerRequest
from antiphon.server.network import ServeOptions
from antiphon.wire.completion import CompleteRequestParams, CompleteResult, PromptReference
from antiphon.wire.content import TextContent
from antiphon.wire.prompts import GetPromptResult, ListPromptsResult
from antiphon.wire.resources import ListResourcesResult, ListResourceTemplatesResult, ReadResourceResult
from antiphon.wire.tools import CallToolResult, ListToolsResult

__all__ = ["Gateway"]

_LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
_OURS = "io.modelcontextprotocol/"
"""Members of ``_meta`` that belong to one connection, and are not passed on."""


class Gateway:
    """One server in front of many. ``run`` serves it; ``server`` can be mounted, or connected to in memory.

    Args:
        servers: targets by name, each as ``Client`` takes it; started when the first client connects.
        host: answers what the servers ask, and decides which tools may be called.
        names: ``"prefix"`` calls a tool ``server__tool``; ``"none"`` keeps its name, unless two servers have it.
        timeout: seconds for each request to a server, without the time a person takes; ``None``, the default, waits
            as long as the client does.
        start_timeout: seconds in which a server must open its session and list what it has.
        closes_host: close the host with the gateway; by default its maker does.

    Raises:
        ConfigError: there is no server.
    """

    def __init__(
        self,
        servers: Mapping[str, Target],
        host: Host | Configured,
        *,
        names: Style = "prefix",
        timeout: float | None = None,
        start_timeout: float = 30.0,
        closes_host: bool = False,
    ) -> None:
        if not servers:
            raise ConfigError("a gateway needs at least one server")
        self._style: Style = names
        self._closes = host if closes_host else None
        self._upstreams = {
            name: Upstream(name, target, host, timeout=timeout, start_timeout=start_timeout, changed=self._changed)
            for name, target in servers.items()
        }
        self._catalogue = self._made()
        self._starting: asyncio.Task[None] | None = None
        self.server = Server(
            "antiphon-gateway",
            lifespan=self._lifespan,
            tool_rate=None,
            declares=("tools", "prompts", "resources", "completions"),
        )
        """The server that clients connect to."""
        self.server.middleware(self._serve)

    @property
    def upstreams(self) -> Sequence[Upstream]:
        """The servers behind it, in the given order."""
        return list(self._upstreams.values())

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
        self._starting = asyncio.get_running_loop().create_task(self._start_all())
        try:
            yield
        finally:
            self._starting.cancel()
            await asyncio.wait([self._starting])
            await asyncio.gather(*(upstream.close() for upstream in self.upstreams))
            if self._closes is not None:
                await self._closes.aclose()

    async def _start_all(self) -> None:
        await asyncio.gather(*(self._start(upstream) for upstream in self.upstreams))

    async def _start(self, upstream: Upstream) -> None:
        try:
            await upstream.start()
        except Unavailable:
            # Logged, and reported to whoever calls something of it; the other servers are not affected.
            return
        self._catalogue = self._made()

    async def _all_started(self) -> None:
        """Wait until every server has started or failed, because a client may list only once."""
        if self._starting is not None:
            await asyncio.shield(self._starting)

    def _made(self) -> Catalogue:
        return Catalogue({name: upstream.offer for name, upstream in self._upstreams.items()}, self._style)

    def _changed(self, kind: Kind) -> None:
        self._catalogue = self._made()
        self.server.list_changed(kind)

    # --- requests -----------------------------------------------------------------------------------------------

    async def _serve(self, request: ServerRequest, call_next: CallNext) -> Any:
        method = request.method
        if method in _LISTS:
            await self._all_started()
            return self._list(method)
        if method == "tools/call":
            return await self._call_tool(request)
        if method == "prompts/get":
            return await self._get_prompt(request)
        if method == "resources/read":
            return await self._read_resource(request.params.uri)
        if method == "completion/complete":
            return await self._complete(request.params)
        return await call_next(request)

    def _list(self, method: str) -> Any:
        catalogue = self._catalogue
        if method == "tools/list":
            return ListToolsResult(tools=catalogue.tools)
        if method == "prompts/list":
            return ListPromptsResult(prompts=catalogue.prompts)
        if method == "resources/list":
            return ListResourcesResult(resources=catalogue.resources)
        return ListResourceTemplatesResult(resource_templates=catalogue.templates)

    async def _call_tool(self, request: ServerRequest) -> CallToolResult:
        name: str = request.params.name
        owned = await self._owned("tool", name)
        meta = request.ctx.request.meta
        passed = {key: value for key, value in meta.items() if not key.startswith(_OURS) and key != "progressToken"}
        arguments: Raw = request.params.arguments
        try:
            async with (
                self._upstreams[owned.server].used() as client,
                reporting(request.ctx, wanted="progressToken" in meta) as report,
            ):
                return await client.call_tool(owned.name, arguments or None, progress=report, meta=passed or None)
        except Rejected as error:
            return _failed(f"The call was refused: {error.message}")
        except (Unavailable, ResultInvalid) as error:
            return _failed(str(error))
        except PeerError as error:
            raise _passed_on(error) from None

    async def _get_prompt(self, request: ServerRequest) -> GetPromptResult:
        owned = await self._owned("prompt", request.params.name)
        async with self._reached(owned.server) as client:
            return await client.get_prompt(owned.name, request.params.arguments)

    async def _read_resource(self, uri: str) -> ReadResourceResult:
        server = await self._owner_of(uri)
        async with self._reached(server) as client:
            return await client.read_resource(uri)

    async def _complete(self, params: CompleteRequestParams) -> CompleteResult:
        ref = params.ref
        if isinstance(ref, PromptReference):
            owned = await self._owned("prompt", ref.name)
        else:
            await self._all_started()
            server = self._catalogue.template(ref.uri)
            if server is None:
                raise InvalidParams(f"Unknown resource template: {ref.uri}")
            owned = Owned(server, ref.uri)
        settled = params.context.arguments if params.context is not None else None
        async with self._reached(owned.server) as client:
            return await client.complete(owned.name, params.argument.name, params.argument.value, arguments=settled)

    # --- whose is it --------------------------------------------------------------------------------------------

    async def _owned(self, noun: Noun, name: str) -> Owned:
        if self._catalogue.find(noun, name) is None:
            await self._all_started()
        owned = self._catalogue.find(noun, name)
        if owned is None:
            raise InvalidParams(f"Unknown {noun}: {name}")
        return owned

    async def _owner_of(self, uri: str) -> str:
        await self._all_started()
        found = self._catalogue.reader(uri)
        if found is not None:
            return found
        raise ResourceNotFound(f"Resource not found: {uri}", data={"uri": uri})

    @asynccontextmanager
    async def _reached(self, server: str) -> AsyncGenerator[Any]:
        try:
            async with self._upstreams[server].used() as client:
                yield client
        except Unavailable as error:
            raise PeerError(str(error), code=-32603) from None
        except PeerError as error:
            raise _passed_on(error) from None


def _passed_on(error: PeerError) -> PeerError:
    """Return an error of a server behind the gateway as one of our own, because remote errors are not passed on."""
    return PeerError(error.message, code=error.code, data=error.data)


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)
