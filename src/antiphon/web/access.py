"""Who may use the page: addresses that work once, and the sessions they were exchanged for.

Pure but for chance. Owns tokens and sessions, all of one run and in memory only: whoever starts the page anew gets a
new address. How they travel is ``guards``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from secrets import token_urlsafe

import msgspec

__all__ = ["MAX_SESSIONS", "MAX_TOKENS", "Access", "Session"]

MAX_SESSIONS = 100
"""Browsers at once; the one that came first goes first. A person has two or three."""
MAX_TOKENS = 100
"""Addresses that were given out and not opened yet; the oldest stops working first."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One browser."""

    number: int
    """From 1, in the order in which they came."""
    csrf: str
    """What every change must carry; only a page of ours can read it."""

    def allows(self, token: str) -> bool:
        """Tell whether this is the token of a page that was shown to this browser."""
        return hmac.compare_digest(self.csrf.encode(), token.encode("utf-8", "surrogatepass"))


class Access:
    """The tokens and sessions of one run."""

    def __init__(self, random: Callable[[], str] = lambda: token_urlsafe(32)) -> None:
        """``random`` makes secrets of 256 bits."""
        self._random = random
        self._tokens: dict[str, None] = {}
        self._sessions: dict[str, Session] = {}
        self._count = 0

    def issue(self) -> str:
        """Make a token that opens the page once."""
        token = self._random()
        self._tokens[_digest(token)] = None
        _bound(self._tokens, MAX_TOKENS)
        return token

    def redeem(self, token: str) -> str | None:
        """Exchange a token for the secret of a new session; ``None`` if it was used, or never given out."""
        digest = _digest(token)
        if digest not in self._tokens:
            return None
        del self._tokens[digest]
        secret = self._random()
        self._count += 1
        self._sessions[_digest(secret)] = Session(number=self._count, csrf=self._random())
        _bound(self._sessions, MAX_SESSIONS)
        return secret

    def session(self, secret: str | None) -> Session | None:
        """Return the session of a secret."""
        return None if secret is None else self._sessions.get(_digest(secret))


def _digest(secret: str) -> str:
    # Looked up by digest: how long that takes says nothing about the secret.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _bound(kept: dict[str, None] | dict[str, Session], most: int) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]
