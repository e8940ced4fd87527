"""What a session reports about one frame, and the two records that live as long as a request does.

Events are data, and structs, since one is made for every message. A session returns exactly one per message;
``engine`` acts on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw, Struct

from antiphon.wire.common import RequestMeta
from antiphon.wire.envelope import ErrorObject, RequestId
from antiphon.wire.lifecycle import ClientCapabilities
from antiphon.wire.methods import MethodSpec
from antiphon.wire.revisions import Revision

__all__ = [
    "Answered",
    "Batch",
    "BatchReplies",
    "Cancelled",
    "Event",
    "Ignored",
    "Notified",
    "Outgoing",
    "Replied",
    "Request",
]


class Request(Struct, eq=False):
    """A request of the peer's, from its arrival until it is answered.

    The event "a request arrived" is the request itself.
    """

    id: RequestId
    method: MethodSpec
    params: Any
    """The decoded params, of the type ``method.params``."""
    raw: Raw
    """The params as they came, for members that the type does not know."""
    revision: Revision
    meta: RequestMeta | None
    capabilities: ClientCapabilities | None
    """What the client can do: declared in the handshake, or by this very request (2026-07-28)."""
    cancelled: bool = False
    on_cancel: Callable[[str | None], object] | None = None
    """Set by whoever runs the request, to stop it when the peer withdraws it or is gone; given the reason."""
    on_wait: Callable[[], object] | None = None
    """Called once, when the handler first has to wait."""
    on_end: Callable[[Request, object], object] | None = None
    """Called with what it came to: its result, an exception, or ``None`` if nobody waits for a reply any more.

    More than once where the peer withdraws it and the handler ends later; the first time is true."""
    code: int | None = None
    """The error code it was answered with, if it was an error."""
    children: set[RequestId] | None = None
    """Ids of our asks that belong to this request and are not answered yet."""
    batch: BatchReplies | None = None
    """Where the reply is collected if the request came in a batch."""
    related_to: RequestId | None = None
    """The request of ours on whose stream it came, where the transport knows."""
    progress: float | None = None
    """The last progress value sent, since values must increase (2025-11-25 basic/utilities/progress)."""


class BatchReplies:
    """Collects the replies to one batch: they go out together, once none is missing (JSON-RPC 2.0, section 6)."""

    __slots__ = ("missing", "replies")

    def __init__(self, missing: int) -> None:
        self.missing = missing
        self.replies: list[bytes] = []

    def add(self, reply: bytes | None) -> bytes | None:
        """Note one reply (``None``: its request was cancelled); return the frame to send if it was the last."""
        self.missing -= 1
        if reply is not None:
            self.replies.append(reply)
        if self.missing or not self.replies:
            return None
        return b"[" + b",".join(self.replies) + b"]"


class Outgoing(Struct, eq=False):
    """A request of ours that waits for its reply."""

    id: RequestId
    """Serves as the progress token as well."""
    method: MethodSpec
    parent: Request | None
    """The peer's request it belongs to, if any."""
    wants_progress: bool
    data: bytes
    """The frame to send."""
    progress: float | None = None
    """The last progress value received."""


class Notified(Struct, eq=False):
    """A notification arrived and is allowed now."""

    method: MethodSpec
    params: Any
    raw: Raw


class Replied(Struct, eq=False):
    """The reply to a request of ours arrived: exactly one of ``result``, ``error`` and ``problem`` is set."""

    outgoing: Outgoing
    result: Raw | None
    error: ErrorObject | None
    problem: str | None = None
    """Why the reply cannot be read."""


class Cancelled(Struct, eq=False):
    """The peer cancelled a request that is being served; no reply to it will be sent."""

    request: Request
    reason: str | None


class Answered(Struct, eq=False):
    """The session answered by itself (handshake, ping, refusal): ``reply`` must be sent, nothing else is to be done."""

    reply: bytes
    id: RequestId | None = None
    """The request it answers; ``None`` if its id could not be read."""
    code: int | None = None
    """The error code, if it is an error."""


class Ignored(Struct, eq=False):
    """The message needs no answer and has no effect; ``reason`` says why, for the debug log."""

    reason: str


class Batch(Struct, eq=False):
    """Several messages that came in one frame (2025-03-26 only); their replies go out in one frame as well."""

    events: list[Event]


Event = Request | Notified | Replied | Cancelled | Answered | Ignored | Batch
