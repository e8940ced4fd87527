"""The rules both sides share: decoding frames, malformed input, batches, replies and notifications.

A session turns one frame into one event, and one intention into one frame. It never waits, never reads a clock, and
never raises because of what the peer sent. It keeps the open requests of both sides, and finds the one that a reply, a
cancellation or a progress report belongs to; ``ServerSession`` and ``ClientSession`` add the rules of their side. The
caller must send the bytes that a method returns, in the order of the calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from itertools import count
from math import isfinite
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Raw

from antiphon import errors
from antiphon.protocol.events import Answered, Batch, Cancelled, Event, Ignored, Notified, Outgoing, Replied, Request
from antiphon.protocol.salvage import read_list, read_remains
from antiphon.wire.common import RequestParams, Wire
from antiphon.wire.envelope import (
    Envelope,
    RequestId,
    decode_envelope,
    decode_wire,
    encode_value,
    error_frame,
    notification_frame,
    request_frame,
    result_frame,
    split_batch,
    to_wire,
)
from antiphon.wire.lifecycle import CancelledNotificationParams, ProgressNotificationParams
from antiphon.wire.lossless import Received
from antiphon.wire.methods import METHODS, MethodSpec, Side, unknown_notification
from antiphon.wire.revisions import Revision

MAX_BATCH = 256
"""Most messages in one batch. Each may start work, so the bound on the size of a frame is not enough."""

_RESERVED = range(-32099, -32019)
"""Codes that only the specification may define (2026-07-28 basic, Error Codes)."""

_DEFINED = {
    errors.HeaderMismatch.CODE,
    errors.MissingCapability.CODE,
    errors.UnsupportedVersion.CODE,
    errors.UrlElicitationRequired.CODE,
}

_is_number = re.compile("[0-9]{1,15}").fullmatch

_MAX_ECHO = 100
"""Most characters of a peer's own text that an error repeats."""

_MAX_ERROR = 500
"""Most characters of an error object that cannot be read that are shown to whoever waits for the reply."""


class PeerSession:
    """The rules for one peer. Use ``ServerSession`` or ``ClientSession``."""

    side: ClassVar[Side]
    """Which side this is."""

    def __init__(self) -> None:
        self.incoming: dict[RequestId, Request] = {}
        """Requests of the peer that are being served."""
        self.outgoing: dict[RequestId, Outgoing] = {}
        """Requests of ours that wait for a reply."""
        self._ids = count(1)
        self._newest = 0
        """The last id of a request of ours."""
        self.revision: Revision | None = None
        """The agreed revision; ``None`` before the handshake. On a server, modern requests carry their own."""
        self.carries: Callable[[RequestId], dict[str, str]] | None = None
        """Returns further members for the ``_meta`` of a request of ours: its trace context."""
        self.is_framed = False
        """Whether the channel has nothing but messages; other code of a program may print to its output."""
        self._said: dict[str, None] = {}
        """What was logged once: not a set, because an empty one takes three times the memory."""

    # --- our requests -------------------------------------------------------------------------------------------

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
        self._newest = id
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
        id = None if envelope.id is UNSET or envelope.id is None else self._restore_id(envelope.id)
        outgoing = None if id is None else self._settle(id)
        if outgoing is None:
            return self._misfit(id, envelope)
        if envelope.error is not UNSET:
            return Replied(outgoing, None, envelope.error)
        return Replied(outgoing, envelope.result, None)

    def _restore_id(self, id: RequestId) -> RequestId:
        """Return the number that we sent where a peer has made text of it, as those do that keep all ids as text."""
        return int(id) if isinstance(id, str) and id not in self.outgoing and _is_number(id) else id

    def _misfit(self, id: RequestId | None, reply: Envelope | None = None) -> Event:
        """Fail the only request that a reply with a wrong id can be meant for; a late reply fails nothing."""
        outgoing = None if isinstance(id, int) and 0 < id <= self._newest else self._only_open()
        if outgoing is None or (id is None and reply is not None and self._is_of_another(reply, outgoing)):
            return Ignored("a reply to no request of ours, or a late one")
        self._settle(outgoing.id)
        if id is None and reply is not None and reply.error is not UNSET:
            # A peer that could not read the id of a request leaves it out of its error (JSON-RPC 2.0, section 5).
            return Replied(outgoing, None, reply.error)
        given = "without a readable id" if id is None else f"with the id {shorten_text(str(id))!r}, not {outgoing.id}"
        return Replied(outgoing, None, None, f"The reply to {outgoing.method.name} came {given}")

    def _is_of_another(self, reply: Envelope, waiting: Outgoing) -> bool:
        """Return whether a reply without an id seems to answer another message than the request that waits.

        Some peers answer notifications: with an error that there is no such method, or with a result that does
        not fit. A client answers lines that are no messages, and that other code of a server may have printed.
        """
        if reply.error is not UNSET:
            is_of_print = self.side == "server" and not self.is_framed
            return is_of_print or reply.error.code == errors.MethodNotFound.CODE
        try:
            decode_wire(reply.result, waiting.method.result or dict[str, Any])
        except msgspec.DecodeError:
            return True
        return False

    def _only_open(self) -> Outgoing | None:
        """Return the only request of ours that waits; subscriptions, which last, do not count."""
        waiting = [each for each in self.outgoing.values() if each.method.name != "subscriptions/listen"]
        return waiting[0] if len(waiting) == 1 else None

    def _progress_arrived(self, spec: MethodSpec, params: ProgressNotificationParams, raw: Raw) -> Event:
        outgoing = self.outgoing.get(self._restore_id(params.progress_token))
        if outgoing is None or not outgoing.wants_progress:
            return Ignored("progress: unknown token, or the request has ended")
        if outgoing.progress is not None and params.progress <= outgoing.progress:
            return Ignored("progress: the value did not increase")
        outgoing.progress = params.progress
        return Notified(spec, params, raw)

    # --- requests of the peer -----------------------------------------------------------------------------------

    def withdraw(self, id: RequestId, reason: str | None) -> Cancelled | None:
        """Note that the peer cancelled a request; ``None`` if there is no such request, or it was answered."""
        # 2025-11-25 basic/utilities/cancellation: "The initialize request MUST NOT be cancelled"; it is never
        # in this table.
        request = self.incoming.pop(id, None)
        if request is None:
            return None
        request.cancelled = True
        return Cancelled(request, reason)

    def _cancel_arrived(self, params: CancelledNotificationParams) -> Event:
        withdrawn = None if params.request_id is None else self.withdraw(params.request_id, params.reason)
        return withdrawn or Ignored("cancelled: no such request, or answered already")

    # --- incoming messages --------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> Event:
        """Handle one frame, and return what it means. Never raises."""
        try:
            envelope = decode_envelope(data)
        except (errors.InvalidRequest, errors.ParseError) as error:
            return self._not_a_message(data, error)
        return self.take(envelope)

    def handle_oversized(self, size: int, limit: int) -> Event:
        """Handle a frame that was dropped for its size. Its id is unknown, so the reply carries none."""
        return self._refuse(
            None, errors.InvalidRequest(f"Invalid request: frame of {size} bytes, the limit is {limit}")
        )

    def take(self, message: Envelope, params: RequestParams | None = None) -> Event:
        """Handle one message that the transport has already decoded; ``params`` as well if it had to decode them."""
        method, id = message.method, message.id
        if method is UNSET or id is UNSET or id is None:
            return self._no_request(message)
        if id in self.incoming:
            return self._refuse(id, errors.InvalidRequest("Invalid request: this id is in use"))
        return self._request(message, id, method, params)

    def _no_request(self, envelope: Envelope) -> Event:
        if envelope.method is not UNSET:
            if envelope.id is UNSET:
                return self._notification(envelope, envelope.method)
            # 2025-11-25 basic: "Unlike base JSON-RPC, the ID MUST NOT be null."
            return self._refuse(None, errors.InvalidRequest("Invalid request: id must be a string or an integer"))
        if envelope.result or envelope.error is not UNSET:
            return self._reply_arrived(envelope)
        id = envelope.id if envelope.id is not UNSET else None
        error = errors.InvalidRequest("Invalid request: neither method, result nor error")
        return self._spoilt(id, "has neither result nor error") or self._no_message(id, error)

    def _no_message(self, id: RequestId | None, error: errors.PeerError) -> Event:
        """Refuse JSON that is no message, or fail the only request of ours to which it can be meant as the reply."""
        outgoing = self._only_open() if id is None and self.is_framed else None
        failed = None if outgoing is None else self._spoilt(outgoing.id, f"is no message ({error.message})")
        return failed or self._refuse(id, error)

    def _spoilt(self, id: RequestId | None, how: str) -> Replied | None:
        """Fail the request of ours with this id, since nothing else will reply to it; ``None`` if there is none."""
        outgoing = None if id is None else self._settle(id)
        return None if outgoing is None else Replied(outgoing, None, None, f"The reply to {outgoing.method.name} {how}")

    def _fail_sent_back(self, envelope: Envelope, id: RequestId) -> Replied | None:
        """Fail a request of ours that came back with a reply in it, so that it looks like a request of the peer."""
        is_reply = bool(envelope.result) or envelope.error is not UNSET
        return self._spoilt(id, "has a method, too") if is_reply else None

    def _not_a_message(self, data: bytes, error: errors.PeerError) -> Event:
        try:
            batch = split_batch(data)
        except errors.PeerError as worse:
            return self._no_message(None, worse)
        return self._unreadable(data, error) if batch is None else self._batch(batch)

    def _unreadable(self, data: bytes, error: errors.PeerError) -> Event:
        """Refuse a message that cannot be read. If it is a reply, the request that waits for it fails instead."""
        try:
            remains = read_remains(data)
        except msgspec.DecodeError as no_json:
            return self._refuse(None, errors.ParseError(f"Parse error: {no_json}"))
        id = remains.request
        if not remains.is_reply:
            return self._refuse(id, error) if remains.method is not None else self._no_message(id, error)
        outgoing = self._settle(id) if id is not None else None
        if outgoing is None:
            return self._misfit(id)
        if outgoing.method.name.endswith("/list") and (listed := read_list(data)) is not None:
            return Replied(outgoing, listed.result, None)
        reason = error.message.partition(": ")[2]
        if remains.error:
            # Such as a text alone, or an error without a message: it may say what went wrong.
            said = bytes(memoryview(remains.error)[: 4 * _MAX_ERROR]).decode(errors="replace")
            reason += f"; its error is {shorten_text(said, _MAX_ERROR)}"
        return Replied(outgoing, None, None, f"The reply to {outgoing.method.name} cannot be read: {reason}")

    def _batch(self, messages: list[Raw]) -> Event:
        if not messages:
            return self._no_message(None, errors.InvalidRequest("Invalid request: empty batch"))
        if self.revision is None or not self.revision.batches:
            return self._refuse_batch(messages, "this revision has no batches")
        if len(messages) > MAX_BATCH:
            return self._refuse_batch(messages, f"more than {MAX_BATCH} messages in a batch")
        return Batch([self._member(bytes(message)) for message in messages])

    def _refuse_batch(self, messages: list[Raw], why: str) -> Event:
        """Refuse a batch. The requests of ours to which it replies fail: no other reply will come."""
        refusal = self._refuse(None, errors.InvalidRequest(f"Invalid request: {why}"))
        found = (read_remains(bytes(message)) for message in messages[:MAX_BATCH] if self.outgoing)
        failed = [self._spoilt(each.request, f"came in a batch: {why}") for each in found if each.is_reply]
        replies: list[Event] = [each for each in failed if each is not None]
        return Batch(replies) if replies else refusal

    def _member(self, data: bytes) -> Event:
        try:
            return self.take(decode_envelope(data))
        except errors.PeerError as error:
            return self._unreadable(data, error)

    def _request(self, envelope: Envelope, id: RequestId, method: str, params: RequestParams | None) -> Event:
        raise AssertionError("each side defines which requests it serves")

    def _notification(self, envelope: Envelope, method: str) -> Event:
        spec = METHODS.get(method)
        if spec is None and self._takes(method):
            spec = unknown_notification(method)
        if spec is None or spec.kind != "notification":
            return Ignored(f"unknown notification {shorten_text(method)}")
        try:
            params = decode_wire(envelope.params, spec.params)
        except msgspec.DecodeError as error:
            return Ignored(f"{method}: {error}")
        if isinstance(params, CancelledNotificationParams):
            return self._cancel_arrived(params)
        if isinstance(params, ProgressNotificationParams):
            return self._progress_arrived(spec, params, envelope.params)
        return self._other_notification(Notified(spec, params, envelope.params))

    def _takes(self, method: str) -> bool:
        """Return whether messages of this method, which no revision has, are passed on."""
        raise AssertionError("each side defines what it passes on")

    def _other_notification(self, event: Notified) -> Event:
        raise AssertionError("each side defines which notifications it takes")

    # --- replies ------------------------------------------------------------------------------------------------

    def _refuse(self, id: RequestId | None, error: errors.PeerError) -> Event:
        return Answered(error_frame(id, to_wire(error), null_id=self._has_null_ids()), id, error.code)

    def _has_null_ids(self) -> bool:
        """Return whether an error without a readable id carries ``null``, as it does until a revision is agreed."""
        return self.revision is None or self.revision.null_id

    def reply(self, request: Request, result: Wire | Raw) -> bytes | None:
        """Answer a request of the peer; ``None`` if it has ended. It stays open if the result cannot be encoded."""
        if self.incoming.get(request.id) is not request:
            return None
        if request.original is not None:
            result = self._with_unknown(request, request.original, result)
        encoded = self._encode_result(request, result)
        del self.incoming[request.id]
        return result_frame(request.id, encoded)

    def _with_unknown(self, request: Request, original: Received, result: Wire | Raw) -> Wire | Raw:
        """Return a result with the members of the original that its type does not know."""
        if isinstance(result, Raw) or result.__class__ is not original.read.__class__:
            return result
        if result is original.read and original.lowered_for == request.revision.name:
            return original.raw
        return original.carrying(request.revision.lower(result))

    def _encode_result(self, request: Request, result: Wire | Raw) -> bytes:
        if isinstance(result, Raw):
            return bytes(result)
        return encode_value(request.revision.lower(result))

    def reply_error(self, request: Request, error: BaseException) -> bytes | None:
        """Answer a request with an error, without the text of unexpected and remote ones; ``None`` if it has ended."""
        if self.incoming.get(request.id) is not request:
            return None
        del self.incoming[request.id]
        if isinstance(error, errors.PeerError) and (error.remote or not _may_send(error.code)):
            error = errors.InternalError("Internal error")
        failure = request.revision.adapt_error(to_wire(error))
        request.code = failure.code
        try:
            return error_frame(request.id, failure, null_id=False)
        except (TypeError, ValueError, RecursionError, msgspec.EncodeError):
            # The handler's message or data contains something JSON cannot carry, such as half a surrogate
            # pair or an object.
            request.code = errors.InternalError.CODE
            return error_frame(request.id, to_wire(errors.InternalError("Internal error")), null_id=False)

    # --- outgoing messages --------------------------------------------------------------------------------------

    def notify(
        self, spec: MethodSpec, params: Wire, request: Request | None = None, original: Received | None = None
    ) -> bytes:
        """Encode a notification at the revision of ``request`` or the session, with the members of ``original``."""
        revision = self.revision if request is None else request.revision
        if revision is None:
            raise errors.LocalProtocolError(f"{spec.name} cannot be sent before the handshake")
        if spec.kind != "notification" or not spec.note_sender(self.side, revision.name):
            raise errors.NotInRevision(f"revision {revision.name} has no {spec.name} that a {self.side} sends")
        lowered = revision.lower(params)
        return notification_frame(
            spec.name, encode_value(lowered) if original is None else bytes(original.carrying(lowered))
        )

    def first_time(self, topic: str) -> bool:
        """Return whether a topic comes up for the first time in this session, so that it is logged once."""
        if topic in self._said:
            return False
        self._said[topic] = None
        return True

    def deprecation(self, spec: MethodSpec, revision: Revision) -> str | None:
        """Return a warning about a method that the revision deprecates: a sentence the first time, then ``None``."""
        if spec.deprecated_since is None or revision.name < spec.deprecated_since or spec.name in self._said:
            return None
        self._said[spec.name] = None
        return (
            f"{spec.name} is deprecated since protocol revision {spec.deprecated_since}; it works until it is removed"
        )

    def progress(self, request: Request, progress: float, total: float | None, message: str | None) -> bytes | None:
        """Report progress; ``None`` if nobody asked for it, the request has ended, or the value did not increase."""
        token = request.meta.progress_token if request.meta is not None else None
        if token is None or self.incoming.get(request.id) is not request:
            return None
        # 2025-11-25 basic/utilities/progress: "The progress value MUST increase with each notification"
        if request.progress is not None and progress <= request.progress:
            return None
        if isinstance(progress, float) and not isfinite(progress):
            return None
        if isinstance(total, float) and not isfinite(total):
            total = None
        request.progress = progress
        params = ProgressNotificationParams(progress_token=token, progress=progress, total=total, message=message)
        return self.notify(METHODS["notifications/progress"], params, request)

    def cancel(self, id: RequestId, reason: str | None = None) -> bytes | None:
        """Cancel a request of ours; return the notification, ``None`` if it has ended or may not be cancelled."""
        outgoing = self._settle(id)
        if outgoing is None or outgoing.method.name == "initialize":
            return None
        if self.revision is None and outgoing.method.name == "server/discover":
            # No reply has shown yet that the server knows this method: a probe that stays unanswered is
            # dropped silently.
            return None
        params = CancelledNotificationParams(request_id=id, reason=reason)
        return notification_frame("notifications/cancelled", encode_value(params))


def read_params(envelope: Envelope, spec: MethodSpec) -> Any:
    """Decode the params of a request; raises ``InvalidParams``, which names the place, if they do not fit."""
    try:
        return decode_wire(envelope.params, spec.params)
    except msgspec.DecodeError as error:
        raise errors.InvalidParams(f"Invalid params: {error}") from None


def _may_send(code: int) -> bool:
    # 2026-07-28 basic, Error Codes: "Implementations MUST NOT emit any code from this sub-range that is not defined".
    return type(code) is int and (code not in _RESERVED or code in _DEFINED)


def shorten_text(text: str, most: int = _MAX_ECHO) -> str:
    """Cut a peer's own text to the length that an error may repeat."""
    return text if len(text) <= most else f"{text[:most]}..."


class Phase(Enum):
    """Progress of the handshake of a legacy session."""

    NEW = "new"
    """No revision was agreed."""
    ANSWERED = "answered"
    """``initialize`` was answered, ``notifications/initialized`` not yet received (over HTTP the first request may
    overtake it)."""
    READY = "ready"
    """Both sides may send what their capabilities allow."""


TRANSITIONS: dict[tuple[Phase, str], Phase] = {
    (Phase.NEW, "initialize"): Phase.ANSWERED,
    (Phase.ANSWERED, "notifications/initialized"): Phase.READY,
}
"""(phase, method) to the next phase. A missing entry is an error for ``initialize``, and no effect for the
notification."""

ALLOWED_BEFORE_READY = frozenset({"initialize", "ping", "server/discover"})
"""What a server serves in phase NEW, besides requests that carry modern ``_meta``."""
