"""One HTTP response with server-sent events: its head, its data, keep-alive comments, its end.

``stream`` decides what is sent.
"""

from __future__ import annotations

import asyncio

from antiphon.protocol.http.rules import HeaderPair
from antiphon.protocol.http.sse import COMMENT
from antiphon.transports.deadline import at_once_or_within
from antiphon.transports.http.server.asgi import Http

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

    __slots__ = (
        "_ended", "_has_ended", "_http", "_is_bare", "_is_complete", "_keep_alive",
        "_loop", "_lost", "_wake", "stopped",
    )  # fmt: skip

    def __init__(self, http: Http, keep_alive: float) -> None:
        self._http = http
        self._keep_alive = keep_alive
        self._loop = asyncio.get_running_loop()
        self._wake: asyncio.Future[bool] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._has_ended = False
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
            self._note_end()

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
        self._note_end()

    async def wait_ended(self) -> None:
        """Wait until nothing more is sent here."""
        if not self._has_ended:
            self._ended = self._ended or self._loop.create_future()
            await asyncio.shield(self._ended)

    def _note_end(self) -> None:
        self._has_ended = True
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def _woken(self) -> bool:
        wake = self._wake = self._loop.create_future()
        timer = self._loop.call_later(self._keep_alive, _set_wake, wake)
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


def _set_wake(wake: asyncio.Future[bool]) -> None:
    if not wake.done():
        wake.set_result(False)
