"""A legacy session over HTTP: its id, its requests and streams, and which frame is sent on which stream.

2025-11-25 basic/transports, "Session Management" and "Multiple Connections". Each message is sent on one stream:
messages that belong to a request on that of the request, all others on the one the client opens with GET. Messages may
overtake each other: a request whose cancellation came before it is not begun (``EarlyCancellations``). Only 2025-03-26
has batches, several requests in one body. As JSON the replies are one array; on a stream each one is an event.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct, field

from antiphon.channel import Frame, Oversized, Peer
from antiphon.errors import ClusterUnavailable, ConnectionClosed, InvalidRequest
from antiphon.protocol import call_record
from antiphon.protocol.http.rules import CHANGES_SESSION, GOES_ON, HttpRefusal, is_priming, takes_batches
from antiphon.transports.http.server.asgi import Http, RequestHeaders, send_refusal, send_response, send_unavailable
from antiphon.transports.http.server.entrance import EndpointSettings, schedule_expiry
from antiphon.transports.http.server.event_store import EventCursor, EventStore
from antiphon.transports.http.server.post_exchange import Connect, Exchange
from antiphon.transports.http.server.sse_response import Carrier, ResponseStream
from antiphon.wire.envelope import Envelope, RequestId, error_frame, to_wire

_STANDING = "0"
"""Number of the stream that a GET opens."""

_UNKNOWN_EVENT = HttpRefusal(400, InvalidRequest("Last-Event-ID names nothing that can be resumed"))

_KEPT = 32
"""Number of complete streams that a client may still resume."""


_LONGEST_NUMBER = 32
"""Most characters of the number of a stream, as a client names it."""


class _InitializedSession(Struct, rename="camel"):
    protocol_version: str | None = None


class _SessionReply(Struct):
    result: _InitializedSession | None = None


_decode_reply = msgspec.json.Decoder(_SessionReply).decode


class SessionPlace(NamedTuple):
    """The names by which a session and its streams are found, also after it has moved to another process."""

    id: bytes
    key: str
    """What the names of its streams begin with, in the store of events."""
    moved: int
    """How often it has moved."""

    @classmethod
    def new(cls) -> SessionPlace:
        """Make the place of a new session."""
        # "The session ID SHOULD be globally unique and cryptographically secure", of visible ASCII.
        return cls(secrets.token_hex(16).encode(), secrets.token_hex(8), 0)


class LegacySession:
    """One legacy client. It is also the channel of its peer."""

    is_framed = True
    __slots__ = (
        "_cancelled", "_count", "_early", "_ended", "_exchanges", "_over", "_settings", "_standing",
        "_store", "_streams", "changed", "id", "key", "moved", "moves", "peer", "principal", "revision",
        "used",
    )  # fmt: skip

    def __init__(
        self,
        connect: Connect,
        http: Http,
        settings: EndpointSettings,
        store: EventStore,
        assumed: str | None = None,
        *,
        place: SessionPlace | None = None,
    ) -> None:
        self.id, self.key, self.moved = SessionPlace.new() if place is None else place
        self.changed: Callable[[LegacySession], Awaitable[None]] | None = None
        """Called when a message of the client has changed what other processes have to know, if there are any."""
        self.moves = False
        """Whether the client goes on with it at another process after it was closed here."""
        self.principal = http.principal
        self.revision: str | None = assumed
        """The agreed revision; ``None`` before the handshake."""
        self.used = 0.0
        """When it was last used, by the loop's clock."""
        self._settings = settings
        self._store = store
        self._count = 0
        self._over = False
        self._early = call_record.EarlyReplies(call_record.first_id(self.moved)) if self.moved else None
        """Replies to asks that were sent where it lived before."""
        self._cancelled = EarlyCancellations()
        """Requests that were cancelled before they arrived."""
        self._exchanges: dict[RequestId, LegacyExchange] = {}
        self._streams: OrderedDict[str, ResponseStream] = OrderedDict()
        # A list, because an empty deque takes ten times as much memory, and most sessions are idle.
        self._ended: list[ResponseStream] = []
        """Streams that are complete, the oldest first."""
        self._standing: ResponseStream | None = None
        self.peer: Peer = connect(self, self.principal, RequestHeaders(http.headers), assumed)

    @property
    def session_id(self) -> str:
        """The id, as the client has it."""
        return self.id.decode()

    @property
    def is_busy(self) -> bool:
        """Whether a client is present: it waits for a request, or reads a stream.

        A call whose client has disconnected continues as long as the client may reconnect.
        """
        return self.is_awaited or any(stream.is_carried for stream in self._streams.values())

    @property
    def is_awaited(self) -> bool:
        """Whether a client waits for a request."""
        return any(not exchange.gone for exchange in self._exchanges.values())

    @property
    def has_open(self) -> bool:
        """Whether a request is being served, be its client connected or not."""
        return bool(self._exchanges)

    @property
    def takes_batches(self) -> bool:
        """Whether the agreed revision allows several messages in one POST."""
        return takes_batches(self.revision)

    # --- the channel --------------------------------------------------------------------------------------------

    async def receive(self) -> Sequence[bytes | Oversized]:
        """Return an empty sequence: every message is passed in directly."""
        return ()

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """Put a frame on the stream it belongs to, see ``Channel.send``."""
        if self._over:
            return None
        if frame.related_to is not None:
            exchange = self._exchanges.get(frame.related_to)
            if exchange is not None:
                return exchange.take(frame)
            if frame.final:
                return None
        return self._standing_stream().put(frame.data)

    async def close(self) -> None:
        """End all streams and requests; called by the peer when it ends."""
        self._over = True
        for exchange in list(self._exchanges.values()):
            # Nobody should take a session for ended that goes on elsewhere.
            exchange.end(503 if self.moves else 404)
        for stream in self._streams.values():
            stream.finish()
        keys, self._streams = list(self._streams), OrderedDict()
        for number in keys:
            if not self.moves:
                await self._store.forget(f"{self.key}/{number}")

    def closed_error(self) -> ConnectionClosed:
        """Return why it ended."""
        return ConnectionClosed("The session has ended")

    def release(self, id: RequestId) -> None:
        """Close the connection of a request's stream; the client reconnects for the rest.

        2025-11-25 basic/transports, "Sending Messages": "the server MAY close the connection (without terminating the
        SSE stream) at any time in order to avoid holding a long-lived connection".
        """
        exchange = self._exchanges.get(id)
        # A client that has not received an event id cannot reconnect.
        if exchange is None or not is_priming(self.revision) or self._settings.json_only:
            return
        exchange.release()

    # --- incoming messages --------------------------------------------------------------------------------------

    async def serve(self, http: Http, envelope: Envelope) -> None:
        """Serve a request, and respond."""
        if self._cancelled.meet(envelope.id):
            await send_response(http, 202)
            return
        exchange = self.begin(http, envelope)
        try:
            record = None if self.changed is None else self._record_work(http, exchange, envelope)
            await self.peer.handle(envelope, waits=exchange.waits, caller=http.caller, record=record)
            if self.changed is not None and envelope.method in CHANGES_SESSION:
                await self.changed(self)
            if (wait := exchange.answer()) is not None:
                await wait
        finally:
            if exchange.waited:
                await self.finish(exchange)
                self.used = asyncio.get_running_loop().time()
            else:
                del self._exchanges[exchange.ids[0]]

    def _record_work(self, http: Http, exchange: LegacyExchange, envelope: Envelope) -> call_record.CallRecord | None:
        """Name a call, so that another process can go on with it."""
        if envelope.method not in GOES_ON:
            return None
        exchange.call, name = envelope, http.call
        if not name:
            self._count += 1
            name = b"%b.%d.%d" % (self.key.encode(), self.moved, self._count)
        exchange.record = call_record.CallRecord(name, again=http.is_again)
        return exchange.record

    def begin(self, http: Http, envelope: Envelope) -> LegacyExchange:
        """Make the exchange for a request whose id is not in use (see ``is_live``)."""
        assert isinstance(envelope.id, RequestId)
        exchange = LegacyExchange(http, self._settings, _session=self, ids=[envelope.id])
        self._exchanges[envelope.id] = exchange
        return exchange

    def enter(self, id: RequestId, exchange: LegacyExchange) -> None:
        """Send the frames of a request to an exchange."""
        exchange.ids.append(id)
        self._exchanges[id] = exchange

    async def finish(self, exchange: LegacyExchange) -> None:
        """Remove an exchange; streams that a client may still resume are kept, within limits."""
        for id in exchange.ids:
            self._exchanges.pop(id, None)
        exchange.let_go()
        if exchange.stream is not None:
            exchange.stream.finish()
            self._ended.append(exchange.stream)
            await self._forget_oldest()

    def is_live(self, id: object) -> bool:
        """Tell whether a request with this id is being served."""
        return id in self._exchanges

    def take(self, envelope: Envelope) -> Awaitable[None] | None:
        """Handle a notification or a response. Returns an awaitable only if there is something to wait for."""
        if self._early is not None:
            self._early.note(envelope)
        wait = self.peer.tell(envelope)
        id = find_cancelled_id(envelope)
        if id is not None:
            self.note_cancelled(id)
        if self.changed is not None and envelope.method in CHANGES_SESSION:
            return self._note_change(self.changed, wait)
        return wait

    async def _note_change(
        self, changed: Callable[[LegacySession], Awaitable[None]], wait: Awaitable[None] | None
    ) -> None:
        if wait is not None:
            await wait
        await changed(self)

    def note_cancelled(self, id: RequestId) -> None:
        """End the wait for a request that the peer has cancelled, or remember one that was cancelled before it came."""
        exchange = self._exchanges.get(id)
        if exchange is not None:
            exchange.withdrawn(id)
        else:
            self._cancelled.note(id)

    def was_cancelled(self, id: object) -> bool:
        """Tell whether a request that arrives now was cancelled before."""
        return self._cancelled.meet(id)

    def opened(self, reply: Frame | None) -> bool:
        """Note the reply to ``initialize``; returns ``False`` if it is an error."""
        if reply is None:
            return False
        result = _decode_reply(reply.data).result
        if result is not None:
            self.revision = result.protocol_version
        return result is not None

    # --- streams ------------------------------------------------------------------------------------------------

    async def serve_stream(self, http: Http, last_event: bytes | None) -> None:
        """Respond to a GET as ``listen`` does, or refuse it."""
        try:
            if not await self.listen(http, last_event):
                await send_refusal(http, _UNKNOWN_EVENT)
        except ClusterUnavailable:
            await send_unavailable(http, "What was sent on this stream cannot be read now")

    async def listen(self, http: Http, last_event: bytes | None) -> bool:
        """Respond to a GET with a stream until the client leaves: that of ``Last-Event-ID``, or the standing one.

        Returns ``False``, with nothing sent, if there is no such stream (any more).
        """
        stream, after = self._standing_stream(), None
        if last_event is not None:
            number, _, place = last_event.decode("latin-1").partition("-")
            if not (place.isascii() and place.isdigit() and len(place) < 16):
                return False
            known = stream if number == _STANDING else self._streams.get(number)
            found = known or await self._find_left_behind(number, http)
            if found is None:
                return False
            stream, after = found, int(place)
        carrier = Carrier(http, self._settings.keep_alive)
        watch = asyncio.get_running_loop().create_task(_watch_client(http, carrier))
        timer = schedule_expiry(http.caller, carrier.stop)
        try:
            await stream.carry(carrier, after=after)
        finally:
            watch.cancel()
            if timer is not None:
                timer.cancel()
        return True

    def new_stream(self, exchange: LegacyExchange) -> ResponseStream:
        """Make the stream of these requests."""
        self._count += 1
        # Streams of the processes that it lived in before may still be resumed.
        number = f"{self.moved}.{self._count}" if self.moved else str(self._count)
        return self._number_frames(number, b"" if self.changed is None else exchange.head.pack())

    async def restore_standing(self) -> None:
        """Go on after the events that were sent on the stream of GETs where this session lived before.

        Raises what the store raises.
        """
        cursor = self._standing_stream().cursor
        if cursor is not None:
            kept = await self._store.after(cursor.key, -1)
            cursor.last = kept[-1][0] if kept else 0

    async def _find_left_behind(self, number: str, http: Http) -> ResponseStream | None:
        """Return a stream of a process that has died, if it is known: its call is begun again, or ends with an error.

        ``http``: the request that resumes it.
        """
        if not self.moved or len(number) > _LONGEST_NUMBER or not number.replace(".", "").isdecimal():
            return None
        kept = await self._store.after(f"{self.key}/{number}", -1)
        head = call_record.read_head(kept[0][1]) if kept and kept[0][0] == 0 else None
        if head is None or number in self._streams:
            # Another request may have resumed it meanwhile.
            return self._streams.get(number)
        stream = self._number_frames(number)
        assert stream.cursor is not None
        stream.cursor.last = kept[-1][0]
        sent = call_record.Sent(data for _, data in kept[1:])
        left = [id for id in head.ids if id not in sent.answered]
        if left and head.call and not self.is_live(left[0]):
            self._begin_again(stream, head, sent, http)
            return stream
        for id in left:
            stream.put(error_frame(id, to_wire(call_record.make_stopped_error()), null_id=False))
        stream.finish()
        self._ended.append(stream)
        return stream

    def _begin_again(
        self, stream: ResponseStream, head: call_record.CallHead, sent: call_record.Sent, http: Http
    ) -> None:
        """Go on with a call of a process that has died; what is sent for it follows what was sent there."""
        [id] = head.ids
        call = Envelope("2.0", id, head.method, Raw(head.params))
        record = call_record.CallRecord(head.call, True, sent.asks, self._early, sent.progress)
        # Nobody waits for the response of its POST.
        exchange = LegacyExchange(
            http,
            self._settings,
            stream=stream,
            gone=True,
            waited=True,
            _session=self,
            ids=[id],
            call=call,
            record=record,
        )
        self._exchanges[id] = exchange
        exchange.run = asyncio.get_running_loop().create_task(self._run_again(exchange, call, record, http))

    async def _run_again(
        self, exchange: LegacyExchange, call: Envelope, record: call_record.CallRecord, http: Http
    ) -> None:
        try:
            await self.peer.handle(call, caller=http.caller, record=record)
            await exchange.until_answered()
        finally:
            await self.finish(exchange)
            self.used = asyncio.get_running_loop().time()

    def _standing_stream(self) -> ResponseStream:
        if self._standing is None:
            self._standing = self._number_frames(_STANDING)
        return self._standing

    def _number_frames(self, number: str, head: bytes = b"") -> ResponseStream:
        cursor = EventCursor(self._store, f"{self.key}/{number}", number, is_priming(self.revision), head)
        stream = self._streams[number] = ResponseStream(cursor)
        return stream

    async def _forget_oldest(self) -> None:
        if len(self._ended) <= _KEPT:
            return
        # A stream that is being resumed is considered again when the next one ends.
        oldest = [stream for stream in self._ended[:-_KEPT] if not stream.is_carried]
        self._ended = [stream for stream in self._ended if stream not in oldest]
        for stream in oldest:
            cursor = stream.cursor
            if cursor is not None and self._streams.pop(cursor.number, None) is not None:
                await self._store.forget(cursor.key)


class LegacyExchange(Exchange, eq=False, kw_only=True):
    """A request of a legacy session, or the requests of a batch."""

    _session: LegacySession
    ids: list[RequestId] = field(default_factory=list)
    call: Envelope | None = None
    """The request, if another process may go on with it."""
    record: call_record.CallRecord | None = None
    """How the other process would go on with it."""
    run: asyncio.Task[None] | None = None
    """The task that runs it, if it was begun again here."""

    @property
    def head(self) -> call_record.CallHead:
        """What other processes have to know of its stream."""
        if self.record is None or self.call is None or not isinstance(self.call.method, str):
            return call_record.CallHead(self.ids)
        return self.record.head(self.ids[0], self.call.method, self.call.params)

    def new_stream(self) -> ResponseStream:
        """Make a stream that can be resumed."""
        return self._session.new_stream(self)

    def aside(self, frame: Frame) -> Awaitable[None] | None:
        """Put it on the stream that the client may have opened with GET."""
        return self._session.send(Frame(frame.data))

    def withdrawn(self, id: RequestId) -> None:
        """Note that the client has cancelled this request, to which no reply comes."""
        self.end()


async def _watch_client(http: Http, carrier: Carrier) -> None:
    await http.wait_gone()
    carrier.stop(lost=True)


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


def find_cancelled_id(envelope: Envelope) -> RequestId | None:
    """Return the id of the request that a message cancels; ``None`` if it cancels none."""
    if envelope.method != "notifications/cancelled":
        return None
    try:
        return _decode(envelope.params or b"{}").request_id
    except msgspec.DecodeError:
        return None


MAX_BATCH = 256
"""Most messages in one batch."""


class _BatchExchange(LegacyExchange, eq=False, kw_only=True):
    _replies: list[bytes]
    _open: set[RequestId]
    """The requests that have neither a reply nor a cancellation."""

    def take(self, frame: Frame) -> Awaitable[None] | None:
        if not frame.final:
            return super().take(frame)
        if frame.related_to in self._open:
            self._open.remove(frame.related_to)
            self._replies.append(frame.data)
        return self.send_collected()

    def withdrawn(self, id: RequestId) -> None:
        self._open.discard(id)
        self.send_collected()

    def send_collected(self) -> Awaitable[None] | None:
        """Send the replies, if they can be sent now."""
        if self.stream is not None:
            for data in self._replies:
                self.stream.put(data)
            self._replies.clear()
        if not self._open:
            if self._replies:
                return super().take(Frame(b"[%b]" % b",".join(self._replies), None, True))
            self.end()
        return None


async def serve_batch(
    http: Http,
    settings: EndpointSettings,
    session: LegacySession,
    messages: Sequence[Envelope],
    refused: Sequence[bytes],
) -> None:
    """Serve the requests among some messages; ``refused`` are replies to messages that could not be read."""
    requests = {each.id for each in messages if isinstance(each.id, int | str) and isinstance(each.method, str)}
    exchange = _BatchExchange(http, settings, _session=session, _replies=list(refused), _open=set(requests))
    serving: list[Awaitable[None]] = []
    try:
        exchange.waits()
        if not requests and refused:
            exchange.send_collected()
        for each in messages:
            if isinstance(each.id, int | str) and isinstance(each.method, str):
                session.enter(each.id, exchange)
            serving.append(session.peer.handle(each, caller=http.caller))
            # A cancellation that stands before its request cancels nothing.
            if (id := find_cancelled_id(each)) is not None and (id in exchange.ids or id not in requests):
                session.note_cancelled(id)
        await asyncio.gather(*serving)
        if requests or refused:
            await exchange.until_answered()
            await exchange.respond()
        else:
            await send_response(http, 202)
    finally:
        await session.finish(exchange)
