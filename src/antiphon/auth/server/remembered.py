"""Cache of verified tokens, since each request of a client brings the same one.

Owns the limits of the cache. It contains only digests of tokens.
"""

from __future__ import annotations

import hashlib

from msgspec import Struct

from antiphon.auth.server.key_set import KeySet
from antiphon.protocol.caller import Caller

__all__ = ["Remembered", "Verified"]

MAX_TOKENS = 10_000
"""Tokens in the cache at most; the oldest is dropped, and verified again if it returns (0.1 ms)."""

MAX_BYTES = 32 * 1024 * 1024
"""Bytes of all their claims together."""


class Verified(Struct, frozen=True, eq=False):
    """The result of verifying a token."""

    caller: Caller
    until: float
    """When it must be verified again, in seconds since 1970."""
    thumbprint: str | None = None
    """Thumbprint of the key it is bound to, if any."""
    weight: int = 0
    """Bytes of its claims."""
    keys: KeySet | None = None
    """The key set with which its signature was verified."""
    epoch: int = 0
    """``KeySet.epoch`` at that time."""


class Remembered:
    """Verified tokens by their digests."""

    def __init__(self) -> None:
        self._tokens: dict[bytes, Verified] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._tokens)

    @staticmethod
    def mark(token: bytes) -> bytes:
        """Return the digest of a token, its key in the cache."""
        return hashlib.blake2b(token, digest_size=32).digest()

    def get(self, mark: bytes, now: float) -> Verified | None:
        """Return the result for a token, unless it has to be verified again."""
        found = self._tokens.get(mark)
        if found is None:
            return None
        if found.until > now and (found.keys is None or found.keys.epoch == found.epoch):
            return found
        self._drop(mark)
        return None

    def put(self, mark: bytes, verified: Verified) -> None:
        """Add a token; the oldest ones are dropped if necessary."""
        self._drop(mark)
        self._tokens[mark] = verified
        self._held += verified.weight
        while len(self._tokens) > MAX_TOKENS or self._held > MAX_BYTES:
            self._drop(next(iter(self._tokens)))

    def _drop(self, mark: bytes) -> None:
        found = self._tokens.pop(mark, None)
        if found is not None:
            self._held -= found.weight
