"""``Server``: what an author builds and runs. A connection is opened for every client.

Owns the server's identity, how long it is open, and what all its connections share. What it offers is ``decorators``',
serving requests ``handlers``' business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from antiphon.channel import Channel
from antiphon.engine.connection import Connection
from antiphon.engine.telemetry import watch
from antiphon.errors import ConfigError
from antiphon.protocol.capabilities import declares
from antiphon.protocol.events import Notified, Request
from antiphon.protocol.server_offer import Offer
from antiphon.protocol.server_session import ServerSession
from antiphon.server.asks.fallback import Fallback, SamplingFallback
from antiphon.server.calls.request_state import Seal
from antiphon.server.calls.rounds import RoundOptions, Rounds
from antiphon.server.calls.state_store import StateStore
from antiphon.server.decorators import Features
from antiphon.server.features.tools import Requirement
from antiphon.server.handlers import Handlers
from antiphon.server.lifespan import Held
from antiphon.server.limits import DEFAULT_TOOL_RATE, Rate, RateLimiter
from antiphon.server.listing import Pages
from antiphon.server.subscriptions import Changes, Subscriptions
from antiphon.wire.common import Icon, Implementation
from antiphon.wire.envelope import encode
from antiphon.wire.revisions import REVISIONS, Revision

if TYPE_CHECKING:
    from antiphon.server.network import HttpOptions, ServeOptions, ServerApp

__all__ = ["Server"]

Lifespan = Callable[["Server"], AbstractAsyncContextManager[Any]]

_GRACE = 2.0
"""Seconds that running handlers have to finish after a client has ended its side: a piped script's last answers."""


class Server(Features):
    """An MCP server. Add features with the decorators, then ``run`` it.

    ``name`` and ``version`` say what it is; ``instructions`` tell a model how to use it. ``lifespan``: an async
    context manager ``(server) -> state``, entered once for all connections; ``Context.state`` is what it yields.
    ``tool_rate`` bounds how often a client may call tools (``None``: without limit). ``page_size``: most entries of a
    list sent at once. ``error_details``: send the text of unexpected exceptions of tools to the client; by default
    it learns only their type. ``sampling_fallback``: the server's own model for clients that offer none: an async
    function of a request's params, or an object with ``complete(params)``; never asked after a refusal.

    How calls that ask go on at 2026-07-28: ``parked_for``: seconds a call waits in memory for its answers.
    ``max_parked``: most calls that wait so, ``max_parked_bytes``: most bytes of requests they hold. ``keys``: 32 bytes
    each, the same in all processes of a server (the first seals, all open): a call whose retry comes to another
    process, or after ``parked_for``, is run again there over what it has learnt, for ``state_for`` seconds.
    ``state_store``: shared memory of these processes, for long calls and for ``once=True``. ``code_version``: what must
    be the same for a call to go on elsewhere; by default the handler's code.
    """

    state: Any = None
    """What the lifespan yielded, while the server runs."""
    _held: Held | None = None
    _is_open = False
    _offer: Offer | None = None
    _users = 0

    def __init__(
        self,
        name: str,
        *,
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
        revisions: Sequence[Revision] = REVISIONS,
    ) -> None:
        super().__init__()
        _refuse_unless_text(name=name, version=version)
        self.info = Implementation(
            name=name, version=version, title=title, description=description, website_url=website_url, icons=icons
        )
        self.name = name
        self.instructions = instructions
        self.subscriptions = Subscriptions()
        self._changes = Changes(self.subscriptions, self.offer)
        self.pages = Pages(self, page_size)
        self.code_version = code_version
        options = RoundOptions(parked_for, state_for, max_parked, max_parked_bytes, state_store)
        self.rounds = Rounds(self, Seal(keys), options, is_shared=bool(keys))
        self._handlers = Handlers(self).table()
        self._revisions = tuple(revisions)
        self._lifespan = lifespan
        self._limiter = RateLimiter(tool_rate, time.monotonic) if tool_rate is not None else None
        self._error_details = error_details
        self.sampling_fallback = Fallback(sampling_fallback) if sampling_fallback is not None else None
        self._gate: tuple[asyncio.AbstractEventLoop | None, asyncio.Lock] = None, asyncio.Lock()
        self._watch()

    # --- changes ------------------------------------------------------------------------------------------------

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to it that a resource has changed. May be called from any thread."""
        self._changes.resource(uri)

    def _watch(self) -> None:
        self.tools.on_change(lambda: self._changes.list("tools"))
        self.prompts.on_change(lambda: self._changes.list("prompts"))
        self.resources.on_change(lambda: self._changes.list("resources"))
        self.templates.on_change(lambda: self._changes.list("resources"))

    # --- serving ------------------------------------------------------------------------------------------------

    def run(
        self,
        transport: str = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        **options: Unpack[ServeOptions],
    ) -> None:
        """Serve until the client ends it, or until interrupted. Blocks; call it last.

        ``transport``: ``"stdio"``: the client is the parent process, standard output is the protocol's, and what is
        printed goes to standard error. ``"http"``: Streamable HTTP at ``http://host:port/mcp``, both eras;
        ``"sse"``: the transport of 2024-11-05, at ``/sse``; ``"websocket"``: at ``/ws``. See ``ServeOptions``.

        Raises:
            ConfigError: there is no such transport, or it cannot be served so.
        """
        from antiphon.server.run import run

        run(self, transport, host, port, options)

    def asgi(self, **options: Unpack[HttpOptions]) -> ServerApp:
        """Return this server as an ASGI callable, Streamable HTTP of both eras, to mount in any ASGI framework."""
        from antiphon.server.network import server_app

        return server_app(self, "http", options)

    def offer(self) -> Offer:
        """Return the capabilities and what follows from them: the same object for all sessions, until they change."""
        offer, capabilities = self._offer, self.capabilities()
        if offer is None or offer.capabilities != capabilities or offer.instructions != self.instructions:
            offer = self._offer = Offer(self.info, capabilities, self.instructions, self._revisions)
        return offer

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Hold the server open: the lifespan is entered with the first user and left with the last."""
        self._users += 1
        try:
            async with self._gate_of_this_loop():
                if not self._is_open:
                    await self._open()
            yield
        finally:
            self._users -= 1
            async with self._gate_of_this_loop():
                if self._users == 0 and self._is_open:
                    await self._close()

    def _gate_of_this_loop(self) -> asyncio.Lock:
        """Return the lock on opening and closing. A server may serve one event loop after another, a lock may not."""
        loop = asyncio.get_running_loop()
        if self._gate[0] is not loop:
            self._gate = loop, asyncio.Lock()
        return self._gate[1]

    async def _open(self) -> None:
        if self._lifespan is not None:
            held = Held(self._lifespan(self))
            self.state = await held.enter()
            self._held = held
        self.rounds.closed = False
        self._changes.open()
        self._is_open = True

    async def _close(self) -> None:
        tasks = self.rounds.close()
        if tasks:
            await asyncio.wait(tasks, timeout=_GRACE)
        self._changes.close()
        self._is_open = False
        held, self._held = self._held, None
        try:
            if held is not None:
                await held.leave()
        finally:
            self.state = None

    def connect(
        self, channel: Channel, *, principal: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Connection[ServerSession]:
        """Open a connection to one client; the caller starts, awaits and closes it, inside ``serving``.

        ``principal``: who the client has proven to be; ``headers``: those of the transport's request, if it has any.
        """
        session = ServerSession(self.offer())
        told = watch(channel, over=None if headers is None else "tcp", knows=self.has)
        peer = Connection(channel, session, told.serving(self._handlers) if told else self._handlers, grace=_GRACE)
        if told is not None:
            peer.watch, session.carries = told, told.carries
        peer.on_notified = partial(_notified, peer)
        peer.on_close = partial(self.subscriptions.close, peer)
        peer.on_end = partial(self._left, peer)
        peer.principal = principal
        peer.headers = headers or {}
        self.subscriptions.join(peer)
        return peer

    async def serve(
        self, channel: Channel, *, principal: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Serve one client over a channel until it ends. See ``connect`` for the arguments."""
        async with self.serving():
            peer = self.connect(channel, principal=principal, headers=headers)
            peer.start()
            try:
                await peer.wait_ended()
            finally:
                await peer.close()

    def _left(self, peer: Connection[ServerSession]) -> None:
        self.subscriptions.leave(peer)
        if self._limiter is not None:
            self._limiter.forget(id(peer))

    # --- for the handlers ---------------------------------------------------------------------------------------

    def tool_wait(self, peer: Connection[ServerSession]) -> float:
        """Take a place in the tool rate of a peer; return the seconds to wait for it."""
        if self._limiter is None:
            return 0.0
        return self._limiter.take(peer.principal or id(peer))

    def can_serve(self, needed: Requirement, request: Request) -> bool:
        """Tell whether what a tool requires is there: offered by the client, or by the server's own model."""
        if self.sampling_fallback is not None and self.sampling_fallback.stands_for(needed):
            return True
        return declares(request.capabilities, needed)

    def describe_failure(self, name: str, error: Exception) -> str:
        """Say to a client that a tool has failed, and no more than it may know."""
        kind = type(error).__name__
        return f"{name} failed: {kind}: {error}" if self._error_details else f"{name} failed: {kind}"

    @staticmethod
    def arguments_of(request: Request) -> bytes:
        """Return the arguments of a request as JSON bytes, empty if it has none."""
        arguments = getattr(request.params, "arguments", None)
        if isinstance(arguments, dict):
            return encode(arguments)
        return bytes(arguments or b"")


def _refuse_unless_text(**given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, str):
            raise ConfigError(f"Server({name}=) must be text, got {value!r}")


def _notified(peer: Connection[ServerSession], event: Notified) -> None:
    if event.method.name == "notifications/initialized":
        peer.ready.set()
