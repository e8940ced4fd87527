"""What a session reports about a frame, and the two records that live as long as a request.

Events are plain data, made as structs because there is one for each message. A session returns exactly one event per
message, and ``engine`` acts on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw, Struct

from antiphon.protocol.call_record import CallRecord
from antiphon.protocol.caller import Caller
from antiphon.wire.common import ClientCapabilities, RequestMeta
from antiphon.wire.envelope import ErrorObject, RequestId
from antiphon.wire.lossless import Received
from antiphon.wire.methods import MethodSpec
from antiphon.wire.revisions import Revision


class Request(Struct, eq=False):
    """A request of the peer, from its arrival until it is answered. It is also the event of that arrival."""

    id: RequestId
    method: MethodSpec
    params: Any
    """The decoded params, of the type ``method.params``."""
    raw: Raw
    """The undecoded params, for members that the type does not know."""
    revision: Revision
    meta: RequestMeta | None
    capabilities: ClientCapabilities | None
    """The capabilities the client declared: in the handshake or, at 2026-07-28, in this request."""
    cancelled: bool = False
    on_cancel: Callable[[str | None], object] | None = None
    """Set by the code that runs the request; called with the reason to stop it when the peer cancels it or is gone."""
    sent: Any = None
    """The decoded params as they came, if ``params`` are those of a mounted server, in its names; else ``None``."""
    on_wait: Callable[[], object] | None = None
    """Called once, when the handler first has to wait."""
    on_end: Callable[[Request, object], object] | None = None
    """Called with the outcome: the result, an exception, or ``None`` if nobody waits for a reply any more. It may be
    called again if the handler ends after the peer cancelled the request; only the first call counts."""
    code: int | None = None
    """The error code of the reply, if it was an error."""
    children: set[RequestId] | None = None
    """Ids of our asks that belong to this request and are not answered yet."""
    batch: BatchReplies | None = None
    """Collects the reply if the request came in a batch."""
    related_to: RequestId | None = None
    """The request of ours on whose stream it came, if the transport has such streams."""
    caller: Caller | None = None
    """Who sent it, according to its token; ``None`` if tokens are not checked."""
    original: Received | None = None
    """A result of another peer that this request is answered with: members of it that the result's type does not know
    are sent, too."""
    tasks: Mapping[str, Received] | None = None
    """Of a subscription: the tasks of another server that the client may listen to, as they are now, by the client's
    ids; ``None`` if they are this server's own."""
    progress: float | None = None
    """The last progress value sent, since values must increase (2025-11-25 basic/utilities/progress)."""
    pass_on: Callable[[str], object] | None = None
    """Called, in place of a reply, with the name of the process that has to serve it; ``None`` if none else may."""
    record: CallRecord | None = None
    """How it goes on in another process, if it can: a call of a legacy session of one of several processes."""


class BatchReplies(Struct, eq=False):
    """Collects the replies to one batch, which are sent together with the last one (JSON-RPC 2.0, section 6)."""

    missing: int
    replies: list[bytes] = []

    def add(self, reply: bytes | None) -> bytes | None:
        """Add one reply (``None``: its request was cancelled); return the frame to send if it was the last."""
        self.missing -= 1
        if reply is not None:
            self.replies.append(reply)
        return None if self.missing or not self.replies else b"[" + b",".join(self.replies) + b"]"


class Outgoing(Struct, eq=False):
    """A request of ours that waits for its reply."""

    id: RequestId
    """The id, which is also the progress token."""
    method: MethodSpec
    parent: Request | None
    """The request of the peer that it belongs to, if any."""
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
    """The reply to a request of ours; exactly one of ``result``, ``error`` and ``problem`` is set."""

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
    """The session answered by itself (handshake, ping, refusal): send ``reply``, and do nothing else."""

    reply: bytes
    id: RequestId | None = None
    """The request it answers; ``None`` if its id could not be read."""
    code: int | None = None
    """The error code, if it is an error."""


class Ignored(Struct, eq=False):
    """The message needs no answer and has no effect; ``reason`` is for the debug log."""

    reason: str


class Batch(Struct, eq=False):
    """Several messages that came in one frame (2025-03-26 only); their replies are sent in one frame as well."""

    events: list[Event]


Event = Request | Notified | Replied | Cancelled | Answered | Ignored | Batch
