"""The hostile server of the fuzz run: meets the client properly, then drowns every reply in mutated frames.

It owns the traffic; what the client owes a reply for is the oracle's business.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from antiphon.channel import Channel, Frame
from tests.fuzz.mutation import Mutator, encoded
from tests.fuzz.oracle import Ledger, decoded, messages

__all__ = ["Saboteur"]

BURST = 20
"""Mutated frames sent for each request of the client's."""
INFO = {"name": "saboteur", "version": "1"}
SERVES = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}, "logging": {}}
TEXT = {"type": "text", "text": "done"}
GOOD: dict[Any, Any] = {
    "tools/call": {"content": [TEXT]},
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "resources/read": {"contents": [{"uri": "note://welcome", "text": "hi"}]},
    "prompts/get": {"messages": [{"role": "user", "content": TEXT}]},
    "completion/complete": {"completion": {"values": ["a"]}},
}


class Saboteur:
    """A target for ``Client``: it serves a channel, badly."""

    name = "saboteur"

    def __init__(self, mutator: Mutator, seed: int) -> None:
        self._mutator = mutator
        self._chance = random.Random(seed)
        self._changed = asyncio.Event()
        self.ledger = Ledger()
        self.sent = 0
        """Mutated frames sent so far."""

    async def serve(self, channel: Channel) -> None:
        """Serve until the client ends."""
        self._channel = channel
        while frames := await channel.receive():
            for frame in frames:
                assert isinstance(frame, bytes)
                assert decoded(frame) is not None, f"the client sent what is no JSON: {frame[:200]!r}"
                for message in messages(frame):
                    self._take(message)
            self._changed.set()

    async def settled(self) -> None:
        """Wait until the client has answered all it owes an answer for."""
        try:
            async with asyncio.timeout(30):
                while self.ledger.missing():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"the client owes replies: {self.ledger.missing()[:10]}") from None

    def _take(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.ledger.came(message)
        elif "id" in message:
            self._reply(message)

    def _reply(self, request: dict[str, Any]) -> None:
        id, method, params = request["id"], request["method"], request.get("params") or {}
        if method == "initialize":
            agreed = params["protocolVersion"]
            self._send(result(id, {"protocolVersion": agreed, "capabilities": SERVES, "serverInfo": INFO}))
        elif method == "server/discover":
            found = {"supportedVersions": ["2026-07-28"], "capabilities": SERVES, "ttlMs": 0, "cacheScope": "private"}
            self._send(result(id, {**found, "resultType": "complete"}))
        else:
            for frame in self._mutator.frames(self._chance.randrange(2 * BURST)):
                self.sent += 1
                self._send(self._aimed(frame, id))
            self._send(result(id, GOOD.get(method, {})))

    def _aimed(self, frame: bytes, id: Any) -> bytes:
        """Make some frames replies to the request that is open."""
        value = decoded(frame) if self._chance.random() < 0.3 else None
        if isinstance(value, dict) and ("result" in value or "error" in value):
            return encoded({**value, "id": id})
        return frame

    def _send(self, frame: bytes) -> None:
        self.ledger.sent(frame)
        self._channel.send(Frame(frame))


def result(id: Any, value: dict[str, Any]) -> bytes:
    """Encode a good reply."""
    return encoded({"jsonrpc": "2.0", "id": id, "result": value})
