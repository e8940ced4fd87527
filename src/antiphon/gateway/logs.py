"""Log messages of the servers behind a gateway: requested at the level that clients want, and passed on.

A client of 2026-07-28 sets its level with each request, an older one once. Servers are asked for the least severe level
that is wanted; each client's session leaves out what is below its level. Sources: 2025-11-25 and 2026-07-28
server/utilities/logging.
"""

from __future__ import annotations

from contextlib import suppress

from antiphon.client.client import Client
from antiphon.errors import MethodNotFound
from antiphon.gateway.relayed_asks import OpenRequests
from antiphon.server.server_middleware import ServerRequest
from antiphon.wire.logging import LoggingLevel, LoggingMessageNotificationParams, is_loud_enough
from antiphon.wire.lossless import Received
from antiphon.wire.revisions import find_revision

_UNSAID: LoggingLevel = "info"
"""Level for a client up to 2025-11-25 that has set none: "the server MAY decide which messages to send"."""


class LogsPassedOn:
    """Receives the log messages of one server. See ``ForwardsLog``."""

    def __init__(self, requests: OpenRequests) -> None:
        self._requests = requests

    def __call__(self, _params: LoggingMessageNotificationParams) -> None:
        """Do nothing, because ``forward`` gets every message."""

    async def forward(self, message: Received) -> None:
        """Pass a message on to the client whose request is open."""
        await self._requests.log(message)


class LogLevels:
    """The log level that was set at one server up to 2025-11-25."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._level: LoggingLevel | None = None

    async def want(self, client: Client, level: LoggingLevel) -> None:
        """Ask the server for messages of a level, unless it sends them already; newer servers are asked by request."""
        if client.server_capabilities.logging is None:
            return
        if client is not self._client:
            # The server was started again, and has lost the level that was set before.
            self._client, self._level = client, None
        spoken = find_revision(client.revision)
        if spoken is None or spoken.modern or (self._level is not None and is_loud_enough(level, self._level)):
            return
        self._level = level
        with suppress(MethodNotFound):
            # A server that declares logging without this method costs nobody the call.
            await client.set_log_level(level)


def level_for(request: ServerRequest) -> LoggingLevel | None:
    """Return the least severe level of messages that a client wants during a request; ``None`` for none."""
    return request.log_level or (None if request.is_modern else _UNSAID)
