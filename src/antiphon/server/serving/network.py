"""Serve over a network: combines an endpoint of ``transports``, connections and the server's lifespan."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast

from antiphon.errors import AntiphonError, ConfigError, LocalProtocolError, RemoteProtocolError
from antiphon.machine.asyncio_tasks import find_loop
from antiphon.machine.other_frameworks import ELSEWHERE
from antiphon.protocol.http.param_headers import HeaderParam, header_params
from antiphon.server.serving.worker import StopWatch, collect_less, serve_as_worker, watch_parent
from antiphon.server.serving.worker_link import take_inherited_ends
from antiphon.server.state.request_state import check_encryption

if TYPE_CHECKING:
    from ssl import SSLContext

    from antiphon.auth.server.resource_server import ResourceServer
    from antiphon.channel import Channel, Peer
    from antiphon.protocol.caller import Caller
    from antiphon.server.serving.service import Service
    from antiphon.transports.http.server.app import HttpApp
    from antiphon.transports.http.server.asgi import Receive, Scope, Send
    from antiphon.transports.http.server.entrance import CheckToken
    from antiphon.transports.http.server.event_store import EventStore
    from antiphon.transports.http.server.shutdown import GracefulServer
    from antiphon.wire.tools import Tool

log = logging.getLogger("antiphon.server")

DRAIN = 5
"""Seconds that open requests have to end when the server is told to stop."""

REST = 75
"""Seconds a connection may be idle between two requests. Longer than clients keep idle connections: if the server
closed first, a busy client could write a request into a connection that is being closed."""


class HttpOptions(TypedDict, total=False):
    """Options of an endpoint. All apply to Streamable HTTP; the other transports refuse those they cannot use."""

    path: str
    """Path of the endpoint; by default ``/mcp``, ``/sse`` or ``/ws``."""
    allowed_hosts: Sequence[str]
    """``Host`` headers accepted (names, or ``name:port``); the loopback names by default, ``*`` for all."""
    allowed_origins: Sequence[str]
    """``Origin`` headers accepted; pages of the same machine by default, ``*`` for all."""
    max_body: int
    """Most bytes of one POST; 16 MiB by default."""
    body_timeout: float
    """Seconds within which a body must have arrived; 30 by default."""
    idle_timeout: float
    """Seconds without a request after which a session ends; 1800 by default."""
    max_sessions: int
    """Most sessions of legacy clients; 10,000 by default."""
    max_open: int
    """Most requests and streams open at once; 5,000 by default."""
    event_store: EventStore
    """Keeps the events that a client may ask for again after its stream broke; in memory by default."""
    check_token: CheckToken
    """Function that returns the principal of a bearer token, or a ``Caller`` with scopes; without it all clients are
    anonymous."""
    auth: ResourceServer
    """Checks the access tokens of an authorization server (OAuth), and tells clients where to get them."""
    keep_alive: float
    """Seconds of silence on a stream after which a comment is sent; 15 by default."""
    stateless: bool
    """Keep no sessions for clients up to 2025-11-25, so that each of their requests may reach any process: for
    servers that ask nothing of such clients, and notify them of nothing. False by default."""
    health: bool
    """Answer GET ``/healthz`` (200 while the process serves) and ``/readyz`` (503 when it takes no new requests),
    without a body, under any host name. True by default for a server that listens by itself, False for ``asgi()``."""
    json_only: bool
    """Answer with JSON instead of streams: a handler can then send nothing to the client and ask nothing during a
    call."""


class ServeOptions(HttpOptions, total=False):
    """Options of a server that listens by itself: those of its endpoint, and those of its connections."""

    tls_cert: str | Path
    """PEM file with the server's certificate and its chain. If given, the server accepts TLS only."""
    tls_key: str | Path
    """PEM file with the private key; by default the key is in ``tls_cert``."""
    tls_password: str
    """Password of an encrypted key."""
    max_connections: int
    """Most connections open at once; 5,000 by default."""
    head_timeout: float
    """Seconds within which the head of a request must have arrived; 10 by default."""
    on_listening: Callable[[int], object]
    """Called once, when clients can connect, with the port: the one that the system has chosen for ``port=0``. With
    workers it is called in the process that starts them, when the first one serves."""


class _Endpoint(Protocol):
    """An ASGI application of ``transports``."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...
    async def close(self, *, drain: float = 0.0) -> None: ...


class ServerApp:
    """A server as an ASGI application: run it by itself, or mount it in any ASGI framework.

    The server's lifespan is entered at start-up, or with the first request if the framework does not pass ASGI lifespan
    events on; it is left by ``close`` or at shutdown.
    """

    def __init__(
        self, service: Service, endpoint: _Endpoint, auth: ResourceServer | None = None, *, watches: bool = True
    ) -> None:
        self._service = service
        self._auth = auth
        self._endpoint = endpoint
        """Serves the requests, once the lifespan has been entered."""
        self.serve_route: Callable[[Scope, Receive, Send], Awaitable[bool]] | None = None
        """Serves a page beside the endpoint, and returns whether there is one; ``None`` without routes."""
        self._follows_lifespan = False
        self._stop_watch = StopWatch(self._stop) if watches else None
        """Ends open requests when the surrounding server stops; ``None`` if that server calls ``drain`` itself."""
        self._held = contextlib.AsyncExitStack()
        self._is_held = self._is_closed = False
        self._gate = asyncio.Lock()
        self._passing: asyncio.Task[Any] | None = None
        """The task of ASGI's lifespan, while it enters the server's lifespan or leaves it."""
        self.start_error: Exception | None = None
        """What the server's lifespan raised when ASGI's entered it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if not self._is_held:
            await self.hold()
        if self.serve_route is None or not await self.serve_route(scope, receive, send):
            await self._endpoint(scope, receive, send)

    async def hold(self) -> None:
        """Enter the server's lifespan now rather than with the first request."""
        async with self._gate:
            # A request that comes after the end is refused by the endpoint.
            if not self._is_held and not self._is_closed:
                await self._held.enter_async_context(self._service.serving())
                self._is_held = True
                if self._stop_watch is not None:
                    self._stop_watch.start()

    async def _stop(self, grace: float | None) -> None:
        await self.drain(None if grace is None else min(DRAIN, grace))
        if not self._follows_lifespan:
            # Mounted in a framework that passes no lifespan events on, so nobody else closes it.
            await self.close()

    async def close(self) -> None:
        """Let open requests end, then the sessions, then the server's lifespan."""
        if self._stop_watch is not None:
            self._stop_watch.end()
        await self.drain()
        async with self._gate:
            self._is_held, self._is_closed = False, True
            await self._held.aclose()
        if self._auth is not None:
            await self._auth.close()

    async def drain(self, grace: float | None = None) -> None:
        """Accept no more requests, let open ones end, and close streams and sockets, which would never end.

        Args:
            grace: most seconds for open requests; 5 by default.
        """
        await self._endpoint.close(drain=DRAIN if grace is None else grace)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Follow the lifespan protocol of ASGI; a start-up that fails says why."""
        self._follows_lifespan = True
        await receive()
        self._passing = asyncio.current_task()
        try:
            if self._is_closed:
                raise LocalProtocolError("this application was closed: make one for each lifespan, by server.asgi()")
            await self.hold()
        except asyncio.CancelledError:
            # Ctrl-C while it starts. Without this message uvicorn takes it for a failure, and logs a traceback.
            await send({"type": "lifespan.startup.failed", "message": ""})
            raise
        except Exception as error:
            self.start_error = error
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            raise
        finally:
            self._passing = None
        await send({"type": "lifespan.startup.complete"})
        try:
            await receive()
            self._passing = asyncio.current_task()
            await self.close()
        except asyncio.CancelledError:
            # A second Ctrl-C: uvicorn has given up the open requests, and does not wait for this either.
            await send({"type": "lifespan.shutdown.failed", "message": ""})
            raise
        await send({"type": "lifespan.shutdown.complete"})

    def give_up(self) -> None:
        """Wait no longer for the server's lifespan, if it is being entered or left: it is cancelled."""
        if self._passing is not None:
            self._passing.cancel()


def server_app(service: Service, transport: str, options: HttpOptions, *, watches: bool = True) -> ServerApp:
    """Make the ASGI callable of a server: ``"http"`` (Streamable HTTP, both eras), ``"sse"`` or ``"websocket"``.

    ``watches``: whether it finds out by itself that the server around it stops. Raises ``ConfigError``: there is no
    such transport, or it has no such option; or a list of names is one text.
    """
    endpoint, auth = _make_endpoint(service, transport, options)
    app = ServerApp(service, endpoint, auth, watches=watches)
    if service.routes is not None:
        from antiphon.transports.http.server.entrance import Guard

        used = [options.get("path", _PATHS.get(transport, "/mcp")), *(["/messages"] if transport == "sse" else [])]
        service.routes.check(used + (["/healthz", "/readyz"] if options.get("health") else []))
        guard = Guard(options.get("allowed_hosts"), options.get("allowed_origins"))
        app.serve_route = partial(service.routes.serve, guard)
    return app


_PATHS = {"sse": "/sse", "websocket": "/ws"}
"""Where transports are served that are not at ``/mcp``."""


def _make_endpoint(service: Service, transport: str, options: HttpOptions) -> tuple[_Endpoint, ResourceServer | None]:
    """Make what serves the requests of one transport, with what checks its tokens."""
    given: dict[str, Any] = dict(options)
    for name in ("allowed_hosts", "allowed_origins"):
        if isinstance(given.get(name), str):
            # A text is a sequence of letters: each would be a name, and a "*" among them would allow every host.
            raise ConfigError(f"{name}= is a list, as in {name}=[{given[name]!r}]")

    auth = _take_auth(given, transport)

    async def serve(channel: Channel, caller: Caller | None, headers: Mapping[str, str]) -> None:
        principal = None if caller is None else caller.principal
        await service.serve(channel, principal=principal, headers=headers, caller=caller)

    try:
        if transport in ("http", "streamable-http"):
            return _make_streamable(service, given, auth), auth
        if transport == "sse":
            from antiphon.transports.sse.server import SseApp

            return SseApp(serve, **given), auth
        if transport == "websocket":
            from antiphon.transports.websocket.server import WebSocketApp

            return WebSocketApp(serve, **given), auth
    except TypeError as error:
        # Without the name of the function, which is ours.
        problem = str(error).rpartition("() ")[2]
        use = ELSEWHERE["server.run()"].get(problem.rpartition(" ")[2].strip("'"))
        raise ConfigError(
            f"{transport}: {problem}; {f'here: {use}' if use else 'HttpOptions lists the options'}"
        ) from None
    raise ConfigError(f'unknown transport {transport!r}: choose "stdio", "http", "sse" or "websocket"')


def _take_auth(options: dict[str, Any], transport: str) -> ResourceServer | None:
    """Replace the option ``auth`` by the gate that checks tokens, and return the option."""
    auth: object = options.pop("auth", None)
    check: object = options.get("check_token")
    if check is not None and not callable(check):
        raise ConfigError("check_token= is a function that returns whose a token is, such as {'TOKEN': 'ann'}.get")
    if auth is None:
        return None
    if check is not None:
        raise ConfigError("auth= and check_token= both say whose a token is: choose one")
    from antiphon.auth.server.resource_server import Entrance, ResourceServer

    if not isinstance(auth, ResourceServer):
        raise ConfigError("auth= is a ResourceServer; for a function of your own, ResourceServer(..., check=function)")
    options["gate"] = Entrance(auth, options.get("path", _PATHS.get(transport, "/mcp")))
    return auth


def _make_streamable(service: Service, options: dict[str, Any], auth: ResourceServer | None) -> HttpApp:
    from antiphon.transports.http.server.app import HttpApp

    mirrored = _Mirrored(service)

    def connect(channel: Channel, principal: str | None, headers: Mapping[str, str], assumed: str | None) -> Peer:
        return service.connect(channel, principal=principal, headers=headers, assumed=assumed)

    service.connect_endpoint(options, None if auth is None else auth.covers)
    return HttpApp(connect, parameters=mirrored.of, **options)


class _Mirrored:
    """The arguments of each tool that are repeated in headers; found once for each version of the tools."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._found: dict[str, Sequence[HeaderParam]] = {}
        self._others: dict[str, tuple[Tool, Sequence[HeaderParam]]] = {}
        self._version = -1

    def of(self, name: str, principal: str | None) -> Sequence[HeaderParam]:
        version = self._service.core.features.tools.version
        if self._version != version:
            self._version = version
            self._found.clear()
        found = self._found.get(name)
        if found is not None:
            return found
        tool = self._service.definition_of(name, principal)
        if tool is None:
            return ()
        # Those of a tool that only middleware has are found once for each definition.
        known = self._others.get(name)
        if known is None or known[0] is not tool:
            if len(self._others) >= _REMEMBERED:
                self._others.clear()
            known = self._others[name] = tool, _header_params(tool)
            if name in self._service.core.features.tools:
                self._found[name] = known[1]
        return known[1]


_REMEMBERED = 10_000
"""Most tools of middleware whose headers are remembered."""


def _header_params(tool: Tool) -> Sequence[HeaderParam]:
    try:
        return header_params(tool.input_schema)
    except RemoteProtocolError as error:
        log.warning("clients over HTTP will not use the tool %r: %s", tool.name, error)
        return ()


async def serve_network(service: Service, transport: str, host: str, port: int, options: ServeOptions) -> None:
    """Serve on an address until cancelled or told to stop by a signal. See ``network_server`` for what it raises."""
    network = network_server(service, transport, host, port, options)
    collect_less()
    with contextlib.ExitStack() as held:
        await network.serve(sockets=[held.enter_context(each) for each in open_sockets(host, port)])


@contextlib.asynccontextmanager
async def listen_in_block(
    service: Service, transport: str, host: str, port: int, options: ServeOptions
) -> AsyncGenerator[str]:
    """Serve on an address in the background of a block; yields the URL. See ``Server.listen``."""
    loop, network = find_loop(), network_server(service, transport, host, port, options)
    network.is_embedded, told = True, network.on_started
    app, started = cast("ServerApp", network.config.app), asyncio.Event()

    def note_start() -> None:
        if told is not None:
            told()
        started.set()

    network.on_started = note_start
    sockets = list(open_sockets(host, port))
    serving = loop.create_task(network.serve(sockets=sockets))
    serving.add_done_callback(lambda _: started.set())
    try:
        await started.wait()
        if serving.done():
            raise app.start_error or AntiphonError("the server ended before it began to serve")
        scheme = "http" if transport != "websocket" else "ws"
        name = f"[{host}]" if ":" in host else host
        path = options.get("path", _PATHS.get(transport, "/mcp"))
        yield f"{scheme}{'s' if 'tls_cert' in options else ''}://{name}:{sockets[0].getsockname()[1]}{path}"
    finally:
        network.should_exit = True
        await asyncio.shield(serving)
        for each in sockets:
            each.close()


async def serve_with_workers(
    service: Service, transport: str, host: str, port: int, options: ServeOptions, count: int
) -> None:
    """Serve on an address with several processes until told to stop by a signal: as the parent, or as a worker.

    Raises ``ConfigError``: see ``network_server``; or the server cannot have workers, and the message says why. Raises
    ``AntiphonError``: no worker could be started.
    """
    ends = take_inherited_ends()
    if ends is not None:
        watch_parent(ends)
        collect_less()
        await serve_as_worker(service, lambda: network_server(service, transport, host, port, options), ends)
        return
    from antiphon.server.serving.parent import Parent

    _check_workers(service, transport)
    # Only to raise an error in the options before any process is started.
    network_server(service, transport, host, port, options)
    with contextlib.ExitStack() as held:
        listening = [held.enter_context(each) for each in open_sockets(host, port)]
        await Parent(count, listening, options.get("on_listening")).run()


def _check_workers(service: Service, transport: str) -> None:
    if not hasattr(os, "fork"):
        raise ConfigError("workers=: only systems with Unix sockets have them; run several servers behind a proxy")
    check_encryption("workers=")
    if transport == "sse":
        raise ConfigError(
            "workers=: a session over HTTP+SSE lives in one process, and a client may reach any of them; Streamable "
            "HTTP has no such limit"
        )
    if not service.joins_processes:
        raise ConfigError(
            "workers=: a MemoryCluster joins servers of one process; without it the workers share their sessions by "
            "themselves"
        )
    if service.keeps_tasks_in_memory:
        raise ConfigError(
            "workers=: tasks have to be where all processes find them: "
            "Server(tasks=TaskOptions(store=SqlTaskStore(...)), keys=[...])"
        )


def open_sockets(host: str, port: int) -> Sequence[socket.socket]:
    """Listen on all addresses of a name, with an error that has a remedy: uvicorn logs a number and exits.

    Raises ``ConfigError``: the port is in use, may not be used, or the address is none of this machine.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise ConfigError(f"cannot serve at {host!r}: there is no such address") from None
    made: list[socket.socket] = []
    for family, place in dict.fromkeys((each[0], str(each[4][0])) for each in found):
        # If the system is to choose a port, it is the same for all addresses.
        chosen = made[0].getsockname()[1] if made else port
        try:
            opened = socket.create_server((place, chosen), family=family, backlog=_BACKLOG)
            # Named as TCP: otherwise asyncio lets small messages wait for those before to be confirmed (40 ms).
            made.append(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=opened.detach()))
        except OSError as error:
            for each in made:
                each.close()
            said = _UNUSABLE.get(error.errno or 0, error.strerror or str(error))
            raise ConfigError(f"cannot serve at {host}:{port}: {said}") from None
    return made


_BACKLOG = 2_048
"""Connections that wait to be accepted, as in uvicorn."""

_UNUSABLE = {
    errno.EADDRINUSE: "the port is in use; end what uses it, or choose another (port=, or --http HOST:PORT)",
    errno.EACCES: "ports below 1024 are for the administrator; choose another (port=, or --http HOST:PORT)",
    errno.EADDRNOTAVAIL: "it is no address of this machine; 127.0.0.1 is, and 0.0.0.0 means all of them",
}


def network_server(service: Service, transport: str, host: str, port: int, options: ServeOptions) -> GracefulServer:
    """Make the network server for an address; its ``serve()`` runs it.

    Raises ``ConfigError``: there is no such transport or port; the files for TLS are missing or wrong; or it serves on
    every address of the machine without ``allowed_hosts``, so that any web page could reach it through its visitor's
    browser (DNS rebinding).
    """
    if port not in range(65_536):
        raise ConfigError(f"port= is a number from 0 to 65535, not {port!r}")
    import uvicorn

    from antiphon.transports.http.server.connections import ConnectionLimits, bound_connections
    from antiphon.transports.http.server.shutdown import GracefulServer

    given: dict[str, Any] = dict(options)
    if "allowed_hosts" not in given and host not in ("127.0.0.1", "localhost", "::1"):
        if not host.strip("0:."):
            raise ConfigError(
                f"to serve on {host!r}, say by which names clients reach it: allowed_hosts=['example.com'], "
                "or --allow-host example.com at the command line"
            )
        given["allowed_hosts"] = [host, "localhost", "127.0.0.1", "[::1]"]
    if transport in ("http", "streamable-http"):
        given.setdefault("health", True)
    names = [name for name in ("max_connections", "head_timeout") if name in given]
    limits = ConnectionLimits(**{name: given.pop(name) for name in names})
    tls, on_listening = _take_tls(given), given.pop("on_listening", None)
    # Our own server tells the application at once that it stops.
    app = server_app(service, transport, cast("HttpOptions", given), watches=False)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        lifespan="on",
        http=bound_connections(limits),
        ws="websockets-sansio",
        timeout_graceful_shutdown=DRAIN,
        timeout_keep_alive=REST,
        access_log=False,
        log_level="warning",
        server_header=False,
        # Nothing here uses the address of the client, and finding it in the headers takes 3 % of a request.
        proxy_headers=False,
    )
    if tls is not None:
        # Not an option of every release of uvicorn.
        config.load()
        config.ssl = tls
    server = GracefulServer(config, app.drain, limits)
    server.give_up = app.give_up
    if on_listening is not None:
        server.on_started = lambda: on_listening(server.port)
    return server


def _take_tls(options: dict[str, Any]) -> SSLContext | None:
    """Remove the options for TLS, and return the context they describe."""
    cert, key, password = (options.pop(f"tls_{name}", None) for name in ("cert", "key", "password"))
    if cert is None:
        if key is not None:
            raise ConfigError("TLS: a key alone is of no use: give the certificate, too (tls_cert)")
        return None
    from antiphon.transports.http.server.entrance import server_context

    return server_context(cert, key, password)
