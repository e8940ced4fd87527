"""What an endpoint does as one of several replicas: it finds the home of a session, or becomes it.

A request for a session that lives elsewhere is passed on to its home. If the home has died or left, this replica
restores the session from its record and becomes the home; of several that try, one does. A home that was silent for
longer than its lease looks for its sessions again, before it takes anything for them. Calls that were open there
end with an error, or go on here (``LegacySession.listen``), which their clients get when they resume the stream.

A response goes on at another replica when the one that makes it dies: a stream by its event ids, within the response
that the client has; a request without a response is served again if that does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence

from antiphon.errors import ClusterUnavailable, PeerError
from antiphon.machine.asyncio_tasks import end_tasks, start_in
from antiphon.protocol.http import rules
from antiphon.protocol.http.rules import HeaderPair, HttpRefusal
from antiphon.replicas.engines.base import LEASE
from antiphon.replicas.http import records
from antiphon.replicas.http.relay import Cut, Relays, give_up, unavailable_unless_begun
from antiphon.transports.http.server.app import HttpApp
from antiphon.transports.http.server.asgi import NO_SESSION, Http, Message, Send, send_refusal, send_unavailable
from antiphon.transports.http.server.legacy_session import LegacySession, SessionPlace
from antiphon.transports.http.server.sessions import SessionHomes, end_session
from antiphon.wire.envelope import decode_envelope

log = logging.getLogger(__name__)

MAX_MOVES = 100
"""How often one response may go on elsewhere."""

_REFUSALS = 3
"""How often a replica may say that it leaves, or has too much to do, before the client is told."""

_DYING = 2 * LEASE
"""Seconds within which a replica that has lost a request shows whether it is dying."""

_LOOK_AGAIN = 0.25
"""Seconds between two looks whether it is."""

_OF_A_BODY = frozenset({b"content-type", b"content-length", b"accept", rules.LAST_EVENT_ID})
"""Headers of a POST that the GET for the rest of its stream does not have, or has with another value."""


class MovingResponse:
    """The response to one request. ``body``: of the request, if it has one."""

    def __init__(self, http: Http, body: bytes | None) -> None:
        self.http = http
        self._body = body
        self._cut: Cut | None = None
        """How far it had come when it was cut last."""
        self._home = ""
        """The replica that it came from before it was cut."""
        self._moves = 0
        self._refusals = 0
        self._since = 0.0
        """When it was cut last, by the loop's clock."""
        self.is_done = False
        """Whether nothing is left to do."""
        self._is_refused = False
        """Whether the rest was asked for, and there is none."""
        if body is not None:
            http.call = os.urandom(16)

    def is_moved(self, home: str) -> bool:
        """Hand the connection to a replica, where that is possible and nothing was done yet; tell whether it was."""
        self.is_done = self._cut is None and self.http.move(home, self._body)
        return self.is_done

    async def pass_on(self, relays: Relays, home: str) -> None:
        """Let it come from a replica; it is not done then if it was cut, and can go on elsewhere.

        Raises ``ClusterUnavailable``: the replica cannot be reached.
        """
        if self._cut is not None and not self._cut.kind and home == self._home:
            # It is alive, and may have begun to serve the request, which would then be served twice.
            if asyncio.get_running_loop().time() - self._since > _DYING:
                await self.end(None)
            else:
                await asyncio.sleep(_LOOK_AGAIN)
            return
        asked, body = self._next_request()
        cut = await relays.pass_on(home, asked, body)
        if cut is None:
            if self._is_refused:
                await self.end(None)
            self.is_done = True
            return
        if cut.is_refused:
            # Nothing was done, and the session may live elsewhere by now.
            self._refusals += 1
            if self._refusals >= _REFUSALS:
                await self.refuse("The session is moving between replicas")
            return
        before = self._cut or Cut()
        self._cut, self._home = Cut(before.kind or cut.kind, cut.last or before.last), home
        self._moves += 1
        self._since = asyncio.get_running_loop().time()
        if not self._can_go_on(self._cut):
            await self.end(None)

    async def comes_from(self, relays: Relays, holder: str) -> bool:
        """Let it come from one replica and no other; return ``False`` if that has stopped before it sent anything.

        Raises ``ClusterUnavailable``: the replica cannot be reached.
        """
        asked = self._derive_request("POST", list(self.http.headers.items()), self._send_unless)
        self._cut = await relays.pass_on(holder, asked, self._body)
        if self._cut is not None and self._cut.kind:
            await self.end(None)
            return True
        return self._cut is None and not self._is_refused

    async def _send_unless(self, message: Message) -> None:
        """Send what comes, unless the replica takes no requests any more."""
        if message["type"] == "http.response.start":
            self._is_refused = any(name == rules.NOT_ACCEPTED for name, _ in message["headers"])
        if not self._is_refused:
            await self.http.send(message)

    async def serve_here(self, serve: Callable[[Http, bytes | None], Awaitable[None]]) -> None:
        """Let it come from this replica."""
        await serve(*self._next_request())
        if self._is_refused:
            await self.end(None)

    async def end(self, refusal: HttpRefusal | None) -> None:
        """End it: with the refusal if nothing was done yet, else with an error that says that a process has stopped."""
        self.is_done = True
        if self._cut is not None:
            await give_up(self.http, self._cut, self._body)
        elif refusal is not None:
            await send_refusal(self.http, refusal)
        else:
            await unavailable_unless_begun(self.http)

    async def refuse(self, why: str) -> None:
        """End it, as it cannot be served here now; it may be sent again if nothing was done yet."""
        self.is_done = True
        await (send_unavailable(self.http, why) if self._cut is None else self.end(None))

    def _can_go_on(self, cut: Cut) -> bool:
        if self._moves > MAX_MOVES:
            return False
        if cut.kind:
            return bool(cut.last) and cut.kind.startswith(b"text/event-stream")
        return self._body is None or _may_come_again(self._body)

    def _next_request(self) -> tuple[Http, bytes | None]:
        if self._cut is None:
            return self.http, self._body
        if not self._cut.kind:
            self.http.is_again = True
            return self.http, self._body
        headers = [(name, value) for name, value in self.http.headers.items() if name not in _OF_A_BODY]
        headers += [(b"accept", b"text/event-stream"), (rules.LAST_EVENT_ID, self._cut.last)]
        rest = self._derive_request("GET", headers, self._send_rest)
        rest.is_relayed = self.http.is_relayed
        return rest, None

    def _derive_request(self, method: str, headers: list[HeaderPair], send: Send) -> Http:
        """Return a request of the same sender, whose response ``send`` gets."""
        http = self.http
        made = Http({"type": "http", "method": method, "path": http.path, "headers": headers}, http.receive, send)
        if http.caller is not None and http.gate is not None:
            made.note_sender(http.caller, http.gate)
        return made

    async def _send_rest(self, message: Message) -> None:
        """Send what follows; the client has the head of the response already."""
        if message["type"] == "http.response.start":
            self._is_refused = message["status"] != 200
        elif not self._is_refused:
            await self.http.send(message)


def is_request(body: bytes | None) -> bool:
    """Tell whether a body is a request, which gets a reply."""
    try:
        return body is not None and rules.is_request(decode_envelope(body))
    except PeerError:
        return False


def _may_come_again(body: bytes) -> bool:
    """Tell whether a message may be handled twice: a reply or a notification, or a request that does no harm."""
    try:
        message = decode_envelope(body)
    except PeerError:
        return False
    return not rules.is_request(message) or message.method in rules.REPEATABLE


_LEFT = "The session goes on at another replica"

_MOVED = "The session lives in another replica"

_TRIES = 3
"""How often the home of a session is sought for one request: others may take it over meanwhile."""

_UNSURE = 2 * LEASE
"""Seconds for which a session that is not found may yet be recorded again, after the engine has lost its data: the
others find that out within a quarter of their lease, and record as many as they have."""

_HELD = 60.0
"""Seconds for which an answer or a notification of a client waits for the engine, before it is refused."""

_STAYS = 2 * records.KNOWN_FOR
"""Seconds for which a replica that stops still refuses requests of the others, which may not know yet that a session
has left it."""

_AT_ONCE = 64
"""Most sessions that are released at once."""

_LONGER = 2.0
"""How many idle timeouts a record is kept without a sign that its session is used; the home gives two in that time."""


class Membership(SessionHomes):
    """What one endpoint of a server does as one of several replicas."""

    def __init__(self, common: records.ReplicaCommons, endpoint: HttpApp) -> None:
        self._common = common
        self._cluster = common.cluster
        super().__init__(endpoint.sessions)
        self._endpoint = endpoint
        self._serve = endpoint.serve_here
        path, idle_timeout = endpoint.path, endpoint.settings.idle_timeout
        self._pause = idle_timeout / 2
        self._records = records.SessionRecords(common, _LONGER * idle_timeout)
        self._relays = Relays(common, endpoint.serve_here, path, endpoint.gate)
        self._homes = records.KnownHomes()
        self._moving: dict[bytes, asyncio.Future[None]] = {}
        """Sessions that are being restored here, or leave."""
        self._released: dict[bytes, asyncio.Future[None]] = {}
        """By the id of a session that is to leave: done when it has left or ended, which its requests wait for."""
        self._leaves: Callable[[], object] | None = None
        """Called when a session has left; ``None`` unless this replica is being stopped."""
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._leaving: set[asyncio.Task[None]] = set()
        self._late: dict[bytes, LegacySession] = {}
        """Sessions that live here whose records the engine has to be given again."""
        self._doubtful: set[bytes] = set()
        """Sessions that live here unless others have taken them over, while this replica counted as dead."""
        self._fails = False
        """Whether the engine could not be given the last record."""
        self._recorder: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._unsure_until = 0.0
        """Until when the engine may not know sessions that live somewhere, by the loop's clock."""
        self._is_closed = False
        self._unsubscribe = self._cluster.on_lapse(self._lapsed)
        sessions = self.sessions
        self._stop_counting = common.tallies.add(f"sessions{path}", sessions.counts, sessions.heard, sessions.left)
        sessions.sharers = lambda: common.tallies.replicas

    async def close(self) -> None:
        """Take part no longer; sessions that live here are restored elsewhere when they are wanted."""
        for session in self.sessions.all():
            self._release(session)
        if self._leaving:
            await asyncio.wait(self._leaving)
        await self.sessions.close(moving=True)
        self._is_closed = True
        self._unsubscribe()
        self._stop_counting()
        await self._relays.close()
        # Nobody asks the engine again before that: what they send to a replica that is gone would be lost.
        await asyncio.sleep(self._relays.last_asked + _STAYS - asyncio.get_running_loop().time())
        if isinstance(self._endpoint.store, records.SharedEvents):
            await self._endpoint.store.close()
        self._late.clear()
        await end_tasks(self._keeper, self._recorder)

    # --- sessions that live here --------------------------------------------------------------------------------

    async def opened(self, session: LegacySession) -> str | None:
        """Note a session that was opened here, of which the others must be told."""
        session.changed = self._changed
        try:
            await self._records.enter(session)
        except ClusterUnavailable:
            return "The replicas of this server cannot reach each other"
        self._keep_all()
        return None

    async def ended(self, session: LegacySession) -> None:
        """Note that a client has ended its session, or has not used it for too long."""
        await self._records.forget(session)
        self._let_go_on(session.id)

    async def _changed(self, session: LegacySession) -> None:
        """Store what a message of its client has changed about a session."""
        if session.id in self._moving:
            return
        if not self._fails:
            try:
                await self._keep(session)
            except ClusterUnavailable as error:
                # Once until it works again: nobody has to wait for it more than once.
                log.warning("what clients change about their sessions is not known to other replicas yet: %s", error)
                self._fails = True
            else:
                return
        self._record_late([session])

    async def _keep(self, session: LegacySession) -> None:
        if await self._records.keep(session):
            self._doubtful.discard(session.id)
        else:
            self._lose(session)

    def _record_late(self, sessions: Sequence[LegacySession]) -> None:
        """Have records stored in the background, as soon as the engine can be reached."""
        self._late.update((session.id, session) for session in sessions)
        if self._recorder is None or self._recorder.done():
            self._recorder = asyncio.get_running_loop().create_task(self._record_on())

    async def _record_on(self) -> None:
        while self._late:
            session = self._late.pop(next(iter(self._late)))
            try:
                if self.sessions.lives(session) and session.id not in self._moving:
                    await self._keep(session)
                self._fails = False
            except ClusterUnavailable:
                self._fails = True
                self._late[session.id] = session
                await asyncio.sleep(LEASE / 4)

    def _keep_all(self) -> None:
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.get_running_loop().create_task(self._keep_on())

    async def _keep_on(self) -> None:
        """Store now and then that the sessions are used, so that their records are kept."""
        while len(self.sessions):
            await asyncio.sleep(self._pause)
            self._record_late(self.sessions.all())

    def _lapsed(self) -> None:
        """Others may have taken over sessions of ours, or the engine has lost them: give those up, record these."""
        self._unsure_until = asyncio.get_running_loop().time() + _UNSURE
        self._doubtful = {session.id for session in self.sessions.all()}
        self._record_late(self.sessions.all())

    def _lose(self, session: LegacySession) -> None:
        log.warning("a session has moved to another replica, which took this one for dead")
        self._records.left(session.id)
        self._doubtful.discard(session.id)
        session.moves = True
        self.sessions.drop(session)
        self._let_go_on(session.id)

    # --- the end ------------------------------------------------------------------------------------------------

    def leave(self, released: Callable[[], object]) -> None:
        """Take no more sessions, and have each go on elsewhere as soon as nothing is open in it.

        ``released``: called whenever one has left.
        """
        self._leaves = released
        self.release_idle()

    def release_idle(self) -> None:
        """Have those sessions leave in which nothing is open."""
        for session in self.sessions.all():
            if not session.has_open:
                self._release(session)

    def _release(self, session: LegacySession) -> None:
        if session.id not in self._moving:
            moved = self._moving[session.id] = asyncio.get_running_loop().create_future()
            start_in(self._leaving, self._leave(session, moved))

    async def _leave(self, session: LegacySession, moved: asyncio.Future[None]) -> None:
        try:
            async with self._places:
                if not self._fails:
                    await self._records.release(session)
        except ClusterUnavailable:
            log.debug("a session goes on elsewhere when this replica counts as dead")
            self._fails = True
        finally:
            session.moves = True
            self.sessions.drop(session)
            del self._moving[session.id]
            moved.set_result(None)
            self._let_go_on(session.id)
            if self._leaves is not None:
                self._leaves()

    def _let_go_on(self, id: bytes) -> None:
        """Let requests go on that have waited for a session to leave; it has left, or has ended."""
        waiting = self._released.pop(id, None)
        if waiting is not None:
            waiting.set_result(None)

    @property
    def is_busy(self) -> bool:
        """Whether a session has not left yet."""
        return len(self.sessions) > 0

    async def serve_after(self, http: Http, body: bytes) -> bool:
        """Serve a request elsewhere whose session lives here, and leaves when nothing is open in it."""
        id = http.headers[rules.SESSION_ID]
        waiting = self._released.setdefault(id, asyncio.get_running_loop().create_future())
        await asyncio.shield(waiting)
        await (send_unavailable(http, _LEFT) if http.is_relayed else self.serve(http, body))
        return True

    # --- sessions that live elsewhere ---------------------------------------------------------------------------

    def may_be_elsewhere(self, http: Http) -> bool:
        """Tell whether others may have the session of a request, or have taken it over."""
        id = http.headers.get(rules.SESSION_ID)
        if id is None:
            return False
        is_doubtful = not http.is_settled and (id in self._doubtful or self._cluster.is_past_lease)
        return is_doubtful or self.sessions.find(id, http.principal) is None

    async def serve(self, http: Http, body: bytes | None) -> None:
        """Serve a request whose session does not live here: at its home, or here if that has died."""
        await self._serve_until(asyncio.get_running_loop().time() + _HELD, http, body)

    async def _serve_until(self, until: float, http: Http, body: bytes | None) -> None:
        response, id = MovingResponse(http, body), http.headers[rules.SESSION_ID]
        session = self.sessions.find(id, http.principal)
        if session is not None and self._fails and is_request(body):
            # Others cannot become its home either. An answer would be lost if only this replica is cut off.
            await self._serve_here(response)
            return
        try:
            if await self._served(id, response):
                return
            if self._is_closed:
                # It has waited until this replica had left: its session lives on.
                await response.refuse(_LEFT)
            else:
                # The engine may have lost the record, which its home then gives it again.
                await response.end(None if await self._is_unsure() else NO_SESSION)
        except ClusterUnavailable:
            if session is not None and self.sessions.lives(session):
                self._record_late([session])
                await self._serve_here(response)
            elif body is None or is_request(body) or asyncio.get_running_loop().time() > until:
                await response.end(None)
            else:
                # Clients do not send an answer or a cancellation again that was refused.
                await asyncio.sleep(LEASE / 4)
                await self._serve_until(until, http, body)

    async def _serve_here(self, response: MovingResponse) -> None:
        response.http.is_settled = True
        await response.serve_here(self._serve)

    async def serve_elsewhere(self, holder: str, http: Http, body: bytes) -> bool:
        """Have the replica that holds a call serve its retry; return ``False`` if it cannot, with nothing sent."""
        response = MovingResponse(http, body)
        try:
            return await self._cluster.is_alive(holder) and await response.comes_from(self._relays, holder)
        except ClusterUnavailable:
            return False

    async def _served(self, id: bytes, response: MovingResponse) -> bool:
        """Serve a request where its session lives, as often as that moves; tell whether it was."""
        http, tries = response.http, _TRIES
        if await self._pass_on_as_known(id, response):
            return True
        while tries and not self._is_closed:
            tries -= 1
            found = await self._look_up(id)
            if self.sessions.find(id, http.principal) is not None:
                # Also without a record, which the engine has lost, and gets again.
                await self._serve_here(response)
                return True
            # "Session not found" also for others' sessions: an id is not found out by trying.
            if found is None or found[0].principal != http.principal:
                break
            if found[0].home not in {"", self._cluster.replica} and await self._passed_on(id, found[0], response):
                if response.is_done:
                    return True
                tries = _TRIES
            elif self._leaves is not None:
                return await self._send_away(id, response)
            elif await self._restore_session(http, id, *found):
                await self._serve_here(response)
                return True
        return False

    async def _look_up(self, id: bytes) -> tuple[records.SessionRecord, bytes] | None:
        """Find the record of a session, and give the session up if it lived here and lives elsewhere now."""
        if self._cluster.is_past_lease:
            # First, so that nobody takes over what is found to live here.
            await self._cluster.give_sign()
        found = await self._records.find(id)
        session = self.sessions.find(id, found[0].principal) if found is not None else None
        if session is not None and found is not None and found[0].home not in {"", self._cluster.replica}:
            self._lose(session)
        elif session is not None:
            self._doubtful.discard(id)
        return found

    async def _pass_on_as_known(self, id: bytes, response: MovingResponse) -> bool:
        """Let a response come from where its session was found a moment ago; tell whether that is all.

        Only from a replica that has spoken since the others could last take it for dead. If it refuses or does not
        respond, what is known of the session counts no more, and the request goes on as the engine says.
        """
        http = response.http
        home = None if http.is_relayed or self._is_closed else self._homes.of(id, http.principal)
        if home is None or not self._relays.has_spoken(home):
            return False
        if not response.is_moved(home):
            await response.pass_on(self._relays, home)
        if not response.is_done:
            self._homes.forget(id)
        return response.is_done

    async def _passed_on(self, id: bytes, record: records.SessionRecord, response: MovingResponse) -> bool:
        """Let a response come from the home of its session; return ``False`` if that has died."""
        if response.http.is_relayed:
            # Whoever has passed it on looks for the session again.
            await response.refuse(_MOVED)
            return True
        if response.is_moved(record.home):
            return True
        if not await self._cluster.is_alive(record.home):
            return False
        self._homes.note(id, record)
        await response.pass_on(self._relays, record.home)
        if not response.is_done:
            self._homes.forget(id)
        return True

    async def _send_away(self, id: bytes, response: MovingResponse) -> bool:
        """Have another process serve a request whose session has left this one; tell whether it is answered."""
        if id in self._moving:
            await asyncio.shield(self._moving[id])
        if not response.is_moved(""):
            await response.refuse(_LEFT)
        return True

    async def _is_unsure(self) -> bool:
        """Tell whether the engine has lately lost what it kept, so that sessions live of which it knows nothing yet."""
        now = asyncio.get_running_loop().time()
        if now >= self._unsure_until and not await self._cluster.is_alive(self._cluster.replica):
            self._unsure_until = now + _UNSURE
        return now < self._unsure_until

    async def _restore_session(self, http: Http, id: bytes, record: records.SessionRecord, stored: bytes) -> bool:
        """Become the home of a session; tell whether it lives here now."""
        moving = self._moving.get(id)
        if moving is not None:
            await asyncio.shield(moving)
            return self.sessions.find(id, http.principal) is not None
        self._moving[id] = moved = asyncio.get_running_loop().create_future()
        try:
            taken = await self._records.take_over(id, record, stored)
            if taken is None:
                return False
            session = self._endpoint.make_session(http, place=SessionPlace(id, taken.key, taken.moved))
            session.revision = taken.revision
            session.changed = self._changed
            try:
                self._common.restore(session.peer, taken.state, taken.moved)
                await session.restore_standing()
            except BaseException:
                # What its streams have sent stays, for the next attempt.
                session.moves = True
                await end_session(session)
                raise
            self.sessions.add(session)
            self._keep_all()
            log.info("a session goes on here: the replica it lived in has stopped")
            return True
        finally:
            del self._moving[id]
            moved.set_result(None)
