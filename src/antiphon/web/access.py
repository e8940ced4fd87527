"""Who may use the page: addresses that work once, and the sessions they are exchanged for.

Owns tokens and sessions, and the proof that the page is genuine. Tokens are valid for one run; sessions are in the
store by their digest, so that they outlive a restart. ``guards`` transports them.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from secrets import token_urlsafe

import msgspec

from antiphon.host.store.base import BrowserRow, Store

__all__ = ["MAX_SESSIONS", "MAX_TOKENS", "SESSION_AGE", "Access", "Session"]

MAX_SESSIONS = 100
"""Most browsers; the oldest session is dropped first. A person has two or three."""
MAX_TOKENS = 100
"""Most addresses that were issued and not opened yet; the oldest becomes invalid first."""
SESSION_AGE = 30 * 24 * 3600.0
"""Seconds a session lasts, restarts included; after a month the browser needs a new address."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One browser."""

    number: int
    """From 1, in order of arrival."""
    secret: str
    """Kept by the browser; everything a session proves is derived from it, and nothing of it is in the store."""

    @property
    def csrf(self) -> str:
        """The token that every change must carry; only our own pages can read it."""
        return self._sign("csrf")

    @property
    def proof_key(self) -> str:
        """Known only to the page and this browser's tabs: a tab uses it to verify the page after a lost connection."""
        return _proof_key(_digest(self.secret))

    def allows(self, token: str) -> bool:
        """Tell whether this is the CSRF token of this session."""
        return hmac.compare_digest(self.csrf.encode(), token.encode("utf-8", "surrogatepass"))

    def stamp(self, subject: str, at: float) -> str:
        """Make a stamp of the time when something was sent to this browser, which only this page can make."""
        moment = str(round(at * 1000))
        return f"{moment}.{self._sign(f'shown {moment} {subject}')}"

    def stamped(self, subject: str, stamp: str) -> float | None:
        """Return the time in a stamp; ``None`` if it belongs to something else, or to another browser."""
        moment, _, signature = stamp.partition(".")
        if not (moment.isascii() and moment.isdecimal() and len(moment) < 16):
            return None
        good = self._sign(f"shown {moment} {subject}")
        if not hmac.compare_digest(good.encode(), signature.encode("utf-8", "surrogatepass")):
            return None
        return int(moment) / 1000

    def _sign(self, text: str) -> str:
        return hmac.digest(self.secret.encode(), text.encode("utf-8", "surrogatepass"), "sha256").hex()


class Access:
    """The tokens of one run, and the sessions of one page."""

    def __init__(
        self,
        store: Store,
        page: str,
        *,
        clock: Callable[[], float] = time.time,
        random: Callable[[], str] = lambda: token_urlsafe(32),
    ) -> None:
        """Prepare an empty table. ``page`` is its name in the store. ``random`` makes secrets of 256 bits."""
        self._store = store
        self._page = page
        self._clock = clock
        self._random = random
        self._tokens: dict[str, Callable[[], object] | None] = {}
        self._sessions: dict[str, BrowserRow] = {}
        self._count = 0

    async def load(self) -> None:
        """Load the sessions from before a restart."""
        for row in await self._store.browsers(self._page):
            self._sessions[row.digest] = row
            self._count = max(self._count, row.number)

    def issue(self, used: Callable[[], object] | None = None) -> str:
        """Make a token that opens the page once; ``used`` is called then."""
        token = self._random()
        self._tokens[_digest(token)] = used
        while len(self._tokens) > MAX_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        return token

    async def redeem(self, token: str) -> str | None:
        """Exchange a token for the secret of a new session; ``None`` if it was used, or never issued."""
        digest = _digest(token)
        if digest not in self._tokens:
            return None
        # Removed before anything is awaited, so that of two concurrent requests only one gets a session.
        used = self._tokens.pop(digest)
        if used is not None:
            used()
        secret = self._random()
        self._count += 1
        row = BrowserRow(digest=_digest(secret), page=self._page, number=self._count, opened=self._clock())
        self._sessions[row.digest] = row
        while len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        await self._store.keep_browser(row, most=MAX_SESSIONS)
        return secret

    def session(self, secret: str | None) -> Session | None:
        """Return the session of a secret; ``None`` if there is none, or it is too old."""
        row = None if secret is None else self._sessions.get(_digest(secret))
        if secret is None or row is None or self._clock() - row.opened > SESSION_AGE:
            return None
        return Session(number=row.number, secret=secret)

    def proof(self, number: int, words: str) -> str | None:
        """Sign words for the tabs of a session; ``None`` if there is none of this number.

        A program that has taken over the page's port cannot do that: the key is derived from the store.
        """
        row = next((row for row in self._sessions.values() if row.number == number), None)
        if row is None or self._clock() - row.opened > SESSION_AGE:
            return None
        return hmac.digest(_proof_key(row.digest).encode(), words.encode("utf-8", "surrogatepass"), "sha256").hex()


def _proof_key(digest: str) -> str:
    return hmac.digest(digest.encode(), b"proof", "sha256").hex()


def _digest(secret: str) -> str:
    # Looked up by digest, so that the time of the look-up reveals nothing about the secret.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
