"""``Server``: what an author builds. Decorators fill registries; a connection is opened for every client.

Owns the server's identity, its registries and what all its connections share. Serving is ``handlers``' business, the
meaning of a function's signature ``tools``', ``resources``' and ``prompts``'.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from antiphon.channel import Channel
from antiphon.engine.connection import Connection
from antiphon.engine.telemetry import watch
from antiphon.errors import ConfigError
from antiphon.protocol.capabilities import declares
from antiphon.protocol.events import Notified, Request
from antiphon.protocol.offer import Offer
from antiphon.protocol.server_session import ServerSession
from antiphon.server.completion import Completions
from antiphon.server.context import Context
from antiphon.server.fallback import Fallback, SamplingFallback
from antiphon.server.handlers import Handlers, not_found
from antiphon.server.lifespan import Held
from antiphon.server.limits import DEFAULT_TOOL_RATE, Rate, RateLimiter
from antiphon.server.options import PromptOptions, ResourceOptions, TemplateOptions, ToolOptions
from antiphon.server.pages import Pages
from antiphon.server.prompts import Prompt
from antiphon.server.registry import Registry
from antiphon.server.resources import Resource, ResourceTemplate
from antiphon.server.rounds import RoundOptions, Rounds
from antiphon.server.sealed_state import Seal
from antiphon.server.state_store import StateStore
from antiphon.server.subscriptions import Changes, Subscriptions
from antiphon.server.tools import Requirement, Tool
from antiphon.wire.common import Icon, Implementation
from antiphon.wire.lifecycle import ListChangedCapability, ResourcesCapability, ServerCapabilities
from antiphon.wire.resources import ReadResourceResult
from antiphon.wire.revisions import REVISIONS, Revision

if TYPE_CHECKING:
    from antiphon.server.network import HttpOptions, ServeOptions, ServerApp

__all__ = ["Server"]

F = TypeVar("F", bound=Callable[..., Any])
Lifespan = Callable[["Server"], AbstractAsyncContextManager[Any]]

_GRACE = 2.0
"""Seconds that running handlers have to finish after a client has ended its side: a piped script's last answers."""


class Server:
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
        self.info = Implementation(
            name=name, version=version, title=title, description=description, website_url=website_url, icons=icons
        )
        self.name = name
        self.instructions = instructions
        self.tools: Registry[Tool] = Registry("tool")
        self.resources: Registry[Resource] = Registry("resource")
        self.templates: Registry[ResourceTemplate] = Registry("resource template")
        self.prompts: Registry[Prompt] = Registry("prompt")
        self.completions = Completions(self.prompts, self.templates)
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

    # --- decorators ---------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Make a function a tool: schema from its signature, description and argument docs from its docstring.

        Use as ``@server.tool`` or ``@server.tool(title="...")``; see ``ToolOptions``.

        Raises:
            ConfigError: the signature cannot be a tool's; the message names the place and the remedy.
        """
        return _decorate(lambda given: self.add_tool(Tool.from_function(given, **options)), function)

    def resource(self, uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Make a function a resource, or with ``{gaps}`` in the URI (RFC 6570) a family of resources.

        The gaps are the function's parameters. See ``ResourceOptions``.

        Raises:
            ConfigError: the template is malformed, or its gaps and the parameters differ.
        """
        return lambda given: _decorate(lambda function: self._add_resource(function, uri, options), given)

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    def prompt(self, function: F | None = None, /, **options: Unpack[PromptOptions]) -> F | Callable[[F], F]:
        """Make a function a prompt: its parameters are the arguments, its result the messages.

        Raises:
            ConfigError: the signature cannot be a prompt's; the message names the place and the remedy.
        """
        return _decorate(lambda given: self.add_prompt(Prompt.from_function(given, **options)), function)

    def complete(self, of: str, argument: str) -> Callable[[F], F]:
        """Make a function complete an argument: ``of`` is a prompt's name or a template's URI.

        The function takes what was typed so far and returns the values that fit, the best first.
        """

        def register(given: F) -> F:
            self.completions.add(of, argument, given)
            return given

        return register

    def add_tool(self, tool: Tool) -> None:
        """Add a tool made elsewhere; connected clients are told. Raises ``ConfigError`` if its name is taken."""
        self.tools.add(tool.name, tool)

    def add_prompt(self, prompt: Prompt) -> None:
        """Add a prompt made elsewhere; connected clients are told. Raises ``ConfigError`` if its name is taken."""
        self.prompts.add(prompt.name, prompt)

    def _add_resource(self, function: Callable[..., Any], uri: str, options: ResourceOptions) -> None:
        if "{" not in uri:
            self.resources.add(uri, Resource.from_function(function, uri, **options))
            return
        if "size" in options:
            raise ConfigError(f"{uri}: a template has no size; leave size= out")
        rest = cast("TemplateOptions", options)
        self.templates.add(uri, ResourceTemplate.from_function(function, uri, **rest))

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

    def capabilities(self) -> ServerCapabilities:
        """Say what this server offers, from what has been added to it so far."""
        has_resources = len(self.resources) + len(self.templates) > 0
        return ServerCapabilities(
            tools=ListChangedCapability(list_changed=True) if len(self.tools) else None,
            prompts=ListChangedCapability(list_changed=True) if len(self.prompts) else None,
            resources=ResourcesCapability(list_changed=True, subscribe=True) if has_resources else None,
            completions={} if len(self.completions) else None,
            logging={},
        )

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
        told = watch(channel, over=None if headers is None else "tcp", knows=self._knows)
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

    # --- for the handlers ---------------------------------------------------------------------------------------

    async def read_resource(self, uri: str, context: Context) -> ReadResourceResult:
        """Read a resource of this server's: a fixed one, else the first template that fits.

        Raises:
            ResourceNotFound: nothing serves this URI.
        """
        fixed = self.resources.get(uri)
        if fixed is not None:
            return await fixed.read(uri, context)
        for template in self.templates:
            variables = template.match(uri)
            if variables is not None:
                return await template.read(uri, context)
        raise not_found(uri)

    def code_of_resource(self, uri: str) -> bytes:
        """Return the digest of the code that serves a URI, empty if none does."""
        fixed = self.resources.get(uri)
        fitting = (template for template in self.templates if template.match(uri) is not None)
        found = fixed or next(fitting, None)
        return found.code if found is not None else b""

    def _knows(self, method: str, name: str) -> bool:
        return name in (self.tools if method == "tools/call" else self.prompts)

    def _left(self, peer: Connection[ServerSession]) -> None:
        self.subscriptions.leave(peer)
        if self._limiter is not None:
            self._limiter.forget(id(peer))

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
    def name_of(request: Request) -> str:
        """Return what a request is about: a tool's or prompt's name, or a URI."""
        return getattr(request.params, "name", None) or getattr(request.params, "uri", "")

    @staticmethod
    def arguments_of(request: Request) -> bytes:
        """Return the arguments of a request as JSON bytes, empty if it has none."""
        arguments = getattr(request.params, "arguments", None)
        if isinstance(arguments, dict):
            from antiphon.wire.envelope import encode

            return encode(arguments)
        return bytes(arguments or b"")


def _notified(peer: Connection[ServerSession], event: Notified) -> None:
    if event.method.name == "notifications/initialized":
        peer.ready.set()


def _decorate(register: Callable[[F], object], function: F | None) -> Any:
    """Register a function and give it back; without one, return the decorator that will."""

    def decorate(given: F) -> F:
        register(given)
        return given

    return decorate if function is None else decorate(function)
