"""One HTTP response with server-sent events: its head, its data, keep-alive comments, its end.

``stream`` decides what is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from antiphon.machine.asyncio_tasks import at_once_or_within, settle_future
from antiphon.protocol.http.rules import HeaderPair
from antiphon.protocol.http.sse import COMMENT, encode_event
from antiphon.transports.http.server.asgi import Http
from antiphon.transports.http.server.event_store import EventCursor
from antiphon.transports.inbox import Room

log = logging.getLogger(__name__)

STALL = 30.0
"""Seconds without reading after which a client's connection counts as lost; its stream can be resumed."""

_HEADERS: tuple[HeaderPair, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # Required by 2026-07-28: otherwise nginx delays events until its buffer is full.
    (b"x-accel-buffering", b"no"),
)


class Lost(Exception):
    """The connection of a carrier is lost."""


class Carrier:
    """One HTTP response with server-sent events. ``stop`` may be called at any time, from any task."""

    __slots__ = ("_ended", "_http", "_is_bare", "_is_complete", "_keep_alive", "_loop", "_lost", "_wake", "stopped")

    def __init__(self, http: Http, keep_alive: float) -> None:
        self._http = http
        self._keep_alive = keep_alive
        self._loop = asyncio.get_running_loop()
        self._wake: asyncio.Future[bool] | None = None
        self._ended = asyncio.Event()
        self._lost = False
        self._is_complete = True
        """Whether nothing is left to send: the end was sent, or not even the head yet."""
        self._is_bare = False
        """Whether nothing but the head was sent."""
        self.stopped = False
        """Whether it must send nothing more."""

    async def open(self) -> None:
        """Send the head of the response."""
        await self._send_event({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        self._is_bare, self._is_complete = True, False

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send data, with ``last`` also the end of the response.

        Raises ``Lost`` if the client is gone, or has read nothing for half a minute.
        """
        self._is_complete, self._is_bare = last, False
        await self._send_event({"type": "http.response.body", "body": data, "more_body": not last})

    async def end(self) -> None:
        """End the response, if its connection still exists."""
        self.stopped = True
        try:
            if not self._lost and not self._is_complete:
                await self._send_event({"type": "http.response.body", "body": b""})
        except Lost:
            pass
        finally:
            self._ended.set()

    async def pause(self) -> None:
        """Wait for ``wake``, or send a keep-alive comment for the client and any proxy after some silence.

        Look in either case whether there is something to send: what came while this sent something woke nobody.
        """
        if self._is_bare:
            # A client may wait for the head before it sends anything else. ASGI servers keep it back until a part of
            # the body follows, as they do with the head of any response, even if that is empty.
            self._is_bare = False
            await self._send_event({"type": "http.response.body", "body": b"", "more_body": True})
        elif not self.stopped and not await self._woken():
            await self.write(COMMENT)

    def wake(self) -> None:
        """Signal that there is something to send."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(True)

    def stop(self, *, lost: bool = False) -> None:
        """Send nothing more; ``lost``: the connection is gone."""
        self._lost = self._lost or lost
        self.stopped = True
        self.wake()

    def abandon(self) -> None:
        """Note that nobody sends here any more: the task that would have was cancelled."""
        self.stopped = True
        self._ended.set()

    async def wait_ended(self) -> None:
        """Wait until nothing more is sent here."""
        await self._ended.wait()

    async def _woken(self) -> bool:
        wake = self._wake = self._loop.create_future()
        timer = self._loop.call_later(self._keep_alive, settle_future, wake, None, False)
        try:
            return await wake
        finally:
            timer.cancel()
            self._wake = None

    async def _send_event(self, message: dict[str, object]) -> None:
        try:
            await at_once_or_within(STALL, self._http.send(message))
        except (TimeoutError, OSError):
            self.stop(lost=True)
            raise Lost from None


_HIGH = 256 * 1024
_LEAST = 64 * 1024
_MOST = 32 * 1024 * 1024
# Most bytes that wait while no client is connected.
_DETACHED_BYTES = 1024 * 1024
_DETACHED_FRAMES = 1000


class ResponseStream:
    """Frames in order, and at most one carrier that sends them to the client."""

    __slots__ = ("_backlog", "_carrier", "_dropped", "_frames", "_room", "complete", "cursor")

    def __init__(self, cursor: EventCursor | None = None) -> None:
        self.cursor = cursor
        self.complete = False
        """Whether no more frames will be added."""
        # A list, because a stream is usually empty, and an empty deque takes ten times as much memory.
        self._frames: list[bytes] = []
        self._backlog = 0
        self._dropped = 0
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
            self._limit_waiting()
            return None
        self._carrier.wake()
        if self._backlog <= _HIGH:
            return None
        if self._backlog > _MOST and len(self._frames) > 1:
            # Senders were asked to wait, and did not: a client must not be able to fill our memory.
            self._carrier.stop(lost=True)
        self._room = self._room or Room()
        self._room.shut()
        return self._room.full

    def finish(self) -> None:
        """End it without a last frame."""
        self.complete = True
        if self._dropped:
            self._count_dropped()
        if self._carrier is not None:
            self._carrier.wake()

    def let_go(self) -> None:
        """End the response that carries it now, if any; the client reconnects for the rest."""
        if self._carrier is not None:
            self._carrier.stop()

    def expect(self, carrier: Carrier) -> None:
        """Note that ``carry`` will soon run with this carrier, so that frames added meanwhile have a reader."""
        if self._carrier is None:
            self._carrier = carrier

    def unexpect(self, carrier: Carrier) -> None:
        """Note that ``carry`` will not run with this carrier, or has ended."""
        if self._carrier is carrier:
            self._carrier = None
            self._limit_waiting()
            self._open_room()

    # --- in a task ----------------------------------------------------------------------------------------------

    async def carry(self, carrier: Carrier, *, after: int | None = None) -> None:
        """Send this stream to a client until it is complete or the carrier stops; the previous carrier is stopped.

        ``after``: first send again what was sent after that event.
        """
        before, self._carrier = self._carrier, carrier
        try:
            await self._take_over(before, carrier, after)
        except Lost:
            log.debug("a client is gone from its stream")
        finally:
            self.unexpect(carrier)
            await carrier.end()

    async def _take_over(self, before: Carrier | None, carrier: Carrier, after: int | None) -> None:
        if self._dropped:
            self._count_dropped()
        if before is not None and before is not carrier:
            before.stop()
            await before.wait_ended()
        # Before the head, because the store may not be reached.
        first = await self._begin(after)
        await carrier.open()
        await self._flow(carrier, first)

    async def _begin(self, after: int | None) -> bytes:
        """Return the beginning of a response: an event with only an id, and the events that are sent again."""
        cursor = self.cursor
        if cursor is None:
            return b""
        await cursor.begin()
        return cursor.opening(after) + (await cursor.since(after) if after is not None else b"")

    async def _flow(self, carrier: Carrier, first: bytes) -> None:
        # Send together what is there, the end with the last event: a separate message costs as much as a
        # frame.
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
        """Take a few frames as events, which are stored before they are sent."""
        cursor = self.cursor
        events: list[bytes] = []
        size = 0
        while self._frames and size < _LEAST:
            data = self._frames.pop(0)
            size += len(data)
            self._backlog -= len(data)
            events.append(encode_event(data) if cursor is None else await cursor.keep(data))
        return b"".join(events)

    def _limit_waiting(self) -> None:
        """Limit what waits for a client. A reply is the last frame of its stream, and so is never dropped."""
        while len(self._frames) > 1 and (self._backlog > _DETACHED_BYTES or len(self._frames) > _DETACHED_FRAMES):
            self._backlog -= len(self._frames.pop(0))
            self._dropped += 1
            if self._dropped == 1:
                # Not logged for each one: a client that never reads would then fill the log instead
                # of the memory.
                log.warning("nobody reads a stream: its oldest messages are dropped")
        if self.complete:
            self._count_dropped()

    def _count_dropped(self) -> None:
        """Log how many frames were dropped, when a client reads again or the stream ends."""
        dropped, self._dropped = self._dropped, 0
        if dropped > 1:
            log.warning("%d messages of a stream that nobody read were dropped", dropped)

    def _open_room(self) -> None:
        if self._room is not None:
            self._room.open()
