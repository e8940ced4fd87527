"""The receiving half of a byte stream: splits what the event loop reads into frames for an inbox.

A frame takes a short path from ``data_received`` to ``receive``: one call, and one future that wakes the receiver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from antiphon.transports.inbox import Frames, Inbox
from antiphon.transports.stdio.lines import LineSplitter

__all__ = ["FrameReader"]


class FrameReader(asyncio.Protocol):
    """Splits what arrives into frames; all lines of one read are passed on together.

    ``on_lost`` is called once, when nothing more can arrive; it decides when the inbox ends. ``sift`` may drop frames
    before they reach the inbox.
    """

    def __init__(
        self,
        max_frame: int,
        on_lost: Callable[[Exception | None], None],
        sift: Callable[[Frames], Frames] | None = None,
    ) -> None:
        self.inbox = Inbox(self._pause, self._resume)
        self.several = False
        """Whether the last read had more than one frame, so that the peer does not wait for each reply."""
        self._splitter = LineSplitter(max_frame)
        self._on_lost = on_lost
        self._sift = sift
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass on the frames that these bytes complete."""
        frames = self._splitter.feed(data)
        if self._sift is not None:
            frames = self._sift(frames)
        if frames:
            self.several = len(frames) > 1
            self.inbox.put(frames)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on a last line without a newline, and report the end."""
        self.data_received(b"\n")
        self._transport = None
        self._on_lost(exc)

    def close(self) -> None:
        """Stop reading; ``on_lost`` follows."""
        if self._transport is not None:
            self._transport.close()

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
