"""Shutdown of uvicorn: the application's open streams are ended first, because they would delay the exit.

uvicorn waits for open responses before it ends the application's lifespan, but a stream that a client listens to ends
only with the application. Also applies the limits of connections. This module imports uvicorn, so it is imported only
by programs that serve.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from types import FrameType
from typing import Any

import uvicorn

from antiphon.machine.listening_sockets import accept_rest
from antiphon.transports.http.server.connections import BoundedConnection, ConnectionLimits, Give, Sweep

_LEAVE = 0.5
"""Seconds in which an idle or new connection may bring a request, whose response then closes it. Far longer than a
request is in flight, short compared with the time for open requests. Connections idle after that are closed."""

_LOOKS = 10
"""How often idle connections are looked at on which something has come: the event loop reads it in its next pass."""

_PAUSE = 0.1
"""Seconds between two attempts to give connections to other processes."""

_TICKS = 10
"""Ticks of uvicorn's clock between two checks of the connections: a second."""


class GracefulServer(uvicorn.Server):
    """A uvicorn server that closes its application as soon as it no longer accepts connections.

    ``limits`` has the time limits of its connections; the other limits are in the class that
    ``connections.bound_connections`` makes.
    """

    def __init__(
        self, config: uvicorn.Config, close: Callable[..., Awaitable[object]], limits: ConnectionLimits | None = None
    ) -> None:
        super().__init__(config)
        self._close = close
        limits = limits or ConnectionLimits()
        self._sweep = Sweep(limits)
        self._head_timeout = limits.head_timeout
        self.is_embedded = False
        """Whether signals are left to the owner of the event loop."""
        self.on_started: Callable[[], object] | None = None
        """Called when it serves."""
        self.on_look: Callable[[], object] | None = None
        """Called ten times a second."""
        self.give_up: Callable[[], object] | None = None
        """Called at a Ctrl-C before it serves, and at a second one: what the application waits for may never come."""
        self.give: Give | None = None
        """Gives connections to other processes that serve the same port, if there are any."""
        self._grace: float | None = None
        """Seconds that open requests have while the others take the rest over; ``None`` if they do not."""
        self._hurrying: asyncio.Task[object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop, which a signal handler may not ask for."""

    async def on_tick(self, counter: int) -> bool:
        """Do the work that is due, ten times a second."""
        if counter % _TICKS == 0:
            self._sweep(self.server_state.connections, asyncio.get_running_loop().time())
        if self.on_look is not None:
            self.on_look()
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, unless a signal says to stop before."""
        try:
            await super().startup(sockets)
        except SystemExit:
            # What was given up has not failed, and whoever serves in a block goes on.
            if not self.should_exit and not self.is_embedded:
                raise
            self.should_exit = True
        if self.started and self.on_started is not None:
            self.on_started()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self.servers[0].sockets[0].getsockname()[1]

    async def take(self, connection: socket.socket, request: bytes = b"") -> None:
        """Serve a connection that somebody else has accepted, and a request that was read from it.

        Raises ``OSError``: it has ended already, or its TLS handshake failed.
        """
        connection.setblocking(False)
        loop, config = asyncio.get_running_loop(), self.config
        protocol: Any = config.http_protocol_class

        def make() -> asyncio.Protocol:
            made: asyncio.Protocol = protocol(
                config=config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
            )
            if isinstance(made, BoundedConnection):
                made.brought = request
                # What TLS has agreed on is in this process.
                made.give = self.give if config.ssl is None else None
            return made

        # As uvicorn does for those that it accepts.
        await loop.connect_accepted_socket(make, connection, ssl=config.ssl)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, let the application end what is open, then continue as uvicorn does."""
        rest = self._stop_listening(sockets or ())
        if rest:
            # What takes longer is a handshake of TLS.
            await asyncio.wait([asyncio.ensure_future(self._take(each)) for each in rest], timeout=_LEAVE)
        await self._take_leave()
        if self._grace is None:
            await self._close()
        else:
            await self._close_after(self._grace)
        await super().shutdown(sockets)

    def leave(self, grace: float) -> None:
        """Stop, and give other processes each connection as soon as nothing is open on it.

        Open requests have ``grace`` seconds; if this is called again, so many from then on.
        """
        if self._grace is None:
            self._grace, self.should_exit = grace, True
        else:
            self._hurrying = asyncio.ensure_future(self._close(grace))

    async def _close_after(self, grace: float) -> None:
        """Let the application end what is open, and meanwhile give away what is not."""
        loop = asyncio.get_running_loop()
        until = loop.time() + min(grace, self._head_timeout)
        while any(each.is_given_back and each.reads_head for each in self._kept()) and loop.time() < until:
            # Nobody else can read the rest of a head.
            await asyncio.sleep(_PAUSE)
            self._hand_back()
        closing = asyncio.ensure_future(self._close(grace))
        while not closing.done():
            await asyncio.wait((closing,), timeout=_PAUSE)
            self._hand_back()
        await closing
        if self._hurrying is not None:
            await self._hurrying

    def _hand_back(self) -> None:
        for each in self._kept():
            if each.is_given_back:
                each.hand_back()

    def _stop_listening(self, sockets: Iterable[socket.socket]) -> list[socket.socket]:
        """Accept no more connections, and return those of which the system has not told the event loop yet."""
        listening = [
            socket.fromfd(each.fileno(), each.family, each.type) for server in self.servers for each in server.sockets
        ]
        for server in (*self.servers, *sockets):
            server.close()
        return [connection for each in listening for connection in accept_rest(each)]

    async def _take(self, connection: socket.socket) -> None:
        try:
            await self.take(connection)
        except OSError:
            connection.close()

    async def _take_leave(self) -> None:
        """Close idle connections without losing requests that are already in flight; or give them away."""
        if self._awaiting():
            await asyncio.sleep(_LEAVE)
        for _ in range(_LOOKS):
            for each in self._awaiting():
                # On a busy machine the event loop may not have seen yet what has come: closing would lose it.
                if not _has_come(each.transport):
                    each.transport.close()
            if not self._awaiting():
                return
            await asyncio.sleep(0)
        for each in self._awaiting():
            each.transport.close()

    def _kept(self) -> list[BoundedConnection]:
        return [each for each in list(self.server_state.connections) if isinstance(each, BoundedConnection)]

    def _awaiting(self) -> list[BoundedConnection]:
        """Return the connections that serve nothing, after telling all of them that the next response is the last."""
        kept = self._kept()
        for each in kept:
            each.take_leave(gives=self._grace is not None)
        return [each for each in kept if each.is_quiet and not each.is_given_back and not each.transport.is_closing()]

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at a signal, or stop waiting; uvicorn alone waits for the application's lifespan for ever."""
        is_pressing = self.should_exit and sig == signal.SIGINT
        super().handle_exit(sig, frame)
        if self.give_up is not None and self._loop is not None and (is_pressing or not self.started):
            self._loop.call_soon_threadsafe(self.give_up)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop at SIGINT and SIGTERM, without raising the signal again after an orderly end."""
        if self.is_embedded:
            yield
            return
        self._loop = asyncio.get_running_loop()
        with super().capture_signals():
            yield
            self._captured_signals.clear()


@contextlib.asynccontextmanager
async def serve_embedded(
    app: Any,
    sockets: list[socket.socket],
    connection: type[BoundedConnection],
    *,
    close: Callable[..., Awaitable[object]],
    grace: int,
    most: int | None = None,
) -> AsyncGenerator[None]:
    """Serve an application in the background of a block, within a program of somebody else: no log, no signals.

    ``close`` ends the streams of the application. ``grace``: seconds for the responses that are still open then.
    ``most``: connections beyond which requests are answered with status 503.
    """
    config = uvicorn.Config(
        app,
        http=connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=most,
        timeout_graceful_shutdown=grace,
    )
    server = GracefulServer(config, close, connection.limits)
    server.is_embedded = True
    serving = asyncio.create_task(server.serve(sockets=sockets))
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.shield(serving)


def _has_come(transport: asyncio.BaseTransport) -> bool:
    """Tell whether something can be read from a connection, its end included, whatever the event loop knows of it."""
    held: socket.socket | None = transport.get_extra_info("socket")
    if held is None or held.fileno() < 0:
        return False
    with selectors.DefaultSelector() as look:
        look.register(held.fileno(), selectors.EVENT_READ)
        return bool(look.select(0))
