"""Parts for the tests of servers and clients: a connected client, a record of what travels, answers from a script.

Public, and kept to what every test needs. Nothing here is a mock: server, client and protocol are the real ones, with
memory in the place of a pipe.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

from antiphon.channel import Channel
from antiphon.client.client import Client
from antiphon.client.connection.targets import Serves
from antiphon.host.providers.scripted import Scripted
from antiphon.transports.recording import Message, RecordingChannel
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Message", "Recorder", "Script", "Scripted", "connected"]


@asynccontextmanager
async def connected(server: Serves, **client_options: Any) -> AsyncGenerator[Client]:
    """Connect a new client to a server in memory, for as long as the context lasts.

    ``client_options``: those of ``Client``. The same as ``Client(server, ...)``, but no call waits longer than five
    seconds by default: what hangs should fail, and soon.
    """
    options: dict[str, Any] = {"timeout": 5.0, **client_options}
    async with Client(server, **options) as client:
        yield client


class Recorder:
    """Keeps every message a client sends and receives: ``Client(server, wrap=recorder)``.

    ``messages`` holds them in the order in which they passed, decoded, the opening of the session included. One
    recorder may wrap several clients, and a client that connects again.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def __call__(self, channel: Channel) -> Channel:
        """Return a channel around ``channel`` that records."""
        return RecordingChannel(channel, self.messages.append)

    def sent(self, method: str | None = None) -> list[dict[str, Any]]:
        """Return the bodies of what the client sent: params, results, errors; of one method, or of all."""
        return self._bodies("sent", method)

    def received(self, method: str | None = None) -> list[dict[str, Any]]:
        """Return the bodies of what the server sent: params, results, errors; of one method, or of all."""
        return self._bodies("received", method)

    def _bodies(self, direction: str, method: str | None) -> list[dict[str, Any]]:
        chosen = [one for one in self.messages if one.direction == direction and method in (None, one.method)]
        return [cast("dict[str, Any]", one.body or {}) for one in chosen]


class Script(Scripted):
    """Prepared answers as an answerer: ``Client(server, sampling=Script(["red", "blue"]))``.

    A string is a text answer, an exception is raised, a result is given as it is. ``requests`` keeps what was asked,
    ``origins`` by whom and why.
    """

    def __init__(self, answers: list[str | CreateMessageResult | Exception]) -> None:
        super().__init__(answers)
        self.origins: list[Origin] = []

    async def __call__(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        """Answer one ask. Raises ``LookupError`` if the script has ended."""
        self.origins.append(origin)
        return await self.complete(params)
