"""``Gateway``: many servers as one, for clients of any revision; one host answers what they ask.

The gateway is an ordinary ``Server`` whose middleware passes requests on. Each server behind it is reached by a
``Client`` of its own, which speaks that server's revision. So a client and a server without a common revision can work
together, and a server can ask even if the client cannot answer.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Unpack

from msgspec import Raw

from antiphon.client.client import Client
from antiphon.client.connection.targets import Target
from antiphon.errors import ConfigError, InternalError, PeerError, Rejected, ResultInvalid
from antiphon.gateway.asks import Answered, Answerers, Relay, by_host
from antiphon.gateway.group import Group
from antiphon.gateway.names import Style
from antiphon.gateway.progress import reporting
from antiphon.gateway.upstream import SignIn, Unavailable, Upstream
from antiphon.host.configured_host import Configured
from antiphon.host.host import Host
from antiphon.server.app import Server
from antiphon.server.middleware import CallNext, ServerRequest
from antiphon.server.network import ServeOptions
from antiphon.wire.completion import CompleteRequestParams, CompleteResult, PromptReference
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode
from antiphon.wire.prompts import GetPromptResult, ListPromptsResult
from antiphon.wire.resources import ListResourcesResult, ListResourceTemplatesResult, ReadResourceResult
from antiphon.wire.tools import CallToolResult, ListToolsResult

__all__ = ["Gateway"]

MAX_GROUPS = 8
"""Most sets of capabilities for which the servers are connected at once, where asks are relayed; the longest unused
goes first."""

_OURS = "io.modelcontextprotocol/"
"""Members of ``_meta`` that belong to one connection, and are not passed on."""


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
        serve = _SERVED.get(request.method)
        return await (call_next(request) if serve is None else serve(await self._group_of(request), request))


async def _list_tools(group: Group, _request: ServerRequest) -> ListToolsResult:
    return ListToolsResult(tools=(await group.listed()).tools)


async def _list_prompts(group: Group, _request: ServerRequest) -> ListPromptsResult:
    return ListPromptsResult(prompts=(await group.listed()).prompts)


async def _list_resources(group: Group, _request: ServerRequest) -> ListResourcesResult:
    return ListResourcesResult(resources=(await group.listed()).resources)


async def _list_templates(group: Group, _request: ServerRequest) -> ListResourceTemplatesResult:
    return ListResourceTemplatesResult(resource_templates=(await group.listed()).templates)


async def _call_tool(group: Group, request: ServerRequest) -> CallToolResult:
    owned = await group.owned("tool", request.params.name)
    meta = request.ctx.request.meta
    passed = {key: value for key, value in meta.items() if not key.startswith(_OURS) and key != "progressToken"}
    arguments: Raw = request.params.arguments
    try:
        async with (
            group.upstreams[owned.server].used(request) as client,
            reporting(request.ctx, wanted="progressToken" in meta) as report,
        ):
            return await client.call_tool(owned.name, arguments or None, progress=report, meta=passed or None)
    except Rejected as error:
        return _failed(f"The call was refused: {error.message}")
    except (Unavailable, ResultInvalid) as error:
        return _failed(str(error))
    except PeerError as error:
        raise _passed_on(error) from None


async def _get_prompt(group: Group, request: ServerRequest) -> GetPromptResult:
    owned = await group.owned("prompt", request.params.name)
    async with _used(group, owned.server, request) as client:
        return await client.get_prompt(owned.name, request.params.arguments)


async def _read_resource(group: Group, request: ServerRequest) -> ReadResourceResult:
    uri: str = request.params.uri
    async with _used(group, await group.reader(uri), request) as client:
        return await client.read_resource(uri)


async def _complete(group: Group, request: ServerRequest) -> CompleteResult:
    params: CompleteRequestParams = request.params
    ref = params.ref
    owned = await (group.owned("prompt", ref.name) if isinstance(ref, PromptReference) else group.template(ref.uri))
    settled = params.context.arguments if params.context is not None else None
    async with _used(group, owned.server, request) as client:
        return await client.complete(owned.name, params.argument.name, params.argument.value, arguments=settled)


_SERVED: Mapping[str, Callable[[Group, ServerRequest], Awaitable[Any]]] = {
    "tools/list": _list_tools,
    "tools/call": _call_tool,
    "prompts/list": _list_prompts,
    "prompts/get": _get_prompt,
    "resources/list": _list_resources,
    "resources/templates/list": _list_templates,
    "resources/read": _read_resource,
    "completion/complete": _complete,
}


@asynccontextmanager
async def _used(group: Group, server: str, request: ServerRequest) -> AsyncGenerator[Client]:
    try:
        async with group.upstreams[server].used(request) as client:
            yield client
    except Unavailable as error:
        raise InternalError(str(error)) from None
    except PeerError as error:
        raise _passed_on(error) from None


def _passed_on(error: PeerError) -> PeerError:
    """Return an error of a server behind the gateway as one of our own, because remote errors are not passed on."""
    return PeerError(error.message, code=error.code, data=error.data)


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)
