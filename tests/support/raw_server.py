"""A server that writes frames by hand, for tests of what a client does with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from antiphon.channel import Channel, Frame, Oversized

__all__ = ["RawServer"]

Json = dict[str, Any]
CAPABILITIES: Json = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
}


class RawServer:
    """Opens sessions as it should, and gives every other request to ``replies``, by method.

    A reply is a function of the request's message to a result, or to ``None`` if it answers by itself or not at all.
    """

    name = "raw"

    def __init__(self, **replies: Callable[[Json], Json | None]) -> None:
        self.replies = {name.replace("_", "/"): reply for name, reply in replies.items()}
        self.received: list[Json] = []
        self.answers: dict[Any, Json] = {}
        self.news = asyncio.Event()
        self.ending = asyncio.Event()
        self._channel: Channel

    async def serve(self, channel: Channel) -> None:
        """Serve one client."""
        self._channel = channel
        reading = asyncio.create_task(self._read(channel))
        ending = asyncio.create_task(self.ending.wait())
        await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
        for task in (reading, ending):
            task.cancel()
        await asyncio.gather(reading, ending, return_exceptions=True)

    async def _read(self, channel: Channel) -> None:
        while frames := await channel.receive():
            for frame in frames:
                assert not isinstance(frame, Oversized)
                self._take(msgspec.json.decode(frame))
            self.news.set()

    def _take(self, message: Json) -> None:
        self.received.append(message)
        if "method" not in message:
            self.answers[message["id"]] = message
        elif "id" in message:
            reply = self.replies.get(message["method"], getattr(self, f"_{message['method'].replace('/', '_')}", None))
            if reply is None:
                self.send({"id": message["id"], "error": {"code": -32601, "message": "no"}})
            elif (result := reply(message)) is not None:
                self.send({"id": message["id"], "result": result})

    def _initialize(self, message: Json) -> Json:
        version = message["params"]["protocolVersion"]
        return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": {"name": "raw", "version": "1"}}

    def _server_discover(self, _message: Json) -> Json:
        return {
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES,
            "serverInfo": {"name": "raw", "version": "1"}, "ttlMs": 0, "cacheScope": "private",
        }  # fmt: skip

    def _ping(self, _message: Json) -> Json:
        return {}

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message as it is."""
        self._channel.send(Frame(msgspec.json.encode({"jsonrpc": "2.0", **message})))

    def send_raw(self, data: bytes) -> None:
        """Send a frame that was written by hand."""
        self._channel.send(Frame(data))

    def ask(self, id: Any, method: str, **params: Any) -> None:
        """Send a request of a legacy server."""
        self.send({"id": id, "method": method, "params": params})

    def sample(self, id: Any) -> None:
        """Ask for a completion, as a legacy server."""
        message = {"role": "user", "content": {"type": "text", "text": "?"}}
        self.ask(id, "sampling/createMessage", messages=[message], maxTokens=5)

    async def answer(self, id: Any) -> Json:
        """Wait for the client's answer to a request."""
        async with asyncio.timeout(30):
            while id not in self.answers:
                self.news.clear()
                await self.news.wait()
        return self.answers[id]

    async def request(self, method: str) -> Json:
        """Wait for a message of this method, and return it."""
        async with asyncio.timeout(30):
            while True:
                found = next((one for one in self.received if one.get("method") == method), None)
                if found is not None:
                    return found
                self.news.clear()
                await self.news.wait()
