"""One stream of server-sent events, and the HTTP response that carries it.

A stream outlives its responses if the revision lets a client resume it (2025-11-25 basic/transports, "Resumability and
Redelivery"): frames wait here while there is none. Its users decide which frames belong to it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from antiphon.protocol.http.sse import encode_event
from antiphon.transports.http.server.event_store import EventCursor
from antiphon.transports.http.server.sse_response import Carrier, Lost
from antiphon.transports.inbox import Room

log = logging.getLogger(__name__)

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
        return self._full()

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

    def _full(self) -> Awaitable[None] | None:
        if self._room is None:
            self._room = Room()
        self._room.shut()
        return self._room.full

    def _open_room(self) -> None:
        if self._room is not None:
            self._room.open()
