"""``Server``: what an author builds and runs.

Owns what an author may say about a server. What it offers is ``decorators``', serving clients ``service``'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Unpack

from antiphon.channel import Channel
from antiphon.errors import ConfigError
from antiphon.protocol.server_offer import Offer
from antiphon.server.calls.request_state import Seal
from antiphon.server.calls.rounds import RoundOptions
from antiphon.server.calls.state_store import StateStore
from antiphon.server.core import Core
from antiphon.server.decorators import Features
from antiphon.server.fallback import Fallback, SamplingFallback
from antiphon.server.limits import DEFAULT_TOOL_RATE, Rate
from antiphon.server.service import Service
from antiphon.wire.common import Icon, Implementation
from antiphon.wire.revisions import REVISIONS, Revision, revision

if TYPE_CHECKING:
    from antiphon.server.network import HttpOptions, ServeOptions, ServerApp

__all__ = ["Server"]

Lifespan = Callable[["Server"], AbstractAsyncContextManager[Any]]


class Server(Features):
    """An MCP server. Add features with the decorators, then ``run`` it.

    ``name``, ``version``: what the server is, for clients.
    ``title``, ``description``, ``website_url``, ``icons``: how a client may present it.
    ``instructions``: how a model should use it, as text.
    ``lifespan``: async context manager ``(server) -> state``, entered once for all connections; ``Context.state`` is
    what it yields.
    ``tool_rate``: how often one client may call tools, a ``Rate``; ``None``: without limit.
    ``page_size``: most entries of a list sent at once.
    ``error_details``: send the text of unexpected exceptions of tools; by default a client learns only their type.
    ``sampling_fallback``: the server's own model for clients that offer none: an async function of a request's params,
    or an object with ``complete(params)``; never asked after a refusal.
    ``revisions``: the revisions it speaks, by name, as in ``["2025-11-25"]``; all by default.

    How calls that ask go on at 2026-07-28 (basic/patterns/mrtr):

    ``parked_for``: seconds a call waits in memory for its answers.
    ``max_parked``: most calls that wait so.
    ``max_parked_bytes``: most memory that they hold, in bytes, nearly.
    ``keys``: 32 bytes each, the same in all processes of a server (the first seals, all open): a call whose retry comes
    to another process, or after ``parked_for``, is run again there over what it has learnt.
    ``state_for``: seconds a client may take for that.
    ``state_store``: shared memory of these processes, for long calls and for ``once=True``.
    ``code_version``: what must be the same for a call to go on elsewhere; by default the handler's code.

    Raises ``ConfigError`` for a value that cannot be used; the message names it and the remedy.
    """

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
        revisions: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name)
        _refuse_unless_text(name=name, version=version)
        self.info = Implementation(
            name=name, version=version, title=title, description=description, website_url=website_url, icons=icons
        )
        self.instructions = instructions
        self._revisions = _revisions(revisions)
        self._offered: Offer | None = None
        core = Core(
            self,
            self._completions,
            fallback=Fallback(sampling_fallback) if sampling_fallback is not None else None,
            tool_rate=tool_rate,
            code_version=code_version,
            error_details=error_details,
        )
        self._service = Service(
            core,
            self._offer,
            lifespan=None if lifespan is None else lambda: lifespan(self),
            page_size=page_size,
            seal=Seal(keys),
            rounds=RoundOptions(parked_for, state_for, max_parked, max_parked_bytes, state_store),
            is_shared=bool(keys),
        )

    @property
    def state(self) -> Any:
        """What the lifespan yielded, while the server runs; ``None`` without one."""
        return self._service.core.state

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to it that a resource has changed. May be called from any thread."""
        self._service.changes.resource(uri)

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
        printed goes to standard error. ``"http"``, or ``"streamable-http"``: Streamable HTTP at
        ``http://host:port/mcp``, both eras; ``"sse"``: the transport of 2024-11-05, at ``/sse``; ``"websocket"``: at
        ``/ws``.
        ``host``, ``port``: the address to serve on, where the transport is a network's.
        ``options``: see ``ServeOptions``.

        Raises:
            ConfigError: there is no such transport, or it cannot be served so.
        """
        from antiphon.server.run import run

        run(self._service, transport, host, port, options)

    def asgi(self, **options: Unpack[HttpOptions]) -> ServerApp:
        """Return this server as an ASGI callable, Streamable HTTP of both eras, to mount in any ASGI framework.

        ``options``: see ``HttpOptions``.
        """
        from antiphon.server.network import server_app

        return server_app(self._service, "http", options)

    async def serve(
        self, channel: Channel, *, principal: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Serve one client over a channel of your own until it ends.

        ``channel``: where its frames come from and go to.
        ``principal``: who the client has proven to be, if it has.
        ``headers``: those of the transport's request, if it has any.
        """
        await self._service.serve(channel, principal=principal, headers=headers)

    def _offer(self) -> Offer:
        """Return the capabilities and what follows from them: the same object for all sessions, until they change."""
        offer, capabilities = self._offered, self._service.core.capabilities()
        if offer is None or offer.capabilities != capabilities or offer.instructions != self.instructions:
            offer = self._offered = Offer(self.info, capabilities, self.instructions, self._revisions)
        return offer


def _revisions(names: Sequence[str] | None) -> tuple[Revision, ...]:
    """Find the revisions a server speaks, in their own order."""
    if names is None:
        return REVISIONS
    for name in names:
        if revision(name) is None:
            raise ConfigError(
                f"Server(revisions=): there is no {name!r}; there are {', '.join(r.name for r in REVISIONS)}"
            )
    if not names or isinstance(names, str):
        raise ConfigError(f'Server(revisions=) is a list of at least one, as in ["{REVISIONS[-1].name}"]')
    return tuple(each for each in REVISIONS if each.name in names)


def _refuse_unless_text(**given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, str):
            raise ConfigError(f"Server({name}=) must be text, got {value!r}")
