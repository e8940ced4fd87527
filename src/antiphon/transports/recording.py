"""A channel around another one that reports every message that passes.

Owns no rule of the protocol: what cannot be decoded is reported as text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct

from antiphon.channel import Channel, Frame, Oversized
from antiphon.errors import ConnectionClosed, PeerError
from antiphon.wire.envelope import Envelope, RequestId, decode_envelope, split_batch

Direction = Literal["sent", "received"]
Kind = Literal["request", "notification", "result", "error", "unreadable"]

_MOST_WAITING = 10_000
"""Most requests whose method is remembered for their reply."""


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message that was sent or received."""

    direction: Direction
    kind: Kind
    method: str = ""
    """Method; for a reply that of its request, if known."""
    id: RequestId | None = None
    body: Any = None
    """``params``, ``result`` or ``error``; the text of a message that could not be decoded."""


class RecordingChannel:
    """A channel around another one that reports every message. It changes nothing, and does not fail."""

    def __init__(self, channel: Channel, heard: Callable[[Message], object]) -> None:
        self._channel = channel
        self._heard = heard
        self._asked: dict[tuple[Direction, RequestId], str] = {}

    async def receive(self) -> Sequence[bytes | Oversized]:
        """Receive, and report."""
        frames = await self._channel.receive()
        for frame in frames:
            self._tell("received", frame)
        return frames

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """Report, and send."""
        self._tell("sent", frame.data)
        return self._channel.send(frame)

    async def close(self) -> None:
        """Close the inner channel."""
        await self._channel.close()

    def closed_error(self) -> ConnectionClosed:
        """Return why the inner channel has ended."""
        return self._channel.closed_error()

    def _tell(self, direction: Direction, data: bytes | Oversized) -> None:
        if isinstance(data, Oversized):
            self._heard(Message(direction=direction, kind="unreadable", body=f"{data.size} bytes, too many to take"))
            return
        for part in _split_parts(data):
            self._heard(self._make_message(direction, part))

    def _make_message(self, direction: Direction, data: bytes) -> Message:
        try:
            return self._understand_frames(direction, decode_envelope(data))
        except (PeerError, msgspec.DecodeError, RecursionError):
            return Message(direction=direction, kind="unreadable", body=data.decode(errors="replace"))

    def _understand_frames(self, direction: Direction, envelope: Envelope) -> Message:
        id = None if envelope.id is UNSET else envelope.id
        if isinstance(envelope.method, str):
            if id is not None and len(self._asked) < _MOST_WAITING:
                self._asked[direction, id] = envelope.method
            kind: Kind = "notification" if id is None else "request"
            body = msgspec.json.decode(envelope.params) if envelope.params else None
            return Message(direction=direction, kind=kind, method=envelope.method, id=id, body=body)
        method = "" if id is None else self._asked.pop((_OTHER[direction], id), "")
        if envelope.error is not UNSET:
            body = msgspec.to_builtins(envelope.error)
            return Message(direction=direction, kind="error", method=method, id=id, body=body)
        body = msgspec.json.decode(envelope.result) if envelope.result else None
        return Message(direction=direction, kind="result", method=method, id=id, body=body)


_OTHER: dict[Direction, Direction] = {"sent": "received", "received": "sent"}


def _split_parts(data: bytes) -> Iterator[bytes]:
    try:
        batch = split_batch(data)
    except PeerError:
        batch = None
    if batch is None:
        yield data
    else:
        yield from map(bytes, batch)
