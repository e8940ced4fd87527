"""The seam at which replicas come in: which process has the session of a request.

``SessionHomes`` is all that the endpoint knows of other processes. ``OneProcess`` is its default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from antiphon.transports.http.server.asgi import Http
from antiphon.transports.http.server.legacy_session import LegacySession
from antiphon.transports.http.server.sessions import Sessions


class SessionHomes(Protocol):
    """Where the legacy sessions of an endpoint live, and who serves their requests.

    The methods do what is right for one process. Each is called by the endpoint (``app.HttpApp``).
    """

    sessions: Sessions

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

    def reopen(self) -> None:
        """Serve again, after ``close``."""

    async def close(self) -> None:
        """End the sessions that live here."""
        await self.sessions.close()


class OneProcess(SessionHomes):
    """Keeps all sessions in this process."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
