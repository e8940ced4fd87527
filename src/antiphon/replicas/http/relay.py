"""A request that one replica receives and another serves: both ends.

The request travels as one message; its response comes back in parts, at most ``_WINDOW`` bytes ahead of what the
client has read. Messages are sealed, and bound to the two replicas. A token is checked where it arrives, and goes no
further: who sent the request is told instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from antiphon.errors import ClusterUnavailable, InternalError, PeerError
from antiphon.machine.asyncio_tasks import at_once_or_within, end_tasks, start_in
from antiphon.protocol.call_record import make_stopped_error
from antiphon.protocol.caller import Caller
from antiphon.protocol.http.rules import NOT_ACCEPTED, Gate, has_null_ids, id_of
from antiphon.protocol.http.sse import encode_event
from antiphon.replicas.engines.base import LEASE, WAITING
from antiphon.replicas.http.records import ReplicaCommons
from antiphon.transports.http.server.asgi import Http, Message, send_json, send_response, send_unavailable
from antiphon.wire.envelope import decode_envelope, error_frame, to_wire

log = logging.getLogger(__name__)

MAX_SERVED = 5_000
"""Most requests of other replicas that are served at once; as many as an endpoint has open by itself."""

_WINDOW = 1024 * 1024
"""Most bytes of a response that are under way between two replicas; a part that is larger goes alone."""

_STALL = 30.0
"""Seconds a client may read nothing before it counts as gone."""

_SILENCE = 10.0
"""Seconds without a message about a request after which its home is asked whether it still serves it."""

_ASKED = 1_000
"""Most requests about which one message asks."""

_MISSES = 10
"""How often in a row the engine may fail before the requests under way are given up."""

_ENDING = 1.0
"""Seconds for which a replica that stops waits for the ends of responses, which its sessions have brought about."""

_SECRET = frozenset({b"authorization", b"proxy-authorization", b"cookie"})
"""Headers that are not passed on."""

_UNREACHABLE = to_wire(InternalError("The replicas of this server cannot reach each other now"))
_BUSY = "Too many requests of other replicas are open"


class _Sender(Struct, frozen=True, array_like=True):
    """Who has sent a request, as its token says."""

    principal: str
    scopes: list[str]
    claims: bytes
    expires: float | None
    sees_only_allowed: bool


class _Begin(Struct, frozen=True, array_like=True, tag=1):
    """A request. ``id`` names it between the two replicas."""

    id: int
    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes | None
    sender: _Sender | None
    call: bytes = b""
    """The name of a call (``Http.call``)."""
    again: bool = False


class _Part(Struct, frozen=True, array_like=True, tag=2):
    """A part of the response; the first one has its head."""

    id: int
    number: int
    status: int
    headers: list[tuple[bytes, bytes]]
    data: bytes
    more: bool


class _ReadBytes(Struct, frozen=True, array_like=True, tag=3):
    """The client has read so many bytes more."""

    id: int
    size: int


class _Gone(Struct, frozen=True, array_like=True, tag=4):
    id: int


class _ServingQuestion(Struct, frozen=True, array_like=True, tag=5):
    """The question whether requests are still being served."""

    ids: list[int]


class _SentParts(Struct, frozen=True, array_like=True, tag=6):
    """How many parts of each response were sent; -1: the request is not being served."""

    parts: list[tuple[int, int]]


_Any = _Begin | _Part | _ReadBytes | _Gone | _ServingQuestion | _SentParts
_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], _Any] = msgspec.msgpack.Decoder(_Any).decode

Serve = Callable[[Http, "bytes | None"], Awaitable[None]]


class Cut(NamedTuple):
    """How far the response of another replica had come, when it ended too early."""

    kind: bytes = b""
    """Its content type, once its head was sent to the client."""
    last: bytes = b""
    """Id of the last event that the client got."""
    is_refused: bool = False
    """Whether the replica has not begun to serve the request, and has said so."""


class _Passed:
    """A request that is served by another replica, as seen from where it arrived."""

    def __init__(self, home: str, now: float) -> None:
        self.home = home
        self.parts: deque[_Part] = deque()
        self.arrived = asyncio.Event()
        self.received = 0
        self.heard = now
        self.is_asked = False
        self._told = 0
        """How many parts the home had sent when it was asked last; they may be under way still."""
        self.is_lost = False
        """Whether nothing more will come."""
        self.is_gone = False
        """Whether the client has left."""

    def lose(self) -> None:
        self.is_lost = True
        self.arrived.set()

    @property
    def is_refused(self) -> bool:
        """Whether the other replica has said that it did not begin: it leaves, or has too much to do."""
        first = self.parts[0] if self.parts else None
        return first is not None and (NOT_ACCEPTED, b"1") in first.headers

    def tell(self, parts: int, now: float) -> None:
        """Note how many parts the home says it has sent; -1: it does not serve this."""
        if parts < 0 or self.received < self._told:
            # What it had sent when it was asked before should have arrived by now.
            self.lose()
            return
        self.is_asked, self._told = False, parts
        if parts == self.received:
            self.heard = now

    def take(self, part: _Part, now: float) -> None:
        self.heard, self.is_asked = now, False
        if part.number != self.received:
            # A message was lost: what follows makes no sense.
            self.lose()
            return
        self.received += 1
        self.parts.append(part)
        self.arrived.set()


class _RelayedRequest:
    """A request of another replica, as seen from where it is served: what ASGI calls ``receive`` and ``send``."""

    def __init__(self, post: Callable[[_Part], Awaitable[None]], id: int, now: float) -> None:
        self.heard = now
        """When the other replica has last read of it, or asked after it."""
        self._post = post
        self._id = id
        self._head: tuple[int, list[tuple[bytes, bytes]]] = 0, []
        self._ahead = 0
        self._changed = asyncio.Event()
        self._is_gone = False
        self.sent = 0
        self.is_complete = False

    async def receive(self) -> Message:
        """Return the end of the connection, once the client has left; the body was passed on whole."""
        while not self._is_gone:
            await self._wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Mapping[str, Any]) -> None:
        """Pass on a part of the response, the head together with what follows it."""
        if message["type"] == "http.response.start":
            self._head = message["status"], [(name, value) for name, value in message["headers"]]
            return
        data: bytes = message.get("body", b"")
        while self._ahead and self._ahead + len(data) > _WINDOW and not self._is_gone:
            await self._wait()
        if self._is_gone:
            raise OSError("the client has left")
        (status, headers), self._head = self._head, (0, [])
        self._ahead += len(data)
        number, self.sent = self.sent, self.sent + 1
        self.is_complete = not message.get("more_body", False)
        try:
            await self._post(_Part(self._id, number, status, headers, data, not self.is_complete))
        except ClusterUnavailable as error:
            raise OSError(str(error)) from None

    def read(self, size: int) -> None:
        """Note that the client has read so much."""
        self._ahead -= size
        self._changed.set()

    def leave(self) -> None:
        """Note that the client has left."""
        self._is_gone = True
        self._changed.set()

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class Relays:
    """The requests under way between this replica and the others.

    ``serve`` serves one that another replica has received: the request, and its body if it has one.
    """

    def __init__(self, common: ReplicaCommons, serve: Serve, path: str, gate: Gate | None) -> None:
        self._common = common
        self._cluster = common.cluster
        self._serve = serve
        self._path = path
        self._gate = gate
        self._topic = f"relay/{common.name}/{path}"
        self._ids = count(1)
        self._passed: dict[int, _Passed] = {}
        self._served: dict[tuple[str, int], _RelayedRequest] = {}
        self._spoken: dict[str, float] = {}
        """When each replica has sent something last, within the lease."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._guard: asyncio.Task[None] | None = None
        self.last_asked = 0.0
        """When another replica has passed something on last, by the loop's clock."""
        self._is_closed = False
        """Whether what others pass on is refused; they are told until this replica has left."""
        self._cluster.listen(self._topic, self._deliver)

    async def close(self) -> None:
        """Give up everything that is under way, once what ends by itself has said so."""
        self._is_closed = True
        for passed in self._passed.values():
            passed.lose()
        if self._tasks:
            # The last part of a response, or that it is refused, may be on its way to the engine.
            await asyncio.wait(self._tasks, timeout=_ENDING)
        await end_tasks(*self._tasks, self._guard)

    # --- where a request arrives --------------------------------------------------------------------------------

    async def pass_on(self, home: str, http: Http, body: bytes | None) -> Cut | None:
        """Have a replica serve a request, and respond with what it responds.

        Returns how far that came if the replica has died, cannot be reached any more or did not begin; else ``None``.
        """
        id, passed = next(self._ids), _Passed(home, asyncio.get_running_loop().time())
        self._passed[id] = passed
        watch = asyncio.get_running_loop().create_task(self._watch(http, passed, id))
        self._begin_guard()
        try:
            headers = [(name, value) for name, value in http.headers.items() if name not in _SECRET]
            sender, caller = None, http.caller
            if caller is not None:
                claims = msgspec.json.encode(dict(caller.claims))
                scopes = sorted(caller.scopes)
                sender = _Sender(caller.principal, scopes, claims, caller.expires, caller.sees_only_allowed)
            begin = _Begin(id, http.method, self._path, headers, body, sender, http.call, http.is_again)
            await self._send(home, begin)
            return await self._respond(http, passed, id)
        finally:
            watch.cancel()
            del self._passed[id]

    async def _respond(self, http: Http, passed: _Passed, id: int) -> Cut | None:
        more, kind, last = True, b"", b""
        while more:
            if not passed.parts:
                if passed.is_gone:
                    return None
                if passed.is_lost:
                    return Cut(kind, last)
                passed.arrived.clear()
                await passed.arrived.wait()
                continue
            if passed.is_refused:
                return Cut(is_refused=True)
            part = passed.parts.popleft()
            more = part.more
            if part.status:
                kind = dict(part.headers).get(b"content-type", b"none")
                await http.send({"type": "http.response.start", "status": part.status, "headers": part.headers})
            try:
                sending = http.send({"type": "http.response.body", "body": part.data, "more_body": more})
                await at_once_or_within(_STALL, sending)
            except (TimeoutError, OSError):
                await self._tell(passed.home, _Gone(id))
                return None
            last = _last_id(part.data) or last
            if more and part.data:
                await self._tell(passed.home, _ReadBytes(id, len(part.data)))
        return None

    async def _watch(self, http: Http, passed: _Passed, id: int) -> None:
        await http.wait_gone()
        # First: the home may say that it serves this no more before the engine says that it was told.
        passed.is_gone = True
        passed.arrived.set()
        start_in(self._tasks, self._tell(passed.home, _Gone(id)))

    def _begin_guard(self) -> None:
        if self._guard is None or self._guard.done():
            self._guard = asyncio.get_running_loop().create_task(self._look_after())

    async def _look_after(self) -> None:
        """Find requests whose home has died, and those of which nothing was heard for long."""
        misses = 0
        while self._passed or self._served:
            await asyncio.sleep(LEASE / 4)
            dead: set[str] = set()
            try:
                for home in {passed.home for passed in self._passed.values()}:
                    if not self.has_spoken(home) and not await self._cluster.is_alive(home):
                        dead.add(home)
                misses = 0
            except ClusterUnavailable:
                misses += 1
            for passed in list(self._passed.values()):
                if passed.home in dead or misses >= _MISSES:
                    passed.lose()
            await self._ask_after_silent()

    def has_spoken(self, home: str) -> bool:
        """Tell whether a replica has sent something within the last second, so that it need not be asked after."""
        return asyncio.get_running_loop().time() - self._spoken.get(home, 0.0) < LEASE / 2

    async def _ask_after_silent(self) -> None:
        """Ask homes about requests of which nothing was heard for long; give up those that were asked after in vain.

        A home is asked about all that will be silent for too long soon, so that a million open streams that nothing
        happens on cost a message now and then for each two replicas, and not two for each of them.
        """
        now, homes = asyncio.get_running_loop().time(), set[str]()
        self._spoken = {home: when for home, when in self._spoken.items() if now - when < LEASE}
        for served in self._served.values():
            if now - served.heard > WAITING:
                # A replica that serves its client asks earlier: it has died, or has given this up.
                served.leave()
        asked: dict[str, list[int]] = {}
        for id, passed in self._passed.items():
            silent = now - passed.heard
            if silent > 2 * _SILENCE:
                passed.lose()
            elif silent > _SILENCE / 2 and not passed.is_asked:
                asked.setdefault(passed.home, []).append(id)
                if silent > _SILENCE:
                    homes.add(passed.home)
        for id in itertools.chain.from_iterable(asked[home] for home in homes):
            self._passed[id].is_asked = True
        for home in homes:
            for start in range(0, len(asked[home]), _ASKED):
                await self._tell(home, _ServingQuestion(asked[home][start : start + _ASKED]))

    # --- where it is served -------------------------------------------------------------------------------------

    def _deliver(self, replica: str, sealed: bytes) -> None:
        try:
            message = _decode(self._common.unseal(sealed, self._purpose(replica, self._cluster.replica)))
        except (PeerError, msgspec.DecodeError):
            log.warning("a message of another replica cannot be read: do all replicas have the same keys?")
            return
        now = self._spoken[replica] = asyncio.get_running_loop().time()
        if isinstance(message, _Begin):
            self.last_asked = now
            start_in(self._tasks, self._serve_for(replica, message))
        elif isinstance(message, _ServingQuestion):
            parts = dict.fromkeys(message.ids, -1)
            for id in parts:
                if (served := self._served.get((replica, id))) is not None:
                    served.heard, parts[id] = now, served.sent
            start_in(self._tasks, self._tell(replica, _SentParts(list(parts.items()))))
        elif isinstance(message, _SentParts):
            for id, count in message.parts:
                self._about_passed(replica, id, lambda passed, count=count: passed.tell(count, now))
        elif isinstance(message, _Part):
            self._about_passed(replica, message.id, lambda passed: passed.take(message, now))
        elif (served := self._served.get((replica, message.id))) is not None:
            served.heard = now
            served.read(message.size) if isinstance(message, _ReadBytes) else served.leave()

    def _about_passed(self, home: str, id: int, note: Callable[[_Passed], None]) -> None:
        passed = self._passed.get(id)
        if passed is not None and passed.home == home:
            note(passed)

    async def _serve_for(self, replica: str, begin: _Begin) -> None:
        def post(part: _Part) -> Awaitable[None]:
            return self._send(replica, part)

        served = _RelayedRequest(post, begin.id, asyncio.get_running_loop().time())
        scope = {"type": "http", "method": begin.method, "path": begin.path, "headers": begin.headers}
        http = Http(scope, served.receive, served.send)
        http.is_relayed = True
        http.call, http.is_again = begin.call, begin.again
        if begin.sender is not None and self._gate is not None:
            by, covers = begin.sender, self._common.covers
            claims = msgspec.json.decode(by.claims)
            caller = Caller(by.principal, frozenset(by.scopes), claims, by.expires, covers, by.sees_only_allowed)
            http.note_sender(caller, self._gate)
        place = replica, begin.id
        self._served[place] = served
        try:
            if self._is_closed or len(self._served) > MAX_SERVED:
                await send_unavailable(http, _BUSY)
            else:
                self._begin_guard()
                await self._serve(http, begin.body)
        except OSError:
            log.debug("the client of another replica is gone")
        finally:
            del self._served[place]
            if not served.is_complete:
                # Nothing more will come, and whoever waits for it should not have to ask.
                await self._tell(replica, _SentParts([(begin.id, -1)]))

    # --- messages -----------------------------------------------------------------------------------------------

    async def _send(self, replica: str, message: _Any) -> None:
        sealed = self._common.seal(_encode(message), self._purpose(self._cluster.replica, replica))
        await self._cluster.send(replica, self._topic, sealed)

    async def _tell(self, replica: str, message: _Any) -> None:
        """Send what changes nothing for good if it is lost."""
        try:
            await self._send(replica, message)
        except ClusterUnavailable:
            log.debug("another replica could not be told")

    def _purpose(self, sender: str, receiver: str) -> bytes:
        return self._common.purpose("relay", sender, receiver)


async def unavailable_unless_begun(http: Http) -> None:
    """Respond that other replicas cannot be reached now. The request may have been carried out nevertheless."""
    body = error_frame(None, _UNREACHABLE, null_id=has_null_ids(http.headers))
    await send_json(http, 503, body, ((b"retry-after", b"5"),))


def _last_id(data: bytes) -> bytes:
    """Return the id of the last event in a part of a stream, which has whole events; empty if there is none."""
    start = data.rfind(b"\nid: ") + 1
    return data[start + 4 : data.find(b"\n", start)] if data.startswith(b"id: ", start) else b""


async def give_up(http: Http, cut: Cut, body: bytes | None) -> None:
    """End a response that nobody goes on with: a request gets an error as its reply, a stream just ends."""
    id = None
    if body is not None:
        with contextlib.suppress(PeerError):
            id = id_of(decode_envelope(body))
    frame = b"" if id is None else error_frame(id, to_wire(make_stopped_error()), null_id=False)
    kind = cut.kind
    if not kind:
        await (send_json(http, 200, frame) if frame else send_response(http, 503, ((b"retry-after", b"1"),)))
        return
    is_stream = kind.startswith(b"text/event-stream")
    try:
        rest = encode_event(frame) if frame and is_stream else b""
        await at_once_or_within(_STALL, http.send({"type": "http.response.body", "body": rest}))
    except (TimeoutError, OSError, RuntimeError):
        log.debug("a response that was cut could not be ended")
