"""What an endpoint does as one of several replicas: it finds the home of a session, or becomes it.

A request for a session that lives elsewhere is passed on to its home. If the home has died or left, this replica
restores the session from its record and becomes the home; of several that try, one does. Calls that were open there
end with an error, which their clients get when they resume the stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from antiphon.errors import ClusterUnavailable, InvalidRequest
from antiphon.protocol.http import rules
from antiphon.protocol.http.gate import Gate
from antiphon.protocol.http.rules import Refusal
from antiphon.transports.http.server.asgi import Http, refuse
from antiphon.transports.http.server.replicas.records import Common, SessionRecord, SessionRecords
from antiphon.transports.http.server.replicas.relay import RELAYED, Relays, unavailable_unless_begun
from antiphon.transports.http.server.session import Place, Session
from antiphon.transports.http.server.sessions import Sessions

__all__ = ["Membership"]

log = logging.getLogger(__name__)

_NO_SESSION = Refusal(404, InvalidRequest("Session not found"))

_TRIES = 3
"""How often the home of a session is sought for one request: others may take it over meanwhile."""

_LONGER = 2.0
"""How many idle timeouts a record is kept without a sign that its session is used; the home gives two in that time."""

Serve = Callable[[Http, "bytes | None"], Awaitable[None]]


class Membership:
    """An endpoint's part in the replicas of its server.

    ``sessions``: those that live here. ``make``: makes a session for a request, at a place of its own. ``serve``:
    serves a request, whose body was read, if it has one.
    """

    def __init__(
        self,
        common: Common,
        sessions: Sessions,
        make: Callable[[Http, Place], Session],
        serve: Serve,
        *,
        path: str,
        gate: Gate | None,
        idle_timeout: float,
    ) -> None:
        self._common = common
        self._cluster = common.cluster
        self._sessions = sessions
        self._make = make
        self._serve = serve
        self._pause = idle_timeout / 2
        self._records = SessionRecords(common, _LONGER * idle_timeout)
        self._relays = Relays(common, serve, path, gate)
        self._moving: dict[bytes, asyncio.Future[None]] = {}
        """Sessions that are being restored here."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._unsubscribe = self._cluster.on_lapse(self._lapsed)

    async def close(self) -> None:
        """Take part no longer; sessions that live here are restored elsewhere when they are wanted."""
        self._unsubscribe()
        await self._relays.close()
        running = [*self._tasks, *((self._keeper,) if self._keeper is not None else ())]
        self._keeper = None
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def reopen(self) -> None:
        """Take part again, after ``close``."""
        self._unsubscribe()
        self._unsubscribe = self._cluster.on_lapse(self._lapsed)
        self._relays.listen()

    # --- sessions that live here --------------------------------------------------------------------------------

    async def opened(self, session: Session) -> bool:
        """Note a session that was opened here; tell whether others could be told, as they must."""
        session.changed = self._changed
        try:
            await self._records.enter(session)
        except ClusterUnavailable:
            return False
        self._keep_all()
        return True

    async def ended(self, session: Session) -> None:
        """Note that a client has ended its session, or has not used it for too long."""
        await self._records.forget(session)

    async def _changed(self, session: Session) -> None:
        """Store what a message of its client has changed about a session."""
        try:
            if not await self._records.keep(session):
                self._lose(session)
        except ClusterUnavailable as error:
            log.warning("what a client has changed about its session is not known to other replicas yet: %s", error)

    def _keep_all(self) -> None:
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.get_running_loop().create_task(self._keep_on())

    async def _keep_on(self) -> None:
        """Store now and then that the sessions are used, so that their records are kept."""
        while len(self._sessions):
            await asyncio.sleep(self._pause)
            for session in self._sessions.all():
                await self._changed(session)

    def _lapsed(self) -> None:
        """Others may have taken over sessions of ours while we gave no sign of life: give those up."""
        task = asyncio.get_running_loop().create_task(self._check_all())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check_all(self) -> None:
        for session in self._sessions.all():
            await self._changed(session)

    def _lose(self, session: Session) -> None:
        log.warning("a session has moved to another replica, which took this one for dead")
        self._records.left(session.id)
        session.moves = True
        self._sessions.drop(session)

    # --- sessions that live elsewhere ---------------------------------------------------------------------------

    def is_asked(self, http: Http) -> bool:
        """Tell whether other replicas may have the session of a request, which does not live here."""
        return rules.SESSION_ID in http.headers and RELAYED not in http.scope

    async def serve(self, http: Http, body: bytes | None) -> None:
        """Serve a request whose session does not live here: at its home, or here if that has died."""
        id = http.headers[rules.SESSION_ID]
        try:
            for _ in range(_TRIES):
                found = await self._records.find(id)
                # "Session not found" also for others' sessions: an id is not found out by trying.
                if found is None or found[0].principal != http.principal:
                    break
                home = found[0].home
                if home == self._cluster.replica and id not in self._moving:
                    break
                if home != self._cluster.replica and http.at_once.move(home, body):
                    return
                if home != self._cluster.replica and await self._cluster.is_alive(home):
                    await self._relays.pass_on(home, http, body)
                    return
                if await self._restored(http, id, *found):
                    await self._serve(http, body)
                    return
        except ClusterUnavailable:
            await unavailable_unless_begun(http)
            return
        await refuse(http, _NO_SESSION)

    async def _restored(self, http: Http, id: bytes, record: SessionRecord, stored: bytes) -> bool:
        """Become the home of a session; tell whether it lives here now."""
        moving = self._moving.get(id)
        if moving is not None:
            await asyncio.shield(moving)
            return self._sessions.find(id, http.principal) is not None
        self._moving[id] = moved = asyncio.get_running_loop().create_future()
        try:
            taken = await self._records.take_over(id, record, stored)
            if taken is None:
                return False
            session = self._make(http, Place(id, taken.key, taken.moved))
            session.revision = taken.revision
            session.changed = self._changed
            self._common.restore(session.peer, taken.state, taken.moved)
            await session.restore_standing()
            self._sessions.add(session)
            self._keep_all()
            log.info("a session goes on here: the replica it lived in has stopped")
            return True
        finally:
            del self._moving[id]
            moved.set_result(None)
