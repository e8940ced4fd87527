"""The table of legacy sessions: where they live, their number, and the end of those that are not used."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from antiphon.machine.asyncio_tasks import start_in
from antiphon.transports.http.server.asgi import Http
from antiphon.transports.http.server.legacy_session import LegacySession

log = logging.getLogger(__name__)


_SHARE = 4
"""Once half of the sessions are in use, a principal may have at most a quarter of them."""

_MANY = 100
"""A principal is told of to other processes once it has a hundredth of all places: at most 100 of them can."""

_ALL = ""
"""Stands for all principals in what processes tell each other."""


class Sessions:
    """Sessions by id."""

    def __init__(self, limit: int, idle_timeout: float) -> None:
        self._limit = limit
        self._idle_timeout = idle_timeout
        self._sessions: dict[bytes, LegacySession] = {}
        self._owned: dict[str, int] = {}
        """Number of sessions of each principal."""
        self._opening: dict[str | None, int] = {}
        """How many are being opened, by principal."""
        self._told: tuple[int, Mapping[str, int]] = 0, {}
        """What other processes were told last: how many there are here, and how many of each principal."""
        self._elsewhere: dict[str, Mapping[str, int]] = {}
        """What other processes have told."""
        self.sharers: Callable[[], int] = lambda: 1
        """Returns how many processes share the places."""
        self._time: Callable[[], float] = float
        """The clock of the loop that the sessions belong to."""
        self._timer: asyncio.TimerHandle | None = None
        self.on_expiry: Callable[[LegacySession], Coroutine[Any, Any, None]] | None = None
        """Called with a session that its client has not used for too long."""
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def is_full(self, principal: str | None) -> bool:
        """Tell whether this principal can have no further session; expired ones are removed first.

        Once half of the places are in use, an authenticated principal may have at most a quarter of all.
        """
        if not self._has_place(principal):
            self._sweep()
        return not self._has_place(principal)

    def _has_place(self, principal: str | None) -> bool:
        count = len(self._sessions) + sum(self._opening.values())
        elsewhere = self._count_elsewhere(_ALL)
        if not self._is_free(self._limit, count, self._told[0], elsewhere):
            return False
        if principal is None or 2 * (count + elsewhere) < self._limit:
            return True
        own = self._owned.get(principal, 0) + self._opening.get(principal, 0)
        told = self._told[1].get(principal, 0)
        return self._is_free(
            max(1, self._limit // _SHARE), own, told, self._count_elsewhere(_compute_digest(principal))
        )

    def _is_free(self, limit: int, here: int, told: int, elsewhere: int) -> bool:
        """Tell whether one more is within a limit.

        What is free is shared out at each telling: the others know only then what was opened here since.
        """
        return here - told < math.ceil((limit - elsewhere - told) / self.sharers())

    @contextmanager
    def opening(self, principal: str | None) -> Generator[None]:
        """Count a session that is being opened, which takes time."""
        self._opening[principal] = self._opening.get(principal, 0) + 1
        try:
            yield
        finally:
            self._opening[principal] -= 1
            if not self._opening[principal]:
                del self._opening[principal]

    # --- those of other processes -------------------------------------------------------------------------------

    def counts(self) -> Mapping[str, int]:
        """Return what other processes are told: how many there are, and of the principals that have many of them."""
        self._told = len(self._sessions), dict(self._owned)
        many = max(1, self._limit // _MANY)
        return {_ALL: len(self._sessions)} | {_compute_digest(who): n for who, n in self._owned.items() if n >= many}

    def heard(self, process: str, counts: Mapping[str, int]) -> None:
        """Note what another process has."""
        self._elsewhere[process] = counts

    def left(self, process: str) -> None:
        """Count a process's sessions no longer: it has gone, and they come here when they are used."""
        self._elsewhere.pop(process, None)

    def _count_elsewhere(self, key: str) -> int:
        return sum(counts.get(key, 0) for counts in self._elsewhere.values())

    def _forget(self, session: LegacySession) -> None:
        if self._sessions.pop(session.id, None) is None or session.principal is None:
            return
        left = self._owned[session.principal] - 1
        if left:
            self._owned[session.principal] = left
        else:
            del self._owned[session.principal]

    @property
    def is_busy(self) -> bool:
        """Whether a request is being served whose client is connected."""
        return any(session.is_awaited for session in self._sessions.values())

    def all(self) -> Sequence[LegacySession]:
        """Return all sessions there are now."""
        return list(self._sessions.values())

    def lives(self, session: LegacySession) -> bool:
        """Tell whether a session is still one of these."""
        return self._sessions.get(session.id) is session

    def add(self, session: LegacySession) -> None:
        """Add a session."""
        self._time = asyncio.get_running_loop().time
        self.touch(session)
        self._sessions[session.id] = session
        if session.principal is not None:
            self._owned[session.principal] = self._owned.get(session.principal, 0) + 1
        if self._timer is None:
            self._tick()

    def find(self, id: bytes, principal: str | None) -> LegacySession | None:
        """Find a live session of this principal, and note that it is used."""
        session = self._sessions.get(id)
        if session is None or session.principal != principal:
            return None
        if session.peer.is_over:
            self.drop(session)
            return None
        session.used = self._time()
        return session

    def touch(self, session: LegacySession) -> None:
        """Note that a session is used now."""
        session.used = self._time()

    def drop(self, session: LegacySession) -> None:
        """Remove a session and let it end in the background."""
        self._forget(session)
        start_in(self._closing, end_session(session))

    async def remove(self, session: LegacySession) -> None:
        """Remove a session and end it."""
        self._forget(session)
        await end_session(session)

    async def close(self, *, moving: bool = False) -> None:
        """End every session; ``moving``: their clients go on with them elsewhere."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session in self.all():
            session.moves = moving
            self.drop(session)
        if self._closing:
            await asyncio.wait(self._closing)

    def _tick(self) -> None:
        self._timer = None
        self._sweep()
        if self._sessions:
            pause = min(60.0, max(0.05, self._idle_timeout / 4))
            self._timer = asyncio.get_running_loop().call_later(pause, self._tick)

    def _sweep(self) -> None:
        latest = self._time() - self._idle_timeout
        for session in self.all():
            if session.peer.is_over or (session.used <= latest and not session.is_busy):
                log.debug("a session is over or was not used for %g s", self._idle_timeout)
                self.drop(session)
                if self.on_expiry is not None:
                    start_in(self._closing, self.on_expiry(session))


def _compute_digest(principal: str) -> str:
    return hashlib.sha256(principal.encode()).hexdigest()[:32]


async def end_session(session: LegacySession) -> None:
    """End a session and everything it holds."""
    try:
        await session.peer.close()
    finally:
        await session.close()


class SessionHomes:
    """Where the legacy sessions of an endpoint live, and who serves their requests: by default this process.

    Each method is called by the endpoint (``app.HttpApp``).
    """

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions

    @property
    def is_busy(self) -> bool:
        """Whether something has to end before the endpoint may close."""
        return self.sessions.is_busy

    async def opened(self, session: LegacySession) -> str | None:
        """Note a session that was opened here; return why it cannot be kept, if it cannot."""

    async def ended(self, session: LegacySession) -> None:
        """Note that a client has ended its session, or has not used it for too long."""

    def may_be_elsewhere(self, http: Http) -> bool:
        """Return whether another process may have the session of a request."""
        return False

    async def serve(self, http: Http, body: bytes | None) -> None:
        """Serve a request whose session may be elsewhere, wherever it is."""

    async def serve_after(self, http: Http, body: bytes) -> bool:
        """Serve a request elsewhere once its session, which leaves, has left; return whether it was."""
        return False

    async def serve_elsewhere(self, holder: str, http: Http, body: bytes) -> bool:
        """Have the process that holds a call serve its next request; return whether it could."""
        return False

    def leave(self, released: Callable[[], object]) -> None:
        """Let sessions go on elsewhere from now on; ``released`` is called whenever one has left."""

    def release_idle(self) -> None:
        """Let those sessions leave in which nothing is open."""

    async def close(self) -> None:
        """End the sessions that live here."""
        await self.sessions.close()
