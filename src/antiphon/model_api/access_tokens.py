"""Tokens that replace a vendor's key: one for each process, valid only for that process and until it ends."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from secrets import token_urlsafe

from antiphon.model_api.calls import Calls
from antiphon.model_api.peer_process import PeerProcess
from antiphon.wire.origin import Origin

__all__ = ["Token", "Tokens"]

_PREFIX = "sk-antiphon-"
"""Looks like a vendor's key, so that programs that mask keys, such as this one, mask tokens as well."""
_BYTES = 32
"""256 bits, so that no token can be guessed."""


class Token:
    """The access of one process. ``origin`` makes the origin of an ask, with the call that is open at that moment."""

    def __init__(self, digest: bytes, origin: Callable[[], Origin]) -> None:
        self.digest = digest
        self.origin = origin
        self.calls = Calls()
        self.peer = PeerProcess()
        self.pid: int | None = None
        """The process it was given to."""


class Tokens:
    """The tokens that are valid. Only their digests are kept."""

    def __init__(self) -> None:
        self._tokens: dict[bytes, Token] = {}

    def issue(self, origin: Callable[[], Origin]) -> tuple[str, Token]:
        """Make a token; returns its text, which is kept nowhere else."""
        text = _PREFIX + token_urlsafe(_BYTES)
        token = Token(_digest(text.encode()), origin)
        self._tokens[token.digest] = token
        return text, token

    def find(self, given: bytes) -> Token | None:
        """Return the token of a text. How long this takes reveals nothing about any token."""
        digest = _digest(given)
        found = [token for token in self._tokens.values() if hmac.compare_digest(token.digest, digest)]
        return found[0] if found else None

    def revoke(self, token: Token) -> None:
        """Forget a token, and withdraw what was asked with it."""
        self._tokens.pop(token.digest, None)
        token.calls.close()

    def close(self) -> None:
        """Revoke all tokens."""
        for token in list(self._tokens.values()):
            self.revoke(token)


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
