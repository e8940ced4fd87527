"""Channels between two queues: what arrives waits for the session, and what it sends waits for a task that writes.

Owns the queues and why they ended. The tasks that move frames from and to the peer are the channels' own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from antiphon.channel import Frame
from antiphon.transports.backpressure import Room
from antiphon.transports.inbox import Inbox, Receiving
from antiphon.transports.outbox import Outbox

__all__ = ["QueuedChannel"]


class QueuedChannel(Receiving):
    """What such channels share; ``wake`` is called when there is something to write, or nothing more will come."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._held = Room()
        self._inbox = Inbox(self._held.shut, self._held.open)
        self._outbox = Outbox(wake)
        self._reason = ""

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """See ``Channel.send``."""
        return self._outbox.put(frame.data)

    def _end(self, reason: str, *, drop: bool = False) -> None:
        """Receive no more, and with ``drop`` not what waits either. The first reason is kept."""
        self._reason = self._reason or reason
        self._inbox.end(drop=drop)

    def _lose(self, reason: str) -> None:
        """Note that the peer is gone: what has arrived can still be received, what waits is not sent."""
        self._end(reason)
        self._outbox.end(drop=True)
