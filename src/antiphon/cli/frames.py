"""The messages that travel, for people: a channel that lets everything through and tells of it, and how it is written.

Owns no rule of the protocol: what cannot be read is shown as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET, Struct

from antiphon.channel import Channel, Frame, Oversized
from antiphon.errors import ConnectionClosed, PeerError
from antiphon.wire.envelope import Envelope, RequestId, decode_envelope, split_batch

__all__ = ["LEGEND", "Message", "Recorder", "line"]

Direction = Literal["sent", "received"]
Kind = Literal["request", "notification", "result", "error", "unreadable"]

LEGEND = "→ from us to the server   ← from the server to us"

_LONGEST_TEXT = 100
"""Characters of one text shown in a line."""
_LONGEST_BODY = 360
"""Characters of a body shown: four rows of a terminal."""
_MOST_WAITING = 10_000
"""Requests whose method is remembered for their reply."""


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message that travelled."""

    direction: Direction
    kind: Kind
    method: str = ""
    """Of a reply: that of its request, where it is known."""
    id: RequestId | None = None
    body: Any = None
    """``params``, ``result`` or ``error``; the text of what could not be read."""


class Recorder:
    """A channel around another that tells of every message. It changes nothing, and cannot fail."""

    def __init__(self, channel: Channel, heard: Callable[[Message], object]) -> None:
        self._channel = channel
        self._heard = heard
        self._asked: dict[tuple[Direction, RequestId], str] = {}

    async def receive(self) -> Sequence[bytes | Oversized]:
        """Receive, and tell."""
        frames = await self._channel.receive()
        for frame in frames:
            self._tell("received", frame)
        return frames

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """Tell, and send."""
        self._tell("sent", frame.data)
        return self._channel.send(frame)

    async def close(self) -> None:
        """Close the channel within."""
        await self._channel.close()

    def closed_error(self) -> ConnectionClosed:
        """Say why the channel within has ended."""
        return self._channel.closed_error()

    def _tell(self, direction: Direction, data: bytes | Oversized) -> None:
        if isinstance(data, Oversized):
            self._heard(Message(direction=direction, kind="unreadable", body=f"{data.size} bytes, too many to take"))
            return
        for part in _parts(data):
            self._heard(self._read(direction, part))

    def _read(self, direction: Direction, data: bytes) -> Message:
        try:
            envelope = decode_envelope(data)
            return self._understood(direction, envelope)
        except (PeerError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Message(direction=direction, kind="unreadable", body=data.decode(errors="replace"))

    def _understood(self, direction: Direction, envelope: Envelope) -> Message:
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


def _parts(data: bytes) -> Iterator[bytes]:
    try:
        batch = split_batch(data)
    except PeerError:
        batch = None
    if batch is None:
        yield data
    else:
        yield from map(bytes, batch)


def line(message: Message) -> str:
    """Write a message as one line: an arrow, what it is, its id, a short body."""
    arrow = "→" if message.direction == "sent" else "←"
    what = {"result": "result of ", "error": "error for ", "unreadable": "unreadable"}.get(message.kind, "")
    number = "" if message.id is None else f" #{message.id}"
    name = message.method or ("an unknown request" if message.kind in ("result", "error") else "")
    return f"{arrow} {what}{name}{number}  {_short(message.body)}".rstrip()


def _short(body: object) -> str:
    if body is None:
        return ""
    if isinstance(body, str):
        return _cut(body, _LONGEST_BODY)
    return _cut(msgspec.json.encode(_abridged(body)).decode(), _LONGEST_BODY)


def _abridged(value: object) -> object:
    """Cut long texts, and leave out what every message of the newest revision repeats."""
    if isinstance(value, str):
        return _cut(value, _LONGEST_TEXT)
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        return {
            key: _cut(member, 12) if key == "requestState" and isinstance(member, str) else _abridged(member)
            for key, member in members.items()
            if key != "_meta"
        }
    if isinstance(value, list):
        return [_abridged(member) for member in cast("list[object]", value)]
    return value


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
