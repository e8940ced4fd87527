"""A client that writes frames by hand, for tests of what a server does with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from antiphon import Server
from antiphon.channel import Channel, Frame, Oversized
from antiphon.transports.queued import memory_pair

__all__ = ["RawClient", "raw_client"]

ALL: dict[str, Any] = {"sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}, "roots": {}}


class RawClient:
    """Sends what it is told to and keeps what comes back, by id."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.notifications: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self._replies: dict[Any, dict[str, Any]] = {}
        self._ids = iter(range(1, 1_000_000))

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message as it is."""
        self.channel.send(Frame(msgspec.json.encode({"jsonrpc": "2.0", **message})))

    async def step(self) -> None:
        """Take in what has arrived."""
        frames = await self.channel.receive()
        assert frames, "the server has ended"
        for frame in frames:
            assert not isinstance(frame, Oversized)
            message = msgspec.json.decode(frame)
            if "method" not in message:
                self._replies[message.get("id")] = message
            elif "id" in message:
                self.requests.append(message)
            else:
                self.notifications.append(message)

    async def reply(self, id: Any) -> dict[str, Any]:
        """Wait for the reply to a request, as long as the test may take: a busy machine is no fault of a server."""
        while id not in self._replies:
            await self.step()
        return self._replies.pop(id)

    def replies(self) -> list[dict[str, Any]]:
        """Take all replies that have come and that nobody waited for."""
        replies, self._replies = list(self._replies.values()), {}
        return replies

    async def handshake(
        self, revision: str = "2025-11-25", *, capabilities: Mapping[str, Any] | None = None, complete: bool = True
    ) -> dict[str, Any]:
        """Open a legacy session and return what the server said; not ``complete``: keep ``initialized`` back."""
        params = {
            "protocolVersion": revision,
            "capabilities": ALL if capabilities is None else capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        }
        said = await self.reply(self.request("initialize", **params))
        if complete:
            self.send({"method": "notifications/initialized"})
        return said["result"]

    def request(self, method: str, **params: Any) -> int:
        """Send a request of a legacy session and return its id."""
        id = next(self._ids)
        self.send({"id": id, "method": method, "params": params})
        return id

    async def asked(self) -> dict[str, Any]:
        """Wait for a request of the server's and return it."""
        async with asyncio.timeout(30):
            while not self.requests:
                await self.step()
        return self.requests.pop(0)

    def modern(self, method: str, *, capabilities: Mapping[str, Any] | None = None, **params: Any) -> int:
        """Send a modern request and return its id."""
        id = next(self._ids)
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": ALL if capabilities is None else capabilities,
            **params.pop("meta", {}),
        }
        self.send({"id": id, "method": method, "params": {"_meta": meta, **params}})
        return id

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """Make a modern tool call and return its result, of whatever type."""
        reply = await self.reply(self.modern("tools/call", name=name, arguments=arguments or {}, **params))
        assert "result" in reply, reply
        return reply["result"]

    async def error(self, method: str, **params: Any) -> dict[str, Any]:
        """Make a modern request that must fail and return its error."""
        reply = await self.reply(self.modern(method, **params))
        assert "error" in reply, reply
        return reply["error"]

    async def retry(
        self, round: Mapping[str, Any], name: str, answers: Mapping[str, Any], **params: Any
    ) -> dict[str, Any]:
        """Retry a tool call with answers to its round."""
        return await self.call(name, requestState=round["requestState"], inputResponses=answers, **params)


def text(result: Mapping[str, Any]) -> str:
    """Return the text of a tool result."""
    return result["content"][0]["text"]


def said(words: str) -> dict[str, Any]:
    """Make the answer of a model."""
    return {"role": "assistant", "content": {"type": "text", "text": words}, "model": "m", "stopReason": "endTurn"}


@asynccontextmanager
async def raw_client(server: Server, *, principal: str | None = None) -> AsyncIterator[RawClient]:
    """Connect a raw client to a server in memory; ``principal``: who it has proven to be."""
    ours, theirs = memory_pair()
    serving = asyncio.create_task(server.serve(theirs, principal=principal))
    try:
        yield RawClient(ours)
    finally:
        await ours.close()
        await serving
