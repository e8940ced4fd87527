"""A recording channel around canned frames, for tests of what is told of them."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.channel import Frame, Oversized
from antiphon.errors import ConnectionClosed
from antiphon.transports.recording import Message, RecordingChannel

__all__ = ["CALL", "Canned", "heard"]

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"a":1},"name":"describe","arguments":{}}}'


class Canned:
    """A channel that hands out what it was given."""

    def __init__(self, *frames: bytes | Oversized) -> None:
        self.frames = list(frames)
        self.sent: list[Frame] = []
        self.closed = False

    async def receive(self) -> Sequence[bytes | Oversized]:
        return self.frames

    def send(self, frame: Frame) -> None:
        self.sent.append(frame)

    async def close(self) -> None:
        self.closed = True

    def closed_error(self) -> ConnectionClosed:
        return ConnectionClosed("over")


async def heard(*received: bytes | Oversized, sent: Sequence[bytes] = ()) -> list[Message]:
    """Let frames travel, and return what was told of them."""
    messages: list[Message] = []
    recorder = RecordingChannel(Canned(*received), messages.append)
    for frame in sent:
        recorder.send(Frame(frame))
    await recorder.receive()
    return messages
