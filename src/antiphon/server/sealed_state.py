"""``requestState``: what a server gives away and must recognise. Sealed, bound, short-lived, refused in one way.

2026-07-28 basic/patterns/mrtr: a server must treat it as attacker-controlled input. The state is encrypted and
authenticated (AES-256-GCM) and bound to who called what with which arguments on which server, so that no other call can
use it. Keys are tried in order, so they can be rotated; with none given one is made for this process.
"""

from __future__ import annotations

import hashlib
import os
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from antiphon.errors import ConfigError, InvalidParams

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["MAX_STATE", "Seal", "State", "binding", "refusal"]

MAX_STATE = 256 * 1024
"""Longest state accepted, in characters. Ours is below 200; a journal (with several processes) stays below 64 KiB."""

_NONCE = 12
_FORMAT = b"A1"
_PAYLOAD = struct.Struct(">16sId")


class State(NamedTuple):
    """What is sealed."""

    call: bytes
    """Id of the parked call, 16 random bytes."""
    generation: int
    """How many rounds the call had sent when this was made."""
    expires: float
    """Seconds since the epoch."""


def refusal() -> InvalidParams:
    """Make the one error for every state that is not accepted, so that it tells an attacker nothing."""
    return InvalidParams("Invalid or expired requestState")


class Seal:
    """Seals and opens states. ``keys``: 32 bytes each, the first seals; none makes a key for this process alone."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        for key in keys:
            if len(key) != 32:
                raise ConfigError(
                    f"A key for request states has 32 bytes, not {len(key)}; make one with os.urandom(32)"
                )
        self._keys = tuple(keys) or (os.urandom(32),)
        self._ciphers: list[AESGCM] = []

    def seal(self, state: State, bound_to: bytes) -> str:
        """Encrypt a state for one binding."""
        nonce = os.urandom(_NONCE)
        sealed = self._cipher()[0].encrypt(nonce, _PAYLOAD.pack(*state), _FORMAT + bound_to)
        return urlsafe_b64encode(_FORMAT + nonce + sealed).decode("ascii")

    def open(self, text: str, bound_to: bytes, now: float) -> State:
        """Decrypt a state.

        Raises:
            InvalidParams: always the same one, whatever was wrong.
        """
        from cryptography.exceptions import InvalidTag

        try:
            blob = urlsafe_b64decode(text.encode("ascii")) if len(text) <= MAX_STATE else b""
        except ValueError:
            raise refusal() from None
        if blob[:2] != _FORMAT or urlsafe_b64encode(blob) != text.encode("ascii"):
            raise refusal()
        for cipher in self._cipher():
            try:
                payload = cipher.decrypt(blob[2 : 2 + _NONCE], blob[2 + _NONCE :], _FORMAT + bound_to)
                state = State(*_PAYLOAD.unpack(payload))
            except (InvalidTag, ValueError, struct.error):
                continue
            if state.expires > now:
                return state
            break
        raise refusal()

    def _cipher(self) -> list[AESGCM]:
        if not self._ciphers:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._ciphers = [AESGCM(key) for key in self._keys]
        return self._ciphers


def binding(principal: str | None, method: str, name: str, arguments: bytes, server: str) -> bytes:
    """Digest what a state is bound to. Arguments that mean the same give the same digest, however they were written."""
    try:
        meaning = _canonical(msgspec.json.decode(arguments or b"{}"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise refusal() from None
    document = msgspec.json.encode([principal, method, name, meaning, server], order="deterministic")
    return hashlib.sha256(document).digest()


def _canonical(value: Any) -> Any:
    """Make numbers that are equal the same: strangers re-serialise 1.0 as 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _canonical(member) for name, member in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_canonical(member) for member in cast("list[Any]", value)]
    return value
