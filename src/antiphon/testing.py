"""Parts for the tests of servers and clients: a connected client, a record of messages, scripted answers, a check.

Nothing here is a mock: server, client and protocol are the real ones, connected in memory.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

from antiphon.channel import Channel
from antiphon.check.check_report import CheckReport
from antiphon.check.check_rules import CheckRule, Finding
from antiphon.check.checkup import check_server
from antiphon.client.client import Client
from antiphon.client.connection.targets import Serves
from antiphon.host.providers import Scripted
from antiphon.transports.recording import Message, RecordingChannel
from antiphon.wire.common import ClientCapabilities, SamplingCapability
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = [
    "CheckReport", "CheckRule", "Finding", "Message", "Recorder", "Script", "Scripted", "check_server", "connected",
]  # fmt: skip


@asynccontextmanager
async def connected(server: Serves, **client_options: Any) -> AsyncGenerator[Client]:
    """Connect a new client to a server in memory, for as long as the context lasts.

    Like ``Client(server, ...)``, but ``timeout`` is five seconds by default, so that a call that hangs fails soon.

    Args:
        server: the server to test.
        client_options: keyword arguments of ``Client``.
    """
    options: dict[str, Any] = {"timeout": 5.0, **client_options}
    async with Client(server, **options) as client:
        yield client


class Recorder:
    """Keeps every message a client sends and receives: ``Client(server, wrap=recorder)``.

    ``messages`` holds them decoded and in order, including the handshake. One recorder may wrap several clients, and a
    client that connects again.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def __call__(self, channel: Channel) -> Channel:
        """Return a channel that records what passes through ``channel``."""
        return RecordingChannel(channel, self.messages.append)

    def sent(self, method: str | None = None) -> list[dict[str, Any]]:
        """Return the bodies (params, result or error) of the messages the client sent.

        Args:
            method: only messages of this method; by default all.
        """
        return self._bodies("sent", method)

    def received(self, method: str | None = None) -> list[dict[str, Any]]:
        """Return the bodies (params, result or error) of the messages the server sent.

        Args:
            method: only messages of this method; by default all.
        """
        return self._bodies("received", method)

    def _bodies(self, direction: str, method: str | None) -> list[dict[str, Any]]:
        chosen = [one for one in self.messages if one.direction == direction and method in (None, one.method)]
        return [cast("dict[str, Any]", one.body or {}) for one in chosen]


class Script(Scripted):
    """Prepared answers as an answerer: ``Client(server, sampling=Script(["red", "blue"]))``.

    ``requests`` keeps the params of each request, ``origins`` who asked and why.

    Args:
        answers: one for each request, in order: a string is a text answer, an exception is raised, a result is returned
            as it is.
        offers_tools: also declare sampling with tools, which ``ctx.sample(tools=...)`` needs; not by default.
    """

    def __init__(self, answers: Iterable[str | CreateMessageResult | Exception], *, offers_tools: bool = False) -> None:
        super().__init__(answers)
        self.capabilities = ClientCapabilities(sampling=SamplingCapability(tools={} if offers_tools else None))
        self.origins: list[Origin] = []

    async def __call__(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        """Answer one request. Raises ``LookupError`` after the last answer."""
        self.origins.append(origin)
        return await self.complete(params)
