"""DPoP: proofs that the sender of a token holds the key it was issued for (RFC 9449).

Owns a client's key and makes its proofs. ``client`` sends them and stores nonces; ``server`` verifies them. In the
specification this is a draft (SEP-1932).
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

ALGORITHM = "ES256"
"""Signature algorithm of our keys; every server with DPoP supports it."""

TYPE = "dpop+jwt"
"""The ``typ`` of a proof (RFC 9449, section 4.2)."""


def hash_of(token: str) -> str:
    """Return the SHA-256 of a text, base64url without padding: the ``ath`` of a token."""
    return base64.urlsafe_b64encode(hashlib.sha256(token.encode("ascii")).digest()).rstrip(b"=").decode()


def proof_target(url: str) -> str:
    """Return the ``htu`` of a request: its address without query, fragment and credentials."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path or "/", "", ""))


class ProofKey:
    """The key pair of one client, constant for the life of its tokens."""

    def __init__(self, jwk: dict[str, Any] | None = None) -> None:
        from joserfc.jwk import ECKey

        self._key = ECKey.generate_key("P-256", private=True) if jwk is None else ECKey.import_key(cast("Any", jwk))
        self._public = cast("dict[str, Any]", self._key.as_dict(private=False))
        self._public.pop("kid", None)

    def __repr__(self) -> str:
        return f"ProofKey({self.thumbprint})"

    @property
    def thumbprint(self) -> str:
        """The ``jkt`` of tokens bound to this key (RFC 7638)."""
        return self._key.thumbprint()

    def export_key(self) -> dict[str, Any]:
        """Return the key as a JWK with its private part, to be stored."""
        return cast("dict[str, Any]", self._key.as_dict(private=True))

    def proof(self, method: str, url: str, *, token: str | None = None, nonce: str | None = None) -> str:
        """Make a proof for one request; each may be used once. ``nonce``: the server's, if it requires one."""
        from joserfc import jwt

        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": proof_target(url),
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = hash_of(token)
        if nonce is not None:
            claims["nonce"] = nonce
        header = {"typ": TYPE, "alg": ALGORITHM, "jwk": self._public}
        return jwt.encode(header, claims, self._key, algorithms=[ALGORITHM])
