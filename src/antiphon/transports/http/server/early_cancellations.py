"""Cancellations that came before their requests: over HTTP, messages travel apart and may overtake each other.

Owns what is remembered of them, and for how long: a request that was cancelled before it came is not begun.
"""

from __future__ import annotations

import asyncio

import msgspec
from msgspec import Struct

from antiphon.wire.envelope import Envelope, RequestId

__all__ = ["EarlyCancellations", "cancelled_by"]

_SECONDS = 30.0
"""Seconds for which one is remembered: longer than a body may take to arrive, shorter than a client that restarts its
counter takes to reuse an id."""
_MOST = 1_000
"""Most that are remembered; the oldest is dropped first."""
_LONGEST_ID = 128
"""Most characters of an id that is remembered."""


class EarlyCancellations:
    """The early cancellations of one session."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: dict[RequestId, float] | None = None

    def note(self, id: RequestId) -> None:
        """Remember a cancellation whose request is not there."""
        if isinstance(id, str) and len(id) > _LONGEST_ID:
            return
        self._until = until = self._until or {}
        while len(until) >= _MOST:
            del until[next(iter(until))]
        until[id] = asyncio.get_running_loop().time() + _SECONDS

    def meet(self, id: object) -> bool:
        """Tell whether a request that arrives now was cancelled before; that is so once."""
        if not self._until or not isinstance(id, int | str):
            return False
        return self._until.pop(id, 0.0) > asyncio.get_running_loop().time()


class _Cancelled(Struct, rename="camel"):
    request_id: RequestId | None = None


_decode = msgspec.json.Decoder(_Cancelled).decode


def cancelled_by(envelope: Envelope) -> RequestId | None:
    """Return the id of the request that a message cancels; ``None`` if it cancels none."""
    if envelope.method != "notifications/cancelled":
        return None
    try:
        return _decode(envelope.params or b"{}").request_id
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
