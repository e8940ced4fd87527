"""``Server``: what an author builds and runs.

Owns the options of a server and how it is started. ``decorators`` registers features; ``service`` serves clients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Never, Protocol, Self, TypeVar, Unpack, cast, runtime_checkable

from antiphon.channel import Channel
from antiphon.errors import ConfigError
from antiphon.machine.other_frameworks import check_argument_types, check_options, explain_other_names
from antiphon.protocol.caller import Caller
from antiphon.protocol.server_offer import ServerOffer
from antiphon.server.calls.server_rounds import RoundOptions
from antiphon.server.core import Core, Declared, Extension, Fallback, SamplingFallback
from antiphon.server.decorators import Features
from antiphon.server.features.checked_options import check_icons
from antiphon.server.rate_limits import DEFAULT_TOOL_RATE, Rate
from antiphon.server.served_subscriptions import ListKind
from antiphon.server.server_middleware import Middleware
from antiphon.server.serving.service import Service
from antiphon.server.state.request_state import Seal
from antiphon.wire.common import CacheScope, Icon, Implementation
from antiphon.wire.lossless import Received
from antiphon.wire.revisions import REVISIONS, Revision

if TYPE_CHECKING:
    from antiphon.machine.state_store import StateStore
    from antiphon.replicas.engines.base import Cluster
    from antiphon.server.openapi.document import References
    from antiphon.server.openapi.served_api import ApiOperation, Rename
    from antiphon.server.serving.network import HttpOptions, ServeOptions, ServerApp
    from antiphon.server.tasks.task_store import TaskOptions
    from antiphon.wire.tools import Tool

Lifespan = Callable[["Server"], AbstractAsyncContextManager[Any]]
"""Takes the server and returns an async context manager, open while the server runs; it yields ``Server.state``."""

M = TypeVar("M", bound=Middleware)
F = TypeVar("F", bound="Callable[[str, str | None], Tool | None]")


@explain_other_names
class Server(Features):
    """An MCP server. Add features with the decorators, then ``run`` it.

    Args:
        name: the server's name, as clients see it.
        version: the server's version, as clients see it; ``"0"`` by default.
        title: name for people.
        description: one or two sentences for people.
        website_url: address of a page about the server.
        icons: pictures that a client may show.
        instructions: how a model should use the server.
        lifespan: async context manager ``(server) -> state``, entered once for all connections; ``Context.state`` is
            what it yields.
        tool_rate: how often one client may call tools; by default 10,000 times a second, ``None`` for no limit.
        page_size: most entries in one page of a list; 1,000 by default.
        keys: secrets of 32 bytes each, the same in all processes of this server: the first one seals request states,
            states sealed with any of them are accepted. With keys, a call whose retry reaches another process, or comes
            after ``parked_for``, runs again there over the answers it already has (2026-07-28 basic/patterns/mrtr).
        state_store: storage that these processes share; needed for long calls and for ``once=True``.
        code_version: the version of your handlers; a call continues only where it is the same. By default a digest of
            the handler's code.
        parked_for: seconds for which a call waits in memory for its answers; 600 by default.
        state_for: seconds for which a client may continue a call by its sealed state; a day by default.
        max_parked: most calls that wait in memory at once; 10,000 by default.
        max_parked_bytes: most bytes of memory that waiting calls hold together, approximately; 128 MiB by default.
        error_details: send clients the text of a tool's unexpected exceptions; by default they learn only the type.
        sampling_fallback: the server's own model, for clients without sampling: an async function of a request's
            params, or an object with ``complete(params)``. It is not used when a client refuses.
        revisions: names of the protocol revisions to speak, as in ``["2025-11-25"]``; all by default.
        declares: kinds of features to declare although there are none yet: ``"tools"``, ``"prompts"``,
            ``"resources"``, ``"completions"``. Most clients read this only once, when they connect.
        cache_ttl: seconds for which clients of 2026-07-28 may keep lists, and what they read of resources without
            ``cache=``; by default nothing is kept. Clients drop a list when they are notified of its change.
        cache_scope: ``"public"`` if caches may give one caller's result to another; ``"private"`` by default, and
            always for callers with a principal.
        tasks: where tasks are kept, how long and how many; by default in memory, until the process ends.
        cluster: what the replicas of this server share, such as ``RedisCluster(url)``: each replica can then serve any
            request of any client, and notices of changes reach the clients of all. It also is the ``state_store`` and
            keeps a common key, unless these are given.

    Raises:
        ConfigError: an argument cannot be used; the message names it and says what to do.
    """

    confirmer: Any = None
    """What has each call of a tool confirmed before it is passed on: the host of a gateway. A client in this process
    does not ask it a second time."""
    _offered: ServerOffer | None = None
    """The last offer, kept so that all sessions share one object until it changes."""

    def __init__(
        self,
        name: str,
        *_more: Never,
        version: str = "0",
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[Icon] | None = None,
        instructions: str | None = None,
        lifespan: Lifespan | None = None,
        tool_rate: Rate | None = DEFAULT_TOOL_RATE,
        page_size: int = 1_000,
        keys: Sequence[bytes] = (),
        state_store: StateStore | None = None,
        code_version: str | None = None,
        parked_for: float = 600.0,
        state_for: float = 86_400.0,
        max_parked: int = 10_000,
        max_parked_bytes: int = 128 * 1024 * 1024,
        error_details: bool = False,
        sampling_fallback: SamplingFallback | None = None,
        revisions: Sequence[str] | None = None,
        declares: Collection[Declared] = (),
        cache_ttl: float | None = None,
        cache_scope: CacheScope = "private",
        tasks: TaskOptions | None = None,
        cluster: Cluster | None = None,
        **_unknown: Never,
    ) -> None:
        check_argument_types(Server, locals())
        super().__init__(name, *_more, **_unknown)
        check_icons(icons, "Server()")
        self.info = Implementation(
            name=name, version=version, title=title, description=description, website_url=website_url, icons=icons
        )
        self.instructions, self._revisions = instructions, _find_revisions(revisions)
        store = cluster if state_store is None else state_store  # Not ``or``: one without entries may be false.
        core = Core(
            self,
            self._completions,
            fallback=Fallback(sampling_fallback) if sampling_fallback is not None else None,
            tool_rate=tool_rate,
            code_version=code_version,
            error_details=error_details,
            declares=declares,
            cache_ttl=cache_ttl,
            cache_scope=cache_scope,
        )
        self._service = Service(
            core,
            self._offer,
            lifespan=_bind_lifespan(lifespan, self),
            page_size=page_size,
            seal=Seal(keys),
            rounds=RoundOptions(parked_for, state_for, max_parked, max_parked_bytes, store),
            cluster=cluster,
            tasks=_check_task_options(tasks, keys),
        )

    @classmethod
    def from_openapi(
        cls,
        document: Mapping[str, Any] | str | PathLike[str],
        /,
        *,
        client: Any,
        name: str | None = None,
        include: Callable[[ApiOperation], bool] | None = None,
        rename: Rename | None = None,
        resources: Callable[[ApiOperation], bool] | None = None,
        base_url: str | None = None,
        references: References | None = None,
        timeout: float = 30.0,
        max_answer: int = 1024 * 1024,
        check_answers: bool = True,
        **options: Any,
    ) -> Self:
        """Make a server of an API that an OpenAPI document describes (3.0, 3.1). Needs the extra ``openapi``.

        Each operation becomes a tool, whose arguments are its parameters by name, and ``body``.

        Args:
            document: the document as a mapping, the path of its file, or its text as JSON or YAML.
            client: sends the requests and signs them in: an ``httpx.AsyncClient``, or an async function of an
                ``ApiRequest`` that returns an ``ApiAnswer``. You close it.
            name: the server's name; by default the document's title.
            include: whether an operation is offered; all are by default.
            rename: names of tools by ``operationId``, or a function that returns one (``None`` for the usual name).
            resources: whether a GET becomes a resource, or a template, in place of a tool; none does by default.
            base_url: address that paths are added to; by default the client's, else that of the document.
            references: other documents by their URI, or a function that returns one; without it a document that refers
                to others is refused.
            timeout: seconds for one request; 30 by default.
            max_answer: most bytes of an answer; 1 MiB by default.
            check_answers: declare output schemas, and check answers by them; an answer that does not fit is an error.
            options: other arguments of ``Server``.

        Raises:
            ConfigError: the document or an argument cannot be used; the message names the operation and the remedy.
        """
        from antiphon.server.openapi.served_api import ServedApi

        api = ServedApi(document, references, client, base_url, checks=check_answers, most=max_answer)
        info = api.document.root.get("info")
        server = cls(name or info.text("title", 100) or "api", version=info.text("version", 100) or "0", **options)
        api.add_to(server, include, rename, resources, timeout)
        return server

    @property
    def state(self) -> Any:
        """What the lifespan yielded, while the server runs; ``None`` without one."""
        return self._service.core.state

    def middleware(self, function: M, /) -> M:
        """Put a function around every request; use it as ``@server.middleware``.

        The function may change the request (``call_next(request.replace(arguments={...}))``), answer it without
        ``call_next``, change the result, or refuse by raising (``Rejected``, ``InvalidParams``). Functions are called
        in the order they were added. A call that asks the client passes each of them once, from its first request to
        its result. Add middleware before the server runs: open connections are not affected.

        Args:
            function: ``async (request, call_next) -> result``; takes a ``ServerRequest`` and a ``CallNext``, both in
                ``antiphon.server``.

        Raises:
            ConfigError: the function cannot be called.
        """
        self._service.use(function)
        return function

    def mount(self, other: Server | Mountable, /, prefix: str | None = None, **_unknown: Never) -> None:
        """Offer everything that another server offers.

        The other server's tools and prompts are called ``prefix__name``; its resources keep their URIs, since links and
        texts contain them. What is added to it or removed from it later is added and removed here. Its requests pass
        the middleware of this server, then its own; its lifespan is entered after this one's, and left before it. If
        this server is open already, the new features appear when the other's lifespan has been entered, and clients are
        notified.

        Args:
            other: the server, or an object that has one as its ``server``: a ``Proxy(target)`` of ``antiphon.gateway``
                for a server elsewhere (a URL, a command line, a ``.py`` file), or a ``Gateway`` for many.
            prefix: letters, digits, hyphens, and single underscores between them; by default names stay as they are.

        Raises:
            ConfigError: a name or a URI is taken (the message names both servers), the prefix is not allowed, or the
                server is this one or is mounted here already.
        """
        check_options("server.mount()", _unknown, self.mount)
        if not isinstance(cast("object", prefix), str | None):
            raise ConfigError("mount() takes the server first, then its prefix: server.mount(other, prefix='api')")
        match cast("object", other):
            case Server(_service=service) | Mountable(server=Server(_service=service)):
                self._service.mount(service, prefix)
            case str() | PathLike() | Mapping() | list() | tuple():
                raise ConfigError(
                    "mount() takes a server; one elsewhere is mounted by server.mount(Proxy(target)), with Proxy of "
                    "antiphon.gateway"
                )
            case _:
                raise ConfigError(f"mount() takes a Server or an object with a .server, not {other!r}")

    def tool_definition(self, function: F, /) -> F:
        """Set the function that finds tools listed by middleware; use it as ``@server.tool_definition``.

        Over HTTP, the headers that repeat arguments of such a tool are then checked, as for the server's own tools
        (2026-07-28).

        Args:
            function: ``(name, principal) -> Tool | None``; called for each call of a tool that the server itself does
                not have. ``principal`` is the caller's, ``None`` if there is none.
        """
        self._service.core.find_tool = function
        return function

    def extend(self, extension: Extension, /) -> None:
        """Add an extension of the protocol: requests of methods that no revision has are passed to the middleware.

        A request that no middleware answers is refused with ``MethodNotFound``. Call this before the server runs.

        Args:
            extension: declares the capabilities, and handles the notifications.
        """
        self._service.core.extension = extension
        self._offered = None

    def notify(self, client: object, method: str, params: Received) -> bool:
        """Send one client a notification of another server, outside of any request, for middleware that relays.

        Args:
            client: its connection: ``ServerRequest.client``.
            method: name of the method; one that no revision has is sent as it is.
            params: the other server's params.

        Returns:
            Whether it was sent. It is not if the client has left, if its revision has no such notification, or if it
            speaks 2026-07-28, where clients are notified within their requests only.
        """
        return self._service.notify(client, method, params)

    async def list_roots(self, client: object) -> Received:
        """Ask one client for its roots, outside of any request, for middleware that relays (up to 2025-11-25).

        Args:
            client: its connection: ``ServerRequest.client``.

        Raises:
            MissingCapability: it offers no roots.
            NotInRevision: it speaks 2026-07-28, and is asked within its requests only.
            PeerError: it refused.
            ConnectionClosed: it has left.
        """
        return await self._service.list_roots(client)

    @property
    def subscribed(self) -> set[str]:
        """URIs of the resources that clients subscribe to now."""
        return self._service.subscriptions.uris

    def on_unsubscribe(self, function: Callable[[], object], /) -> None:
        """Have a function called whenever a client has ended a subscription, or left. It replaces an earlier one.

        Args:
            function: a function without arguments, not async; ``subscribed`` and ``watched_tasks`` tell it what is
                left.
        """
        self._service.subscriptions.on_end = function

    @property
    def watched_tasks(self) -> set[str]:
        """Ids of the tasks that clients listen to now."""
        return self._service.subscriptions.tasks

    def task_changed(self, task: Received) -> None:
        """Send the state of another server's task to the clients that listen to it, for middleware that relays.

        Args:
            task: the task's state (``GetTaskResult``), with the id by which clients know it.
        """
        self._service.subscriptions.task_changed(task)

    def resource_updated(self, uri: str, *, clients: Container[object] | None = None) -> None:
        """Notify the clients that subscribed to a resource that it has changed. May be called from any thread.

        Args:
            uri: URI of the resource.
            clients: those that it concerns, as ``ServerRequest.client`` identifies them; all by default.
        """
        self._service.resource_updated(uri, clients)

    def list_changed(self, kind: ListKind, *, clients: Container[object] | None = None) -> None:
        """Notify the clients that a list has changed. May be called from any thread.

        Not needed for features that are added and removed here, only for a list that middleware answers.

        Args:
            kind: ``"tools"``, ``"prompts"`` or ``"resources"``, which includes the templates.
            clients: those that it concerns, as ``ServerRequest.client`` identifies them; all by default.
        """
        self._service.list_changed(kind, clients)

    def run(
        self,
        transport: str = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        workers: int = 1,
        **options: Unpack[ServeOptions],
    ) -> None:
        """Serve until the client ends the session, or until interrupted. Blocks, so call it last.

        Args:
            transport: ``"stdio"``: the client is the parent process, standard output carries the protocol, and
                ``print`` writes to standard error. ``"http"`` or ``"streamable-http"``: Streamable HTTP of both eras,
                at ``http://host:port/mcp``. ``"sse"``: the transport of 2024-11-05, at ``/sse``. ``"websocket"``: at
                ``/ws``.
            host: address to listen on; by default only this machine's; not for ``"stdio"``.
            port: TCP port to listen on, 0 for a free one; 8000 by default; not for ``"stdio"``.
            workers: number of processes that serve, 1 by default; not for ``"stdio"``. With more than one, this process
                starts the program again that many times, and each of them serves when it reaches this line.
            options: see ``ServeOptions``; not for ``"stdio"``.

        Raises:
            ConfigError: there is no such transport, or it cannot be served with these options.
            AntiphonError: no worker could be started.
        """
        from antiphon.server.serving.run import run_server

        run_server(self._service, transport, host, port, options, workers)

    def listen(
        self, transport: str = "http", *, host: str = "127.0.0.1", port: int = 0, **options: Unpack[ServeOptions]
    ) -> AbstractAsyncContextManager[str]:
        """Serve in the background of a block of your program: ``async with server.listen() as url:``.

        Signals stay yours. At the end open requests have five seconds, then sessions and connections are closed.

        Args:
            transport: ``"http"`` (Streamable HTTP), ``"sse"`` or ``"websocket"``.
            host: address to listen on; by default only this machine's.
            port: TCP port to listen on; by default one that is free.
            options: see ``ServeOptions``.

        Returns:
            a context manager that yields the URL for clients, as soon as they can connect. Entering it raises
            ``ConfigError`` if that cannot be served with these options, and what the lifespan raised.
        """
        from antiphon.server.serving.network import listen_in_block

        return listen_in_block(self._service, transport, host, port, options)

    def route(
        self,
        path: str,
        handler: Callable[..., Any] | None = None,
        /,
        *,
        methods: Collection[str] | None = None,
        media_type: str | None = None,
    ) -> Any:
        """Serve a page beside the endpoint, over HTTP; also as ``@server.route("/health")``.

        Requests pass the same checks of ``Host`` and ``Origin`` as those of the endpoint, but no token is asked for.
        Add routes before the server runs; those of a mounted server are not served.

        Args:
            path: such as ``/health``; one that ends in a slash, such as ``/static/``, stands for all below it.
            handler: a function of a ``RouteRequest`` of ``antiphon.server``, async or not, that returns a text, bytes,
                a value to send as JSON, an ASGI application such as Starlette's responses, or a tuple of a status and
                one of these; or an ASGI application ``(scope, receive, send)``.
            methods: the methods that are served; by default GET and HEAD, for an ASGI application all.
            media_type: of a text or bytes, such as ``text/html``; by default ``text/plain``, so that no browser runs
                what a stranger has written, and ``application/octet-stream``.

        Returns:
            The handler, or a decorator without one.

        Raises:
            ConfigError: the path is taken, or the handler cannot be called so; when the server starts, also if the
                server itself answers at the path.
        """
        if handler is None:
            return partial(self.route, path, methods=methods, media_type=media_type)
        if self._service.routes is None:
            from antiphon.transports.http.server.routes import Routes

            self._service.routes = Routes()
        self._service.routes.add(path, handler, methods, media_type)
        return handler

    def asgi(self, **options: Unpack[HttpOptions]) -> ServerApp:
        """Return this server as an ASGI application (Streamable HTTP, both eras), to mount in any ASGI framework.

        Args:
            options: see ``HttpOptions``.
        """
        from antiphon.server.serving.network import server_app

        return server_app(self._service, "http", options)

    async def serve(
        self,
        channel: Channel,
        *,
        principal: str | None = None,
        headers: Mapping[str, str] | None = None,
        caller: Caller | None = None,
    ) -> None:
        """Serve one client over a channel of your own until it ends.

        Scopes are checked unless the client is local, that is, none of the arguments is given.

        Args:
            channel: where its frames come from and go to.
            principal: the client's verified identity; none by default.
            headers: headers of the transport's request by lower-case name; none by default.
            caller: the verified caller with its scopes, instead of ``principal``; none by default.
        """
        if caller is not None:
            principal = caller.principal
        await self._service.serve(channel, principal=principal, headers=headers, caller=caller)

    def _offer(self) -> ServerOffer:
        """Return what the server offers. It is the same object for all sessions until something in it changes."""
        offer, capabilities = self._offered, self._service.core.capabilities()
        if offer is None or offer.capabilities != capabilities or offer.instructions != self.instructions:
            passes_on = self._service.core.extension is not None
            offer = self._offered = ServerOffer(
                self.info, capabilities, self.instructions, self._revisions, passes_on=passes_on
            )
        return offer


@runtime_checkable
class Mountable(Protocol):
    """An object that can be mounted like a ``Server``."""

    @property
    def server(self) -> Server:
        """The server to mount."""
        ...


def _find_revisions(names: Sequence[str] | None) -> tuple[Revision, ...]:
    """Return the revisions of these names, in the order of ``REVISIONS``."""
    if names is None:
        return REVISIONS
    if not names or isinstance(names, str):
        raise ConfigError(f'Server(revisions=) is a list of at least one, as in ["{REVISIONS[-1].name}"]')
    known = [each.name for each in REVISIONS]
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"Server(revisions=): there is no {unknown[0]!r}; there are {', '.join(known)}")
    return tuple(each for each in REVISIONS if each.name in names)


def _bind_lifespan(lifespan: Any, server: Server) -> Callable[[], AbstractAsyncContextManager[Any]] | None:
    if not callable(lifespan or callable):
        raise ConfigError(f"Server(lifespan=) is an async context manager, a function of the server, not {lifespan!r}")
    return None if lifespan is None else lambda: lifespan(server)


def _check_task_options(tasks: TaskOptions | None, keys: Sequence[bytes]) -> TaskOptions | None:
    if tasks is not None and not hasattr(tasks, "store"):
        raise ConfigError(f"Server(tasks=) takes TaskOptions(...), not {tasks!r}; a tool takes task='allowed' itself")
    if tasks is not None and tasks.store is not None and tasks.store.shared and not keys:
        raise ConfigError(
            "Server(tasks=TaskOptions(store=...)) seals what it stores, and needs keys that outlive the process: "
            "Server(keys=[...]), each of 32 bytes, as from os.urandom(32)"
        )
    return tasks
