"""DPoP on the server: verifies that the sender of a request holds the key its token is bound to (RFC 9449).

Owns the validation of proofs, the record of used ones, and nonces. This is a draft in the specification's extensions
(SEP-1932), so all of it is in this file.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from antiphon.auth.challenge import TYPE, hash_of
from antiphon.auth.server.access_token import Invalid, decode_unpadded, has_signature, read_header, split_token
from antiphon.auth.server.key_set import PublicKey
from antiphon.errors import ConfigError

ALGORITHMS = ("ES256", "ES384", "ES512", "EdDSA", "Ed25519", "PS256", "RS256")
"""Accepted signatures of proofs, the most common first."""

MAX_PROOF = 4 * 1024
"""Bytes of a proof at most: one with an RSA key of 4096 bits has 2 KiB."""

MAX_USED = 100_000
"""Used proofs that are remembered to detect replays: 20 bytes each, for about two minutes."""

MAX_USED_BY_ONE = 10_000
"""Used proofs of one key that are remembered: a tenth, so that one client cannot use up the limit of all."""

_MAX_ID = 256


class NonceWanted(Invalid):
    """A proof without a valid nonce of this server."""


class TooMany(Invalid):
    """More proofs arrive than can be remembered; unchecked ones are never accepted."""


class DPoP(Struct, frozen=True, kw_only=True):
    """How a server accepts tokens that are bound to their sender's key (RFC 9449).

    Args:
        required: refuse tokens that are not bound.
        nonces: require a nonce of this server in each proof, so that none can be made in advance.
        nonce_for: seconds for which a nonce is accepted; after half of them a new one is sent.
        nonce_keys: secrets of 32 bytes each, the same in all processes of a server: the first signs nonces, all are
            accepted. By default a random one for this process.
        max_age: seconds by which a proof may be older or newer than now.
        algorithms: accepted signatures of proofs, of ``ES256 ES384 ES512 EdDSA Ed25519 PS256 RS256``.

    Raises:
        ConfigError: an argument cannot be used; the message names it and says what to do.
    """

    required: bool = False
    nonces: bool = False
    nonce_for: float = 300.0
    nonce_keys: Sequence[bytes] = ()
    max_age: float = 60.0
    algorithms: Sequence[str] = ALGORITHMS

    def __post_init__(self) -> None:
        if not self.algorithms or not set(self.algorithms) <= set(ALGORITHMS):
            raise ConfigError(f"DPoP(algorithms=) are some of {', '.join(ALGORITHMS)}")
        if not 1 <= self.max_age <= 600 or not 2 <= self.nonce_for <= 3600:
            raise ConfigError("DPoP(max_age=) is 1 to 600 seconds, nonce_for= 2 to 3600")
        if any(len(key) != 32 for key in self.nonce_keys):
            raise ConfigError("DPoP(nonce_keys=) are 32 bytes each, as secrets.token_bytes(32) makes them")

    def __repr__(self) -> str:
        return f"DPoP(required={self.required}, nonces={self.nonces})"


class _Header(Struct):
    jwk: dict[str, Any]


class _Claims(Struct):
    jti: str
    htm: str
    htu: str
    iat: float
    ath: str
    nonce: str | None = None


_decode_key = msgspec.json.Decoder(_Header).decode
_decode_claims = msgspec.json.Decoder(_Claims).decode


class Proofs:
    """Verifies the proofs of one server. ``clock``: seconds since 1970."""

    def __init__(self, options: DPoP, clock: Callable[[], float] = time.time) -> None:
        self.options = options
        self._clock = clock
        self._keys = tuple(options.nonce_keys) or (secrets.token_bytes(32),)
        self._used: dict[bytes, bytes] = {}
        """Used proofs and the key of each, as short digests."""
        self._order: deque[tuple[float, bytes]] = deque()
        """Expiry times of the used proofs, the earliest first."""
        self._count = Counter[bytes]()
        """Number of used proofs by key."""

    # --- a proof ------------------------------------------------------------------------------------------------

    def check(self, proof: bytes, *, token: bytes, method: str, url: str, thumbprint: str) -> tuple[str, ...]:
        """Verify the proof of a request; return the nonce for the response, if there is a new one.

        ``url``: address of the request by our own configuration; ``thumbprint``: that of the key the token is bound to.
        Raises ``Invalid`` for a proof that does not fit or was used before, ``NonceWanted`` for one without a current
        nonce of ours, and ``TooMany`` if more arrive than can be remembered.
        """
        claims, key = self._read_proof(proof)
        now = self._clock()
        if key.key.thumbprint() != thumbprint:
            raise Invalid("the proof was made with another key")
        if claims.htm != method:
            raise Invalid("the proof is for another method")
        if _parse_target(claims.htu) != _parse_target(url):
            raise Invalid("the proof is for another address")
        if not hmac.compare_digest(claims.ath.encode(), hash_of(token.decode()).encode()):
            raise Invalid("the proof is for another token")
        if not abs(now - claims.iat) <= self.options.max_age:
            raise Invalid("the proof is too old, or from the future")
        fresh = self._check_nonce(claims.nonce, now)
        self._use(claims.jti, thumbprint, claims.iat, now)
        return fresh

    def _read_proof(self, proof: bytes) -> tuple[_Claims, PublicKey]:
        parts = split_token(proof) if len(proof) <= MAX_PROOF else None
        if parts is None:
            raise Invalid("the proof is no signed token, or is too long")
        header = read_header(parts[0])
        if header.typ.lower() != TYPE:
            raise Invalid(f"the typ of the proof is not {TYPE}")
        try:
            words = _decode_key(decode_unpadded(parts[0])).jwk
            claims = _decode_claims(decode_unpadded(parts[1]))
        except msgspec.DecodeError:
            raise Invalid("the proof lacks a part, or one cannot be read") from None
        # "The jwk JOSE Header Parameter does not contain a private key" (section 4.3).
        key = PublicKey.read(words)
        if key is None or header.alg not in self.options.algorithms or not has_signature(proof, key, header.alg):
            raise Invalid("the proof is not signed with the key that it names")
        if not 0 < len(claims.jti) <= _MAX_ID:
            raise Invalid("the proof has no id, or a long one")
        return claims, key

    # --- used before --------------------------------------------------------------------------------------------

    def _use(self, id: str, thumbprint: str, made: float, now: float) -> None:
        """Record that a proof was used.

        Only proofs of valid tokens are recorded, so that strangers cannot fill the memory.
        """
        self._forget(now)
        owner = hashlib.blake2b(thumbprint.encode(), digest_size=16).digest()
        mark = hashlib.blake2b(id.encode(), digest_size=16, key=owner).digest()
        if mark in self._used:
            raise Invalid("the proof was used before")
        if len(self._used) >= MAX_USED or self._count[owner] >= MAX_USED_BY_ONE:
            raise TooMany("more proofs have come than can be remembered")
        self._used[mark] = owner
        self._count[owner] += 1
        # Kept a little longer than any current proof is valid, in order of arrival.
        self._order.append((now + 2 * self.options.max_age + 1, mark))

    def _forget(self, now: float) -> None:
        # If the clock is set back, they are kept longer, never shorter.
        while self._order and self._order[0][0] <= now:
            owner = self._used.pop(self._order.popleft()[1])
            self._count[owner] -= 1
            if not self._count[owner]:
                del self._count[owner]

    # --- nonces -------------------------------------------------------------------------------------------------

    def nonce(self) -> str:
        """Make a nonce: its time, signed by this server."""
        return self._seal_data(int(self._clock()), self._keys[0])

    def _check_nonce(self, given: str | None, now: float) -> tuple[str, ...]:
        if not self.options.nonces:
            return ()
        made = self._find_time(given) if given is not None and len(given) <= _MAX_ID else None
        if made is None or not -self.options.max_age <= now - made <= self.options.nonce_for:
            raise NonceWanted("the proof has no valid nonce of ours")
        return (self.nonce(),) if now - made > self.options.nonce_for / 2 else ()

    def _find_time(self, nonce: str) -> float | None:
        """Return when a nonce of ours was made, ``None`` if it is not ours."""
        at, _, _ = nonce.partition(".")
        if not (at.isascii() and at.isdecimal() and len(at) <= 12):
            return None
        is_ours = any(hmac.compare_digest(nonce.encode(), self._seal_data(int(at), key).encode()) for key in self._keys)
        return float(at) if is_ours else None

    @staticmethod
    def _seal_data(at: int, key: bytes) -> str:
        seal = hmac.digest(key, b"antiphon dpop nonce %d" % at, "sha256")[:16]
        return f"{at}.{base64.urlsafe_b64encode(seal).rstrip(b'=').decode()}"


def _parse_target(url: str) -> tuple[str, str | None, int | None, str] | None:
    """Return the parts of an address that are compared (section 4.3): no query or fragment, normalized.

    A slash at the end does not count, since an endpoint is served with and without one. Returns ``None`` for what is no
    address; that never equals ours.
    """
    try:
        parts = urlsplit(url)
        scheme = {"wss": "https", "ws": "http"}.get(parts.scheme, parts.scheme)
        port = parts.port or {"https": 443, "http": 80}.get(scheme)
        return scheme, parts.hostname, port, parts.path.removesuffix("/")
    except ValueError:
        return None
