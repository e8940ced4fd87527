"""The small server in memory: a fault that needs no process of its own is found sooner so."""

from __future__ import annotations

import json
import random
from typing import Any

from antiphon.channel import Channel, Frame, Oversized
from tests.check.faults import FAULTS
from tests.check.faulty_server import Json, answer


class FaultyServer:
    """Serves a channel with one fault, as ``faults.main`` serves standard input and output."""

    def __init__(self, fault: str) -> None:
        self.name = fault
        self.change = FAULTS[fault].change

    async def serve(self, channel: Channel) -> None:
        """Serve one client until it ends."""
        while frames := await channel.receive():
            for frame in frames:
                assert not isinstance(frame, Oversized)
                if not self.take(channel, bytes(frame)):
                    return

    def take(self, channel: Channel, frame: bytes) -> bool:
        """Answer one frame; return whether the server goes on."""
        try:
            message: Json | list[Json] = json.loads(frame)
        except ValueError:
            if self.name not in ("dies of a broken line", "ignores broken lines"):
                self.send(channel, {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no JSON"}})
            return self.name != "dies of a broken line"
        if isinstance(message, list):
            if self.name == "no batches":
                return True
            self.send(channel, [answer(one) for one in message])
        elif "method" in message:
            for one in self.change(message, answer(message) if "id" in message else {}):
                self.send(channel, one)
        return True

    def send(self, channel: Channel, message: object) -> None:
        """Send a message, or bytes as they are."""
        channel.send(Frame(message if isinstance(message, bytes) else json.dumps(message).encode()))


_ODD: list[object] = [None, True, 1, -1, 1.5e308, "", [], {}, ["x"], {"a": []}, [[[]]], {"$ref": "#"}, "x" * 3000]


class MutatedServer(FaultyServer):
    """Answers as it should, but for some members of its results, which are of another type or missing."""

    def __init__(self, seed: int) -> None:
        super().__init__("no fault")
        self.random = random.Random(seed)

    def send(self, channel: Channel, message: object) -> None:
        """Send a message, with its result mutated."""
        if isinstance(message, dict) and "result" in message:
            message = {**message, "result": self.mutate(message["result"])}
        super().send(channel, message)

    def mutate(self, value: Any) -> Any:
        """Return a value of which about one part in sixteen is another one."""
        if self.random.random() < 0.06:
            return self.random.choice(_ODD)
        if isinstance(value, list):
            return [self.mutate(one) for one in value]
        if isinstance(value, dict):
            return {name: self.mutate(one) for name, one in value.items() if self.random.random() > 0.02}
        return value
