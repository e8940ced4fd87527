"""Tokens that were verified, remembered until they end: the same one comes with every request of its client.

Owns the bounds of that memory. Tokens themselves are not in it, only digests.
"""

from __future__ import annotations

import hashlib

from msgspec import Struct

from antiphon.auth.server.key_set import KeySet
from antiphon.protocol.caller import Caller

__all__ = ["Remembered", "Verified"]

MAX_TOKENS = 10_000
"""Tokens remembered; the oldest is forgotten, and verified again when it comes: 0.1 ms."""

MAX_BYTES = 32 * 1024 * 1024
"""Bytes of what they say, all together."""


class Verified(Struct, frozen=True, eq=False):
    """What is known of a token once it was verified."""

    caller: Caller
    until: float
    """When it must be verified again, in seconds since 1970."""
    thumbprint: str | None = None
    """Of the key it is bound to."""
    weight: int = 0
    """Bytes of what it says."""
    keys: KeySet | None = None
    """Whose key it was signed with."""
    epoch: int = 0
    """Of those keys, when it was verified."""


class Remembered:
    """Verified tokens by their digests."""

    def __init__(self) -> None:
        self._tokens: dict[bytes, Verified] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._tokens)

    @staticmethod
    def mark(token: bytes) -> bytes:
        """Return what a token is remembered by: nobody can make another one with the same digest."""
        return hashlib.blake2b(token, digest_size=32).digest()

    def get(self, mark: bytes, now: float) -> Verified | None:
        """Return what is known of a token, unless it has to be verified again."""
        found = self._tokens.get(mark)
        if found is None:
            return None
        if found.until > now and (found.keys is None or found.keys.epoch == found.epoch):
            return found
        self._drop(mark)
        return None

    def put(self, mark: bytes, verified: Verified) -> None:
        """Remember a token; the oldest ones make room."""
        self._drop(mark)
        self._tokens[mark] = verified
        self._held += verified.weight
        while len(self._tokens) > MAX_TOKENS or self._held > MAX_BYTES:
            self._drop(next(iter(self._tokens)))

    def _drop(self, mark: bytes) -> None:
        found = self._tokens.pop(mark, None)
        if found is not None:
            self._held -= found.weight
