"""The hostile client of the fuzz run: sends mutated frames, answers asks well and badly, counts the replies.

It owns the traffic; what a reply is owed for is the oracle's business.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from antiphon.channel import Channel, Frame, Oversized
from tests.fuzz.mutation import Mutator, encoded
from tests.fuzz.oracle import Id, Ledger, decoded, messages

__all__ = ["Attacker"]

PATIENCE = 120.0
"""Seconds after which a peer that says nothing counts as hung."""
WAITS_BY_NATURE = {"linger", "count"}
"""Tools of the server under test that may wait for ever: one always does, one for as long as it is told."""

TEXT = {"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "fuzz"}
ANSWERS: dict[Any, Any] = {
    "sampling/createMessage": TEXT,
    "elicitation/create": {"action": "accept", "content": {"guests": 2}},
    "roots/list": {"roots": [{"uri": "file:///a"}]},
}


class Attacker:
    """One hostile client on one channel."""

    def __init__(self, channel: Channel, mutator: Mutator, seed: int) -> None:
        self._channel = channel
        self._mutator = mutator
        self._chance = random.Random(seed)
        self._asked: dict[Id, str] = {}
        self._settled = asyncio.Event()
        self._sentinels = 0
        self._reader = asyncio.create_task(self._read())
        self.ledger = Ledger()

    async def attack(self, count: int) -> None:
        """Send mutated frames, and make sure now and then that the server still answers."""
        for number, frame in enumerate(self._mutator.frames(count), 1):
            await self.send(frame)
            if number % 50 == 0:
                await self.check_alive()

    async def send(self, frame: bytes) -> None:
        """Send one frame, and take note of what it is owed."""
        self._excuse(frame)
        self.ledger.sent(frame)
        wait = self._channel.send(Frame(frame))
        if wait is not None:
            await asyncio.wait_for(wait, PATIENCE)

    def _excuse(self, frame: bytes) -> None:
        for message in messages(frame):
            params, id = message.get("params"), message.get("id")
            listens = message.get("method") == "subscriptions/listen"
            waits = isinstance(params, dict) and str(params.get("name")) in WAITS_BY_NATURE
            if (listens or waits) and isinstance(id, str | int):
                self.ledger.excused.add(id)

    async def check_alive(self) -> None:
        """Send a ping, which every server answers in any state, and wait for its reply."""
        self._sentinels += 1
        id = f"sentinel-{self._sentinels}"
        await self.send(encoded({"jsonrpc": "2.0", "id": id, "method": "ping"}))
        await self._until(lambda: self.ledger.received[id] == 1, f"no reply to {id}")

    async def finish(self) -> None:
        """Complete the handshake and answer every ask that is still open; then every request must have its reply."""
        # Handlers may wait for it: a server asks nothing before the handshake is complete.
        await self.send(encoded({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        while self._asked or self.ledger.missing():
            while self._asked:
                await self._answer(*self._asked.popitem(), refuse=True)
            await self._until(lambda: self._asked or not self.ledger.missing(), "replies are missing")
        await self._hang_up()

    async def _hang_up(self) -> None:
        """Cancel what still waits, for a server lets running tools finish when its client leaves; then leave."""
        for id in list(self.ledger.excused):
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
            await self.send(encoded(cancel))
        await self.check_alive()
        await self._channel.close()
        await self._reader

    async def _until(self, condition: Any, complaint: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    assert not self._reader.done(), f"{complaint}: the server has ended: {self._channel.closed_error()}"
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            raise AssertionError(f"{complaint}; owed: {self.ledger.missing()[:10]}") from None

    async def _read(self) -> None:
        while frames := await self._channel.receive():
            for frame in frames:
                await self._take(frame)
            self._settled.set()
        self._settled.set()

    async def _take(self, frame: bytes | Oversized) -> None:
        assert isinstance(frame, bytes), f"the server sent {frame}"
        assert decoded(frame) is not None, f"the server sent what is no JSON: {frame[:200]!r}"
        for message in messages(frame):
            assert message.get("jsonrpc") == "2.0", message
            if "method" not in message:
                self.ledger.came(message)
            elif "id" in message:
                self._asked[message["id"]] = message["method"]
            elif message["method"] == "notifications/cancelled":
                self._asked.pop(message["params"]["requestId"], None)
        while self._asked and self._chance.random() < 0.7:
            await self._answer(*self._asked.popitem())

    async def _answer(self, id: Id, method: str, *, refuse: bool = False) -> None:
        answer = {"jsonrpc": "2.0", "id": id, "result": ANSWERS.get(method, {})}
        kind = 1.0 if refuse else self._chance.random()
        if kind >= 0.7:
            answer = {"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "User rejected sampling request"}}
        elif kind >= 0.4:
            answer["result"] = self._chance.choice([None, [], {}, "", {"content": []}, {**TEXT, "content": None}, 1])
        self._channel.send(Frame(encoded(answer)))
