"""One server behind a gateway: started on first use, and started again after it ended, never more than once at a time.

Owns the client of that server, its offer and its state. ``gateway`` converts requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any, Literal

from msgspec import Struct

from antiphon.auth.client.oauth import Auth
from antiphon.client.client import Client
from antiphon.client.connection.targets import Target
from antiphon.errors import AntiphonError, ConnectionClosed
from antiphon.gateway.asks import Answerers
from antiphon.host.configured_host import Configured
from antiphon.host.host import Host
from antiphon.server.middleware import ServerRequest
from antiphon.wire.prompts import Prompt
from antiphon.wire.resources import Resource, ResourceTemplate
from antiphon.wire.tools import Tool

__all__ = ["Kind", "Offer", "SignIn", "State", "Unavailable", "Upstream"]

log = logging.getLogger("antiphon.gateway")

Kind = Literal["tools", "prompts", "resources"]
State = Literal["stopped", "starting", "running", "failed"]

SignIn = Callable[[str], Awaitable[Auth | None]]
"""Called with the name of a server; returns what ``Client(auth=)`` takes, ``None`` for a server without a login."""

MAX_ITEMS = 10_000
"""Most tools, prompts, resources or templates that are listed of one server."""

_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""Seconds after which a failed server may be started again, so that one that always fails does not cost much."""


class Offer(Struct, frozen=True, kw_only=True):
    """What a server offers, as last listed."""

    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    completes: bool = False
    """Whether it completes arguments."""
    instructions: str | None = None


class Unavailable(AntiphonError):
    """A server behind the gateway cannot be used now; the message names it, the reason, and the next attempt."""


class Upstream:
    """A server behind a gateway.

    Args:
        name: name it is configured by.
        target: as ``Client`` takes it.
        host: decides which of its tools may be called.
        answerers: answer what it asks.
        timeout: seconds for each request to it, without the time a person takes; ``None`` for no limit.
        start_timeout: seconds in which it must open its session and list what it has.
        changed: called with the kind of list that has changed.
        sign_in: called before it is connected to; returns what ``Client(auth=)`` takes.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        host: Host | Configured,
        answerers: Answerers,
        *,
        timeout: float | None,
        start_timeout: float,
        changed: Callable[[Kind], object],
        sign_in: SignIn | None = None,
    ) -> None:
        self.name = name
        self.offer = Offer()
        self.state: State = "stopped"
        self.error: str | None = None
        """Why it failed last."""
        self._target = target
        self._host = host
        self._answerers = answerers
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._changed = changed
        self._sign_in = sign_in
        self._client: Client | None = None
        self._starting: asyncio.Task[Client] | None = None
        self._following: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._again_at = 0.0
        self._is_closed = False

    @asynccontextmanager
    async def used(self, request: ServerRequest) -> AsyncGenerator[Client]:
        """Use the server for a request of a client; it is started if it is not running.

        Args:
            request: the client's request; what the server asks meanwhile belongs to it.

        Raises:
            Unavailable: it cannot be started, failed a moment ago, or ended while it was used.
        """
        client = await self._started()
        relay = self._answerers.relay
        try:
            async with relay.during(request, client) if relay is not None else nullcontext():
                yield client
        except ConnectionClosed as error:
            self._lost(client, str(error))
            raise self._unavailable(f"it ended during the request: {error}") from error

    async def start(self) -> None:
        """Start the server if it is not running. See ``used``."""
        self._is_closed = False
        await self._started()

    async def close(self) -> None:
        """End the server; it is not started again before ``start``."""
        self._is_closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        client, self._client = self._client, None
        if client is not None:
            await self._leave(client)
        if self._leaving:
            await asyncio.wait(self._leaving)
        self.state = "stopped"

    # --- starting -----------------------------------------------------------------------------------------------

    async def _started(self) -> Client:
        if self._client is not None:
            return self._client
        if self._is_closed:
            raise self._unavailable("the gateway is closing")
        wait = self._again_at - asyncio.get_running_loop().time()
        if self._starting is None and wait > 0:
            raise self._unavailable(f"{self.error}; it is tried again in {max(1, round(wait))} s")
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
            self._starting.add_done_callback(self._start_ended)
        # All callers wait for the same start; cancelling one of them must not cancel it.
        return await asyncio.shield(self._starting)

    def _start_ended(self, starting: asyncio.Task[Client]) -> None:
        self._starting = None
        if not starting.cancelled():
            # The callers have received the error; if none waits, it must not be reported as never
            # retrieved.
            starting.exception()

    async def _start(self) -> Client:
        self.state = "starting"
        client = Client(
            self._target,
            auth=await self._sign_in(self.name) if self._sign_in is not None else None,
            sampling=self._answerers.sampling,
            elicitation=self._answerers.elicitation,
            roots=self._answerers.roots,
            confirm=self._host,
            timeout=self._timeout,
            errlog=self._heard,
        )
        try:
            async with asyncio.timeout(self._start_timeout):
                await client.connect()
                followed = asyncio.Event()
                self._following = asyncio.get_running_loop().create_task(self._follow(client, followed))
                # Before its offer is listed, so that no later change is missed.
                await followed.wait()
                self.offer = await _offer_of(client)
        except BaseException as error:
            await self._leave(client)
            self.state = "failed"
            if isinstance(error, TimeoutError):
                error = TimeoutError(f"it did not open a session within {self._start_timeout:g} s")
            if not isinstance(error, (AntiphonError, OSError, TimeoutError)):
                raise
            self._failed(str(error))
            raise self._unavailable(str(error)) from None
        self._client, self.state, self.error, self._failures = client, "running", None, 0
        return client

    def _failed(self, why: str) -> None:
        self.error = why
        pause = _PAUSES[min(self._failures, len(_PAUSES) - 1)]
        self._failures += 1
        self._again_at = asyncio.get_running_loop().time() + pause
        log.warning("%s failed: %s", self.name, why)

    def _unavailable(self, why: str) -> Unavailable:
        return Unavailable(f"The server {self.name!r} is not available: {why}")

    def _heard(self, line: str) -> None:
        log.info("%s: %s", self.name, line)

    # --- running ------------------------------------------------------------------------------------------------

    async def _follow(self, client: Client, followed: asyncio.Event) -> None:
        """Follow changes until the connection ends; ``followed`` is set once they are subscribed to."""
        offered = client.server_capabilities
        tools, prompts = offered.tools is not None, offered.prompts is not None
        resources = offered.resources is not None
        if not (tools or prompts or resources):
            return followed.set()
        try:
            async with client.listen(tools=tools, prompts=prompts, resources=resources) as changes:
                followed.set()
                async for change in changes:
                    if change.kind != "resource":
                        self.offer = await _offer_of(client)
                        self._changed(change.kind)
        except AntiphonError as error:
            log.debug("%s tells of no changes: %s", self.name, error)
        finally:
            followed.set()

    def _lost(self, client: Client, why: str) -> None:
        if self._client is not client:
            return
        self._client, self.state = None, "stopped"
        self._failed(why)
        leaving = asyncio.get_running_loop().create_task(self._leave(client))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    async def _leave(self, client: Client) -> None:
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait([following])
        with suppress(AntiphonError):
            await client.close()


async def _offer_of(client: Client) -> Offer:
    """List what a server offers."""
    has = client.server_capabilities
    resources = has.resources is not None
    return Offer(
        tools=await _taken(client.tools()) if has.tools is not None else (),
        prompts=await _taken(client.prompts()) if has.prompts is not None else (),
        resources=await _taken(client.resources()) if resources else (),
        templates=await _taken(client.resource_templates()) if resources else (),
        completes=has.completions is not None,
        instructions=client.instructions,
    )


async def _taken(items: AsyncIterator[Any]) -> tuple[Any, ...]:
    taken: list[Any] = []
    async for item in items:
        taken.append(item)
        if len(taken) == MAX_ITEMS:
            break
    return tuple(taken)
