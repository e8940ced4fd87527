"""One stream of server-sent events, and the HTTP responses that carry it.

A stream outlives its carriers where the revision lets a client resume it (2025-11-25 basic/transports, "Resumability
and Redelivery"): frames wait here while there is none. Which frames belong to a stream is decided by others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from msgspec import Struct

from antiphon.protocol.sse import COMMENT, encode_event
from antiphon.transports.http.asgi import HeaderPair, Http
from antiphon.transports.http.event_store import EventStore
from antiphon.transports.patience import at_once_or_within
from antiphon.transports.room import Room

__all__ = ["RETRY", "Carrier", "Cursor", "Stream"]

log = logging.getLogger(__name__)

RETRY = 1000
"""Milliseconds a client should wait before it resumes a stream."""

STALL = 30.0
"""Seconds a client may read nothing before its connection counts as lost: its stream can be resumed."""

_HIGH = 256 * 1024
_LEAST = 64 * 1024
_MOST = 32 * 1024 * 1024
# While nobody listens, this much waits for somebody who does.
_DETACHED_BYTES = 1024 * 1024
_DETACHED_FRAMES = 1000

_HEADERS: tuple[HeaderPair, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # Asked for by 2026-07-28: else nginx holds events back until its buffer is full.
    (b"x-accel-buffering", b"no"),
)


class Lost(Exception):
    """The connection of a carrier is gone."""


class Carrier:
    """One HTTP response with server-sent events. ``stop`` may be called at any time, from any task."""

    __slots__ = ("_at_once", "_ended", "_is_complete", "_keep_alive", "_loop", "_lost", "_send", "_wake", "stopped")

    def __init__(self, http: Http, keep_alive: float) -> None:
        self._send = http.send
        self._at_once = http.at_once
        self._keep_alive = keep_alive
        self._loop = asyncio.get_running_loop()
        self._wake: asyncio.Future[bool] | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._lost = False
        self._is_complete = False
        self.stopped = False
        """It shall carry nothing more."""

    async def open(self) -> None:
        """Send the head of the response."""
        if not self._at_once.begin(200, _HEADERS):
            await self._put({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send bytes, the ``last`` with the end of the response.

        Raises ``Lost`` if the client is gone, or has read nothing for half a minute.
        """
        self._is_complete = last
        if not self._at_once.write(data, last=last):
            await self._put({"type": "http.response.body", "body": data, "more_body": not last})

    async def end(self) -> None:
        """End the response, if its connection is still there."""
        self.stopped = True
        try:
            if not self._lost and not self._is_complete:
                await self._put({"type": "http.response.body", "body": b""})
        except Lost:
            pass
        finally:
            if not self._ended.done():
                self._ended.set_result(None)

    async def pause(self) -> None:
        """Wait for ``wake``; meanwhile show the client, and whoever is in between, that we live."""
        while not self.stopped and not await self._woken():
            await self.write(COMMENT)

    def wake(self) -> None:
        """Say that there is something to send."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(True)

    def stop(self, *, lost: bool = False) -> None:
        """Carry nothing more; ``lost``: the connection is gone."""
        self._lost = self._lost or lost
        self.stopped = True
        self.wake()

    async def wait_ended(self) -> None:
        """Wait until nothing more is sent here."""
        await asyncio.shield(self._ended)

    async def _woken(self) -> bool:
        wake = self._wake = self._loop.create_future()
        timer = self._loop.call_later(self._keep_alive, _set, wake)
        try:
            return await wake
        finally:
            timer.cancel()
            self._wake = None

    async def _put(self, message: dict[str, object]) -> None:
        try:
            await at_once_or_within(STALL, self._send(message))
        except (TimeoutError, OSError):
            self.stop(lost=True)
            raise Lost from None


def _set(wake: asyncio.Future[bool]) -> None:
    if not wake.done():
        wake.set_result(False)


class Cursor(Struct):
    """Makes a stream resumable: where its events are kept, and how they are numbered."""

    store: EventStore
    key: str
    """What the store knows the stream by."""
    number: str
    """What the client knows the stream by."""
    priming: bool
    """Whether a response begins with an event that has an id and no data."""
    last: int = 0

    def id(self, number: int) -> str:
        """Write the id of an event: the stream, and its place in it."""
        return f"{self.number}-{number}"


class Stream:
    """Frames in order, and at most one carrier that takes them to the client."""

    __slots__ = ("_backlog", "_carrier", "_frames", "_room", "complete", "cursor")

    def __init__(self, cursor: Cursor | None = None) -> None:
        self.cursor = cursor
        self.complete = False
        """Nothing more will be put in."""
        # A list: a stream mostly holds nothing, and an empty deque is ten times as large.
        self._frames: list[bytes] = []
        self._backlog = 0
        self._carrier: Carrier | None = None
        self._room: Room | None = None

    @property
    def is_carried(self) -> bool:
        """Whether a client is reading it now."""
        return self._carrier is not None

    def put(self, data: bytes, *, last: bool = False) -> Awaitable[None] | None:
        """Add a frame, as ``Channel.send`` does; after the ``last`` one the stream ends."""
        if self.complete:
            return None
        self._frames.append(data)
        self._backlog += len(data)
        self.complete = last
        if self._carrier is None:
            self._bound()
            return None
        self._carrier.wake()
        if self._backlog <= _HIGH:
            return None
        if self._backlog > _MOST and len(self._frames) > 1:
            # Senders were told to wait, and did not; memory is not the client's to fill.
            self._carrier.stop(lost=True)
        return self._full()

    def finish(self) -> None:
        """Let it end without a last frame."""
        self.complete = True
        if self._carrier is not None:
            self._carrier.wake()

    def let_go(self) -> None:
        """End the response that carries it now, if any; the client is to come back for the rest."""
        if self._carrier is not None:
            self._carrier.stop()

    def expect(self, carrier: Carrier) -> None:
        """Know that ``carry`` comes with this carrier in a moment: what is put in meanwhile has a reader."""
        if self._carrier is None:
            self._carrier = carrier

    def unexpect(self, carrier: Carrier) -> None:
        """Know that ``carry`` did not come after all, or has ended."""
        if self._carrier is carrier:
            self._carrier = None
            self._bound()
            self._open_room()

    async def carry(self, carrier: Carrier, *, after: int | None = None) -> None:
        """Send this stream to a client until it is complete or the carrier stops; the carrier before is stopped.

        ``after``: send again what was sent after that event, first.
        """
        before, self._carrier = self._carrier, carrier
        try:
            if before is not None and before is not carrier:
                before.stop()
                await before.wait_ended()
            await carrier.open()
            await self._flow(carrier, await self._begin(after))
        except Lost:
            log.debug("a client is gone from its stream")
        finally:
            self.unexpect(carrier)
            await carrier.end()

    async def _begin(self, after: int | None) -> bytes:
        """Make what comes first: an event that only has an id, and what is sent again."""
        cursor = self.cursor
        if cursor is None:
            return b""
        events = b""
        if cursor.priming:
            events = encode_event(b"", id=cursor.id(cursor.last if after is None else after), retry=RETRY)
        if after is not None:
            kept = await cursor.store.after(cursor.key, after)
            events += b"".join(encode_event(data, id=cursor.id(number)) for number, data in kept)
        return events

    async def _flow(self, carrier: Carrier, first: bytes) -> None:
        # What can travel together does, the end with the last event: a message of its own costs as much as a frame.
        while first or not carrier.stopped:
            if first or self._frames:
                events = first if carrier.stopped else first + await self._take()
                first = b""
                await carrier.write(events, last=self.complete and not self._frames)
                if self._backlog <= _LEAST:
                    self._open_room()
            elif self.complete:
                return
            else:
                await carrier.pause()

    async def _take(self) -> bytes:
        """Take a few frames as events, kept before they are sent."""
        cursor = self.cursor
        events: list[bytes] = []
        size = 0
        while self._frames and size < _LEAST:
            data = self._frames.pop(0)
            size += len(data)
            self._backlog -= len(data)
            if cursor is None:
                events.append(encode_event(data))
                continue
            cursor.last += 1
            events.append(encode_event(data, id=cursor.id(cursor.last)))
            await cursor.store.append(cursor.key, cursor.last, data)
        return b"".join(events)

    def _bound(self) -> None:
        """Keep what waits for a client within bounds; what answers a request is last, and so stays."""
        while len(self._frames) > 1 and (self._backlog > _DETACHED_BYTES or len(self._frames) > _DETACHED_FRAMES):
            self._backlog -= len(self._frames.pop(0))
            log.warning("nobody reads a stream: its oldest message is dropped")

    def _full(self) -> Awaitable[None] | None:
        if self._room is None:
            self._room = Room()
        self._room.shut()
        return self._room.full

    def _open_room(self) -> None:
        if self._room is not None:
            self._room.open()
