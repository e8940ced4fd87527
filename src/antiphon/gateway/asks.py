"""Who answers what the servers behind a gateway ask: its host, or the client whose call the ask belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Literal

from msgspec import Struct

from antiphon.client.client import Client
from antiphon.errors import Rejected
from antiphon.host.configured_host import Configured
from antiphon.host.host import Host
from antiphon.server.middleware import ServerRequest
from antiphon.wire.common import ClientCapabilities, RequestParams
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.revisions import revision
from antiphon.wire.roots import Root
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Answered", "Answerers", "Relay", "by_host"]

Answered = Literal["host", "relay"]
"""``host``: by the gateway's host, whatever the client offers; ``relay``: by the client, if it offers that."""


class Answerers(Struct, frozen=True):
    """What answers the asks of one server, as ``Client`` takes it."""

    sampling: Any
    elicitation: Any
    roots: Callable[[], Awaitable[Sequence[Root]]] | None = None
    relay: Relay | None = None
    """What must know which call is open."""


def by_host(host: Host | Configured) -> Answerers:
    """Have everything answered by a host. It has no roots."""
    return Answerers(host, host.elicit)


_open_call: ContextVar[ServerRequest] = ContextVar("antiphon_gateway_call")
"""The call that this task makes to a server behind the gateway."""


class Relay:
    """Passes the asks of one server on to the client whose call they belong to.

    A server of 2026-07-28 asks within its answer to a call, so the ask is that call's. An older one sends requests,
    which do not say what they belong to: with it one call is open at a time.

    Args:
        capabilities: those of the client, which are declared to the server as they are.
    """

    def __init__(self, capabilities: ClientCapabilities) -> None:
        self.capabilities = capabilities
        self._turn = asyncio.Lock()
        self._is_legacy = False
        self._only: ServerRequest | None = None

    @property
    def answerers(self) -> Answerers:
        """What to connect to the server with: no more than the client offers."""
        offered = self.capabilities
        return Answerers(
            self if offered.sampling is not None else None,
            self.elicit if offered.elicitation is not None else None,
            self.roots if offered.roots is not None else None,
            self,
        )

    @asynccontextmanager
    async def during(self, request: ServerRequest, client: Client) -> AsyncGenerator[None]:
        """Take note that a request is served by a call to the server, for as long as that is open."""
        spoken = revision(client.revision)
        self._is_legacy = spoken is None or not spoken.modern
        if self._is_legacy:
            async with self._turn:
                self._only = request
                try:
                    yield
                finally:
                    self._only = None
        else:
            before = _open_call.set(request)
            try:
                yield
            finally:
                _open_call.reset(before)

    async def __call__(self, params: CreateMessageRequestParams, _origin: Origin) -> CreateMessageResult:
        """Have the client sample."""
        return await self._request().ask("sampling/createMessage", params)

    async def elicit(self, params: ElicitRequestParams, _origin: Origin) -> ElicitResult:
        """Have the client ask its user."""
        return await self._request().ask("elicitation/create", params)

    async def roots(self) -> Sequence[Root]:
        """Have the client list its roots."""
        return (await self._request().ask("roots/list", RequestParams())).roots

    def _request(self) -> ServerRequest:
        # The task that reads from an older server was begun within some call, which need not be the one that is open.
        request = self._only if self._is_legacy else _open_call.get(None)
        if request is None:
            raise Rejected(
                "No call of this client is open that the request could belong to", data={"reason": "no-call"}
            )
        return request
