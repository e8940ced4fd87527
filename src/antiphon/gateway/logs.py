"""Log messages of the servers behind a gateway: asked for as the clients want them, and passed on.

A client of 2026-07-28 says with each request which messages it wants, an older one says it once. What is too quiet for
a client is held back by its own session; here the servers are asked for enough. Sources: 2025-11-25 and 2026-07-28
server/utilities/logging.
"""

from __future__ import annotations

from antiphon.client.client import Client
from antiphon.gateway.asks import OpenRequests
from antiphon.server.middleware import ServerRequest
from antiphon.wire.logging import LoggingLevel, LoggingMessageNotificationParams, is_loud_enough
from antiphon.wire.lossless import Received
from antiphon.wire.revisions import revision

__all__ = ["LogLevels", "LogsPassedOn", "level_for"]

_UNSAID: LoggingLevel = "info"
"""Level for a client up to 2025-11-25 that has set none: "the server MAY decide which messages to send"."""


class LogsPassedOn:
    """Receives the log messages of one server. See ``ForwardsLog``."""

    def __init__(self, requests: OpenRequests) -> None:
        self._requests = requests

    def __call__(self, _params: LoggingMessageNotificationParams) -> None:
        """Ignore: every message comes to ``forward``."""

    async def forward(self, message: Received) -> None:
        """Pass a message on to the client whose request is open."""
        await self._requests.log(message)


class LogLevels:
    """What one server up to 2025-11-25 was asked to send."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._level: LoggingLevel | None = None

    async def want(self, client: Client, level: LoggingLevel) -> None:
        """Ask the server for messages of a level, unless it sends them already; newer servers are asked by request."""
        if client.server_capabilities.logging is None:
            return
        if client is not self._client:
            # Started again: it knows nothing of what was asked before.
            self._client, self._level = client, None
        spoken = revision(client.revision)
        if spoken is None or spoken.modern or (self._level is not None and is_loud_enough(level, self._level)):
            return
        self._level = level
        await client.set_log_level(level)


def level_for(request: ServerRequest) -> LoggingLevel | None:
    """Return the least severe level of messages that a client wants during a request; ``None`` for none."""
    return request.log_level or (None if request.is_modern else _UNSAID)
