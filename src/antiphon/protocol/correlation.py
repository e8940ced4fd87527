"""The open requests of both sides, and which of them a reply, a cancellation or a report of progress belongs to.

Owns the two tables, and our ids. What may be requested, and what is answered, is ``session``'s.
"""

from __future__ import annotations

from itertools import count

from msgspec import UNSET, Raw

from antiphon.protocol.events import Cancelled, Event, Ignored, Notified, Outgoing, Replied, Request
from antiphon.protocol.frames import request_frame
from antiphon.wire.envelope import Envelope, RequestId
from antiphon.wire.lifecycle import CancelledNotificationParams, ProgressNotificationParams
from antiphon.wire.methods import MethodSpec

__all__ = ["Correlation"]


class Correlation:
    """The requests between two peers, as seen from one side."""

    def __init__(self) -> None:
        self.incoming: dict[RequestId, Request] = {}
        """The peer's requests that are being served."""
        self.outgoing: dict[RequestId, Outgoing] = {}
        """Our requests that wait for a reply."""
        self._ids = count(1)

    # --- ours ---------------------------------------------------------------------------------------------------

    def _open(
        self,
        spec: MethodSpec,
        params: bytes,
        parent: Request | None,
        *,
        id: int | None = None,
        wants_progress: bool = False,
    ) -> Outgoing:
        if id is None:
            id = next(self._ids)
        outgoing = Outgoing(id, spec, parent, wants_progress, request_frame(id, spec.name, params))
        self.outgoing[id] = outgoing
        if parent is not None:
            if parent.children is None:
                parent.children = set()
            parent.children.add(id)
        return outgoing

    def _settle(self, id: RequestId) -> Outgoing | None:
        """Take a request of ours out of the tables, or return ``None`` if it is in none."""
        outgoing = self.outgoing.pop(id, None)
        if outgoing is not None and outgoing.parent is not None and outgoing.parent.children is not None:
            outgoing.parent.children.discard(id)
        return outgoing

    def _reply_arrived(self, envelope: Envelope) -> Event:
        if envelope.id is UNSET or envelope.id is None:
            return Ignored("a reply without an id")
        outgoing = self._settle(envelope.id)
        if outgoing is None:
            return Ignored("a reply to no request of ours, or a late one")
        if envelope.error is not UNSET:
            return Replied(outgoing, None, envelope.error)
        return Replied(outgoing, envelope.result, None)

    def _progress_arrived(self, spec: MethodSpec, params: ProgressNotificationParams, raw: Raw) -> Event:
        outgoing = self.outgoing.get(params.progress_token)
        if outgoing is None or not outgoing.wants_progress:
            return Ignored("progress: unknown token, or the request has ended")
        if outgoing.progress is not None and params.progress <= outgoing.progress:
            return Ignored("progress: the value did not increase")
        outgoing.progress = params.progress
        return Notified(spec, params, raw)

    # --- the peer's ---------------------------------------------------------------------------------------------

    def withdraw(self, id: RequestId, reason: str | None) -> Cancelled | None:
        """Take note that the peer no longer waits for a request; ``None`` if there is none, or it was answered."""
        # 2025-11-25 basic/utilities/cancellation: "The initialize request MUST NOT be cancelled"; it is never in here.
        request = self.incoming.pop(id, None)
        if request is None:
            return None
        request.cancelled = True
        return Cancelled(request, reason)

    def _cancel_arrived(self, params: CancelledNotificationParams) -> Event:
        withdrawn = None if params.request_id is None else self.withdraw(params.request_id, params.reason)
        return withdrawn or Ignored("cancelled: no such request, or answered already")
