"""What lets a call of a legacy session go on in another process, once the one that served it has died.

Stored before the first event of the call's stream (``CallHead``), and known to whoever runs its handler
(``CallRecord``). A call is begun again from its request; what its handler had learnt is looked up under the id in the
record (``server.calls.recorded_call``). Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from antiphon.errors import InternalError, PeerError
from antiphon.wire.envelope import Envelope, RequestId, decode_envelope, encode_value

MAX_RECORDED = 64 * 1024
"""Most bytes of the params of a call that is recorded; one with more ends when its process dies."""

MAX_EARLY = 32
"""Most replies to asks of earlier processes that a session keeps until their calls have begun again."""

MAX_EARLY_BYTES = 4 * 1024 * 1024
"""Most bytes of the results and errors of these replies."""


def make_stopped_error() -> InternalError:
    """Make the error for a call that nobody can go on with."""
    return InternalError("The process that served this request has stopped; whether it was carried out is not known")


def first_id(moved: int) -> int:
    """Return the first id of an ask in a session that has moved so often: no earlier ask has one as high."""
    # Below 2**53, above which not every client can tell integers apart.
    return (moved << 32) + 1


class CallHead(Struct, frozen=True, array_like=True):
    """Stored before the events of a stream. Members from ``call`` on are set if the request may be begun again."""

    ids: Sequence[RequestId]
    """The requests that the stream answers."""
    call: bytes = b""
    method: str = ""
    params: bytes = b""

    def pack(self) -> bytes:
        """Encode it."""
        return _encode(self)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(CallHead).decode


def read_head(data: bytes) -> CallHead | None:
    """Decode a head; ``None`` if it is none."""
    try:
        return _decode(data)
    except msgspec.DecodeError:
        return None


class EarlierAsk(Struct, frozen=True):
    """A question that was sent by an earlier process."""

    id: RequestId
    method: str
    params: bytes


class _Progress(Struct):
    progress: float


class Sent:
    """What an earlier process has sent on the stream of a call.

    ``answered``: the requests it has replied to; ``asks``: its questions; ``progress``: the last one it reported.
    """

    def __init__(self, frames: Iterable[bytes]) -> None:
        self.answered: set[RequestId] = set()
        self.asks: list[EarlierAsk] = []
        self.progress: float | None = None
        for data in frames:
            try:
                message = decode_envelope(data)
                id, method = message.id, message.method
                if id is UNSET or id is None:
                    if method == "notifications/progress":
                        self.progress = msgspec.json.decode(message.params, type=_Progress).progress
                elif method is UNSET:
                    self.answered.add(id)
                else:
                    self.asks.append(EarlierAsk(id, method, bytes(message.params)))
            except (PeerError, msgspec.DecodeError):
                # A batch of replies, which is the last frame of its stream.
                continue


class EarlyReplies:
    """Replies to asks of earlier processes, kept until the calls that asked begin again.

    ``before``: the first id of this process; asks of earlier processes have lower ones.
    """

    __slots__ = ("_before", "_kept", "_size")

    def __init__(self, before: int) -> None:
        self._before = before
        self._kept: OrderedDict[RequestId, tuple[Envelope, int]] = OrderedDict()
        """By the id of the ask: the reply, and its size."""
        self._size = 0

    def note(self, reply: Envelope) -> None:
        """Keep a message if it is such a reply; the oldest make room."""
        id = reply.id
        if reply.method is not UNSET or not isinstance(id, int) or id >= self._before or id in self._kept:
            return
        size = len(reply.result) + (0 if reply.error is UNSET else len(encode_value(reply.error)))
        # The result is copied, because it would keep the whole frame in memory, whatever else that holds.
        self._kept[id] = structs.replace(reply, result=reply.result.copy()), size
        self._size += size
        while self._kept and (len(self._kept) > MAX_EARLY or self._size > MAX_EARLY_BYTES):
            _, (_, freed) = self._kept.popitem(last=False)
            self._size -= freed

    def take(self, id: RequestId) -> Envelope | None:
        """Return the reply to an ask, once; ``None`` if there is none."""
        reply, size = self._kept.pop(id, (None, 0))
        self._size -= size
        return reply


class CallRecord(Struct, eq=False):
    """How a call goes on elsewhere. ``id`` names it in all processes; ``again``: it began in another one.

    ``asks``: the questions that were sent there; ``replies``: answers to them that have come here.
    """

    id: bytes
    again: bool = False
    asks: Sequence[EarlierAsk] = ()
    replies: EarlyReplies | None = None
    progress: float | None = None
    """The last progress that was reported there, since values must increase."""

    def head(self, id: RequestId, method: str, params: Raw) -> CallHead:
        """Return what is stored before the events of this call's stream."""
        if len(params) > MAX_RECORDED:
            return CallHead([id])
        return CallHead([id], self.id, method, bytes(params))

    def asked(self, method: str, params: bytes) -> EarlierAsk | None:
        """Return the first question of the earlier process that was the same, once; ``None`` if there was none."""
        found = next((ask for ask in self.asks if ask.method == method and ask.params == params), None)
        if found is not None:
            self.asks = [ask for ask in self.asks if ask is not found]
        return found
