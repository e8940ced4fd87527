"""DPoP: proofs that whoever sends a token also holds the key it was issued for (RFC 9449).

Owns the key of a client and the making of its proofs. Where proofs are sent, and which nonces servers want in them,
is ``client``'s business; how a server checks them ``server``'s. The specification's part of it (SEP-1932) is a draft.
"""

from __future__ import annotations

import base64
import hashlib
import os
import time
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

__all__ = ["ALGORITHM", "TYPE", "ProofKey", "hash_of", "proof_target"]

ALGORITHM = "ES256"
"""What our keys sign with: every server that knows DPoP has to know it (RFC 9449 names no other in its examples)."""

TYPE = "dpop+jwt"
"""The ``typ`` of a proof (RFC 9449, section 4.2)."""


def hash_of(token: str) -> str:
    """Return the ``ath`` of a token: its SHA-256, base64url without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(token.encode("ascii")).digest()).rstrip(b"=").decode()


def proof_target(url: str) -> str:
    """Return the ``htu`` of a request: its address without query and fragment, and without credentials."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path or "/", "", ""))


class ProofKey:
    """The key pair of one client. It stays what it is for as long as its tokens live."""

    def __init__(self, jwk: dict[str, Any] | None = None) -> None:
        from joserfc.jwk import ECKey

        self._key = ECKey.generate_key("P-256", private=True) if jwk is None else ECKey.import_key(cast("Any", jwk))
        self._public = cast("dict[str, Any]", self._key.as_dict(private=False))
        self._public.pop("kid", None)

    def __repr__(self) -> str:
        return f"ProofKey({self.thumbprint})"

    @property
    def thumbprint(self) -> str:
        """The ``jkt`` that tokens for this key carry (RFC 7638)."""
        return self._key.thumbprint()

    def exported(self) -> dict[str, Any]:
        """Return the key as a JWK, private part included, for a store."""
        return cast("dict[str, Any]", self._key.as_dict(private=True))

    def proof(self, method: str, url: str, *, token: str | None = None, nonce: str | None = None) -> str:
        """Make a proof for one request; each is used once.

        ``token``: the access token sent with it. ``nonce``: what the server wants to find in it.
        """
        from joserfc import jwt

        claims: dict[str, Any] = {
            "jti": base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode(),
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
