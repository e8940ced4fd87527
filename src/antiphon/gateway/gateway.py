"""``Gateway``: many servers as one, for clients of any revision; one host answers what they ask. ``Proxy``: one server.

The gateway is an ordinary ``Server`` whose middleware passes requests on. Each server behind it is reached by a
``Client`` of its own, which speaks that server's revision. So a client and a server without a common revision can work
together, and a server can ask even if the client cannot answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import Any, Unpack, cast
from weakref import WeakKeyDictionary

from msgspec import Struct, structs

from antiphon.auth.client.oauth import Auth
from antiphon.client.connection.targets import Serves, Target, describe_location, locate_target
from antiphon.client.remote_skill import RemoteSkill
from antiphon.errors import ConfigError, InternalError
from antiphon.gateway.group import PrincipalGroup
from antiphon.gateway.names import ALL, Filters, NameSettings, Style, UriOwners
from antiphon.gateway.relayed_asks import Answerers, Clients, by_client, by_host, without_ours
from antiphon.gateway.served_requests import SERVED, SUBSCRIBED, examine_list, pass_on
from antiphon.gateway.server_catalogue import Exposure, ServerCatalogue
from antiphon.gateway.terms import Answered, ElicitsIn, RunOptions, terms_of
from antiphon.gateway.upstream import Upstream
from antiphon.host.audit import Audit
from antiphon.host.config.settings import QUICK_CANCEL
from antiphon.host.host import Host, ShowingReviewer
from antiphon.host.review.definitions import ShownServer, ShownTool
from antiphon.host.store.memory_store import MemoryStore
from antiphon.machine.asyncio_tasks import end_tasks, start_in
from antiphon.machine.other_frameworks import check_argument_types
from antiphon.server.app import Server
from antiphon.server.as_tools import PromptsAsTools, ResourcesAsTools
from antiphon.server.server_middleware import CallNext, ServerRequest
from antiphon.server.serving.network import ServeOptions
from antiphon.transports.stdio.reaper import GUARDIAN, REAPER
from antiphon.wire.apps import find_app_uri, list_app_origins
from antiphon.wire.common import GATEWAY, ClientCapabilities
from antiphon.wire.envelope import encode_value
from antiphon.wire.lifecycle import ServerCapabilities
from antiphon.wire.lossless import Received
from antiphon.wire.methods import METHODS
from antiphon.wire.origin import describe_target
from antiphon.wire.skills import DIRECTORY_READ, SKILLS, Skill
from antiphon.wire.task import TASKS
from antiphon.wire.tools import Tool

log = logging.getLogger("antiphon.gateway")


class ShownServers:
    """Implements ``host.review.definitions.Servers`` for the groups of a gateway; ``host`` is ``None`` without one."""

    def __init__(self, host: Host | None, exposure: Exposure, groups: Callable[[], Iterable[PrincipalGroup]]) -> None:
        # Without a host nothing is stored: what is switched off stays hidden until the gateway ends.
        self._store = MemoryStore() if host is None else host.store
        self._exposure = exposure
        self._groups = groups
        if host is not None and isinstance(host.reviewer, ShowingReviewer):
            host.reviewer.servers = self

    async def recall(self) -> None:
        """Hide the tools that were switched off before."""
        try:
            rows = await self._store.definitions()
        except Exception as error:
            # Such tools are only shown by mistake: the host reads the store itself, and refuses their calls.
            log.warning("the tools that are switched off are not known: %s", type(error).__name__)
            return
        self._hide(frozenset((row.identity, row.tool) for row in rows if row.off is not None))

    @property
    def upstreams(self) -> Sequence[ShownServer]:
        """See ``Servers.upstreams``: one entry for each server of each group."""
        return [
            self._server(upstream, group.catalogue) for group in self._groups() for upstream in group.upstreams.values()
        ]

    async def switch_tool(self, identity: str, tool: str, *, on: bool, by: str | None) -> None:
        """See ``Servers.switch_tool``. Other processes refuse the tool at once, but hide it only when they start."""
        await Audit(self._store).record_access_change(identity, "on" if on else "off", by=by, tool=tool)
        await self._store.switch_tool(identity, tool, off=None if on else time.time(), by=by)
        key = {(identity, tool)}
        self._hide(self._exposure.off - key if on else self._exposure.off | key)

    async def read_skill(self, identity: str, entry: Skill) -> bytes:
        """See ``Servers.read_skill``: of several groups, the first that has the server is asked."""
        for upstream in (each for group in self._groups() for each in group.upstreams.values()):
            if upstream.identity == identity:
                async with upstream.running() as client:
                    return await RemoteSkill(entry, client.read_resource).read()
        raise ConfigError(f"no server has the identity {identity}")

    def _hide(self, off: frozenset[tuple[str, str]]) -> None:
        if off != self._exposure.off:
            self._exposure.off = off
            for group in self._groups():
                group.renew("tools")

    def _server(self, upstream: Upstream, catalogue: ServerCatalogue) -> ShownServer:
        called = catalogue.names_of(upstream.name)
        try:
            target = describe_target(describe_location(locate_target(upstream.target)))
        except ConfigError:
            target = upstream.name
        off = self._exposure.off
        return ShownServer(
            name=upstream.name,
            identity=upstream.identity,
            target=target,
            state=upstream.state,
            since=upstream.since,
            process=upstream.process if upstream.state in ("starting", "running") else None,
            # Only the first line: the others repeat the end of the standard error.
            error=upstream.error.partition("\n")[0] if upstream.error else None,
            heard=tuple(upstream.heard),
            tools=tuple(
                ShownTool(
                    tool=tool,
                    called=called.get(tool.name),
                    is_off=(upstream.identity, tool.name) in off,
                    origins=list_app_origins(find_app_uri(tool), upstream.offer.resources),
                )
                for tool in upstream.offer.tools
            ),
            skills=upstream.offer.skills,
            conflicts=(
                *(str(one) for one in catalogue.conflicts if one.second.server == upstream.name),
                *(str(one) for one in catalogue.overlaps if one.first.server == upstream.name),
            ),
        )


Reloads = Callable[[], AsyncIterator[Mapping[str, Target]]]
"""Yields all servers again whenever they have changed."""

MAX_GROUPS = 64
"""Most groups at once: one for each principal and, if asks are relayed, for each set of capabilities. The group that is
unused for longest is closed first, and none that is in use. It costs the memory of its lists; processes have their own
limit."""


class Gateway:
    """Offer many servers as one. ``run`` serves it; ``server`` can be mounted, or connected to in memory.

    Args:
        servers: targets by name, each as ``Client`` takes it.
        host: decides which tools may be called, and answers what the servers ask, unless that is relayed; ``None`` lets
            every call pass, and all asks must be relayed then.
        asks: who answers what the servers ask: ``"host"``, whatever the client offers; or ``"relay"``, the client that
            made the call, whose capabilities are then declared to the servers.
        elicits_in: who shows elicitations to the person if the host answers: ``"auto"``, a client that is known to show
            them, else the host's own reviewer; ``"client"``, every client that offers it; ``"host"``, no client.
        quick_cancel: seconds; a client that cancels an elicitation earlier has shown it to nobody (``claude -p``), so
            the host's own reviewer shows it; 0 takes every cancel as the person's.
        names: ``"prefix"`` calls a tool ``server__tool``; ``"none"`` keeps its name, unless two servers have it.
        tools: lists of globs by the name of a server (``"*"`` for all), over the server's own names of its tools:
            ``["*", "!delete_*"]``. A glob that begins with ``!`` denies, and a deny outranks every allow; a tool that
            does not pass is neither listed nor callable. A ``Filters`` may hold several lists, all of which must pass.
        prefixes: prefixes of tool names by server, to replace the server's name.
        rename: names of single tools, by server and the server's own name: ``{"github": {"create_issue": "issue"}}``.
        owns: globs over the URIs and templates of resources by server. Of two servers' URIs or templates that may
            overlap neither is served, unless exactly one of them is named here.
        search: have clients list two tools only, ``find_tools`` and ``call_tool``, and find all others by words.
        as_tools: offer resources and prompts by tools, too, for clients that know only tools.
        reloads: called when the gateway starts; yields all servers again whenever they have changed. By default they
            never change.
        closes_host: close the host with the gateway; by default whoever made the host closes it.
        options: how the servers are run; see ``RunOptions``.

    Raises:
        ConfigError: there is no server, ``max_processes`` is less than 1, a word, glob, prefix or name cannot be used,
            or this Python cannot search.
    """

    def __init__(
        self,
        servers: Mapping[str, Target],
        host: Host | None,
        *,
        asks: Answered = "host",
        elicits_in: ElicitsIn = "auto",
        quick_cancel: float = QUICK_CANCEL,
        names: Style = "prefix",
        tools: Filters | Mapping[str, Sequence[str]] = ALL,
        prefixes: Mapping[str, str] = {},
        rename: Mapping[str, Mapping[str, str]] = {},
        owns: Mapping[str, Sequence[str]] = {},
        search: bool = False,
        as_tools: bool = False,
        reloads: Reloads | None = None,
        closes_host: bool = False,
        **options: Unpack[RunOptions],
    ) -> None:
        check_argument_types(Gateway, locals())
        if not servers:
            raise ConfigError("a gateway needs at least one server")
        _check_names(servers)
        self._servers = dict(servers)
        self._reloads = reloads
        self._closes = host if closes_host else None
        self._asks: Answered = asks
        if host is None and asks == "host":
            raise ConfigError('a gateway without a host cannot answer what servers ask: Gateway(..., asks="relay")')
        self._by_host = None if host is None else partial(by_host, host, elicits_in, quick_cancel)
        self._groups: OrderedDict[bytes, PrincipalGroup] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._starts_itself = False
        self._clients: WeakKeyDictionary[object, PrincipalGroup] = WeakKeyDictionary()
        """The group that each connection of a client has used last."""
        self.server = self._in_front(as_tools=as_tools)
        """The server that clients connect to."""
        self.server.confirmer = host
        self._terms = terms_of(host, options)
        self._served = SERVED
        if search:
            # Imported here, since only gateways with search need an index.
            from antiphon.gateway.search import Search

            self._served = Search().served
        self._exposure = Exposure(is_searched=search)
        self.expose(names=names, tools=tools, prefixes=prefixes, rename=rename, owns=owns)
        self._group = partial(PrincipalGroup, exposure=self._exposure)
        self._shown = ShownServers(host, self._exposure, self._groups.values)

    def _in_front(self, *, as_tools: bool) -> Server:
        declares = ("tools", "prompts", "resources", "completions")
        server = Server(GATEWAY, lifespan=self._lifespan, tool_rate=None, declares=declares)
        if as_tools:
            server.middleware(self._examine_list)
            server.middleware(ResourcesAsTools())
            server.middleware(PromptsAsTools())
        server.middleware(self._serve)
        server.extend(_Spoken(self._group_for, self._clients))
        server.tool_definition(self._tool)
        server.on_unsubscribe(self._unsubscribed)
        return server

    @property
    def upstreams(self) -> Sequence[ShownServer]:
        """The servers behind it as they are now, in the given order, for each kind of client that has connected."""
        return self._shown.upstreams

    async def switch_tool(self, identity: str, tool: str, *, on: bool, by: str | None = None) -> None:
        """Show a tool to clients, or hide and refuse it, as a person does on the review page.

        Other gateways with the same store refuse its calls at once, and hide it when they start.

        Args:
            identity: identity of its server, as in ``upstreams``.
            tool: the server's own name for it.
            on: whether it can be used.
            by: who decided, for the record.
        """
        await self._shown.switch_tool(identity, tool, on=on, by=by)

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
        # If clients send tokens, the principal that a server is started for is not known before the first request.
        self._starts_itself = options.get("auth") is None and options.get("check_token") is None
        # Must begin before the process has threads. It ends every process that servers leave behind, even a hidden one.
        with REAPER.running():
            self.server.run(transport, host=host, port=port, **options)

    async def configure(self, servers: Mapping[str, Target]) -> None:
        """Replace the servers. Unchanged ones continue undisturbed; clients are notified of changed lists.

        Args:
            servers: targets by name, as the gateway was made with.
        """
        _check_names(servers)
        self._servers = dict(servers)
        await asyncio.gather(*(group.configure(servers) for group in self._groups.values()))

    def expose(
        self,
        *,
        names: Style = "prefix",
        tools: Filters | Mapping[str, Sequence[str]] = ALL,
        prefixes: Mapping[str, str] = {},
        rename: Mapping[str, Mapping[str, str]] = {},
        owns: Mapping[str, Sequence[str]] = {},
    ) -> None:
        """Change which tools are shown, and their names; clients are notified.

        Args:
            names: ``"prefix"`` or ``"none"``; this and the following as for the class.
            tools: the lists of globs that a tool must pass.
            prefixes: prefixes of tool names by server.
            rename: names of single tools.
            owns: globs over URIs and templates by server.

        Raises:
            ConfigError: a glob, prefix or name cannot be used; nothing has changed.
        """
        given = NameSettings(style=names, prefixes=prefixes, renamed=rename).checked()
        filters = tools if isinstance(tools, Filters) else Filters(tools)
        owners = UriOwners(owns)
        self._exposure.given, self._exposure.filters, self._exposure.owners = given, filters, owners
        for group in self._groups.values():
            group.renew("tools", "prompts", "resources")

    # --- life ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lifespan(self, _server: Server) -> AsyncGenerator[None]:
        if self._by_host is not None and self._asks == "host" and self._starts_itself:
            # Start before the first request, because a client begins with the lists.
            self._started(_compute_group_key(None, None), self._by_host, None)
        reloading = asyncio.get_running_loop().create_task(self._reload())
        recalling = asyncio.get_running_loop().create_task(self._shown.recall())
        # Ends what a server leaves behind, when the server is stopped or this process is killed.
        with GUARDIAN.held():
            try:
                yield
            finally:
                await end_tasks(reloading, recalling)
                groups = list(self._groups.values())
                self._groups.clear()
                await asyncio.gather(*(group.close() for group in groups))
                if self._closing:
                    await asyncio.wait(self._closing)
                if self._closes is not None:
                    await self._closes.aclose()

    async def _reload(self) -> None:
        if self._reloads is not None:
            try:
                async for servers in self._reloads():
                    await self.configure(servers)
            except Exception:
                log.exception("changes of the configured servers are not taken up any more: start the gateway again")

    def _started(self, key: bytes, answerers: Callable[[], Answerers], principal: str | None) -> PrincipalGroup:
        terms = structs.replace(self._terms, principal=principal)
        clients = Clients(self.server.notify, self.server.list_roots)
        group = self._groups[key] = self._group(
            self._servers,
            terms,
            answerers,
            changed=partial(self.server.list_changed, clients=clients),
            updated=partial(self.server.resource_updated, clients=clients),
            told=self.server.task_changed,
            seen_by=key,
            clients=clients,
        )
        group.start()
        return group

    def _tool(self, name: str, principal: str | None) -> Tool | None:
        """Return the definition of a tool, if its server has listed it for this principal."""
        for group in self._groups.values():
            if group.terms.principal == principal and (tool := group.catalogue.tool(name)) is not None:
                return tool
        return None

    def _group_of(self, request: ServerRequest) -> PrincipalGroup:
        """Return the group of this client. No two principals share a group."""
        about = request.ctx.request
        group = self._group_for(about.principal, about.capabilities)
        if self._clients.get(request.client) is not group:
            self._clients[request.client] = group
            group.clients.add(request.client)
        return group

    def _group_for(self, principal: str | None, offered: ClientCapabilities) -> PrincipalGroup:
        key = _key_of(principal) if self._asks == "host" else _compute_group_key(principal, offered)
        if key not in self._groups:
            if len(self._groups) >= MAX_GROUPS:
                unused = next((key for key, group in self._groups.items() if not group.is_used), None)
                if unused is None:
                    raise InternalError(f"This gateway serves {MAX_GROUPS} kinds of clients at once: try again later")
                start_in(self._closing, self._groups.pop(unused).close())
            by_host = None if self._asks == "relay" else self._by_host
            return self._started(key, by_host or partial(by_client, offered), principal)
        self._groups.move_to_end(key)
        return self._groups[key]

    # --- requests -----------------------------------------------------------------------------------------------

    async def _serve(self, request: ServerRequest, call_next: CallNext) -> Any:
        if (serve := self._served.get(request.method)) is not None:
            return await serve(self._group_of(request), request)
        if (subscribe := SUBSCRIBED.get(request.method)) is not None:
            try:
                return await subscribe(self._group_of(request), request, call_next)
            except BaseException:
                # What was subscribed to for it at servers is ended, unless other clients subscribe to it.
                self._unsubscribed()
                raise
        if request.method not in METHODS:
            return await pass_on(self._group_of(request), request)
        return await call_next(request)

    async def _examine_list(self, request: ServerRequest, call_next: CallNext) -> Any:
        result = await call_next(request)
        is_list = request.method == "tools/call" and request.params.name in ("list_resources", "list_prompts")
        return await examine_list(self._group_of(request), request.params, result) if is_list else result

    def _unsubscribed(self) -> None:
        left, listened = self.server.subscribed, self.server.watched_tasks
        for group in self._groups.values():
            group.watches.keep(left)
            group.tasks.keep(listened)


def _check_names(servers: Mapping[str, Target]) -> None:
    """Refuse two servers of this process with one name: a host knows them by it, so they would share permissions."""
    if not isinstance(cast("object", servers), Mapping) or "mcpServers" in servers:
        raise ConfigError("Gateway(servers=) maps names to targets, as json.loads(text)['mcpServers'] does")
    known: dict[str, object] = {}
    for name, target in servers.items():
        if isinstance(target, Serves) and known.setdefault(str(describe_location(target)), target) is not target:
            raise ConfigError(f"{name!r}: another server here has the same name; Server(name) has to tell them apart")


class _Spoken(Struct, eq=False):
    """The extensions of the servers behind a gateway. See ``server.core.Extension``."""

    _group_for: Callable[[str | None, ClientCapabilities], PrincipalGroup]
    """Returns the group of a client."""
    _clients: WeakKeyDictionary[object, PrincipalGroup]
    """The groups by connection."""

    def capabilities(self, principal: str | None, client: ClientCapabilities | None) -> ServerCapabilities:
        """Return what the servers declare, as far as known, and what is always declared: a client asks only once."""
        try:
            declared = self._group_for(principal, client or ClientCapabilities()).capabilities
        except InternalError:
            # There are too many groups; the client's first request fails with the reason.
            declared = ServerCapabilities()
        # The gateway serves these itself, whatever servers are known when a client connects.
        ours: dict[str, Any] = {TASKS: {}, SKILLS: {DIRECTORY_READ: True}}
        return structs.replace(declared, extensions={**(declared.extensions or {}), **ours})

    def notified(self, client: object, method: str, params: Received) -> None:
        """Pass a notification on, unless its client has made no request: it then has no group yet."""
        group = self._clients.get(client)
        if group is not None:
            group.notified(client, method, params)


def _compute_group_key(principal: str | None, offered: ClientCapabilities | None) -> bytes:
    """Return the key of a group. ``offered``: the client's capabilities if asks are relayed, else ``None``."""
    relayed = None
    if offered is not None:
        relayed = (
            offered.sampling, offered.elicitation, offered.roots, without_ours(offered.extensions), offered.experimental
        )  # fmt: skip
    return encode_value((principal, relayed))


_key_of = lru_cache(MAX_GROUPS)(partial(_compute_group_key, offered=None))
"""Returns the key of the group for a principal if asks are not relayed. Cached, because every request needs it."""


class Proxy:
    """Offer one server of another process: ``server.mount(Proxy("https://..."), prefix="shop")``.

    This is a ``Gateway`` with one server, which keeps its names. The server is started on first use.

    Args:
        target: as ``Client`` takes it: a URL, a command line, a ``.py`` file, an entry of a configuration, a server.
        host: decides which tools may be called, and answers what the server asks; by default every call is passed on,
            and the client that made the call answers.
        auth: what ``Client(auth=)`` takes, for a URL. The token of a client is never passed on.
        name: the name of the server in messages.
        options: how the server is run; see ``RunOptions``.

    Raises:
        ConfigError: an option cannot be used.
    """

    def __init__(
        self,
        target: Target,
        *,
        host: Host | None = None,
        auth: Auth | None = None,
        name: str = "proxied",
        **options: Unpack[RunOptions],
    ) -> None:
        if auth is not None:

            async def sign_in(_server: str, _principal: str | None) -> Auth:
                return auth

            options["sign_in"] = sign_in
        self._gateway = Gateway({name: target}, host, asks="relay" if host is None else "host", names="none", **options)

    @property
    def server(self) -> Server:
        """The server that serves its requests."""
        return self._gateway.server
