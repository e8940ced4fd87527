"""JSON Web Tokens as access tokens, and their validation (RFC 9068, RFC 8725).

Owns the checks and their order: form, issuer, signature, then claims. Makes no requests; the key is passed in.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from antiphon.auth.server.key_set import PublicKey
from antiphon.errors import AntiphonError
from antiphon.wire.envelope import too_deep

MAX_TOKEN = 16 * 1024
"""Bytes of an access token at most. Entra's with many groups have 8 KiB; proxies accept headers of 8 to 32 KiB."""

_MAX_HEADER = 4 * 1024
_MAX_WORD = 1024
"""Characters of an issuer, subject or client at most: these are identifiers, and are in every log record."""


class Invalid(AntiphonError):
    """A token or a proof that is refused.

    The message gives the reason for the log; the client is told less. Neither contains a part of the token.
    """


class Header(Struct):
    """The header of a token, as far as it is used. Its keys (``jwk``, ``jku``, ``x5u``) are always ignored."""

    alg: str
    typ: str = ""
    kid: str | int | None = None
    crit: Any = None


class Standard(Struct):
    """The claims that are validated."""

    iss: str
    exp: float
    aud: str | list[str] = ""
    sub: str | None = None
    client_id: str | None = None
    azp: str | None = None
    appid: str | None = None
    nbf: float | None = None
    iat: float | None = None
    cnf: dict[str, Any] | None = None


class Claims(Mapping[str, Any]):
    """All claims of a token, decoded on access: it is kept for the life of the token, and rarely read."""

    __slots__ = ("_raw",)

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> Any:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        # Claims name people, and a repr may be logged.
        return f"Claims({len(self._raw)} bytes)"

    def _all(self) -> dict[str, Any]:
        return msgspec.json.decode(self._raw, type=dict[str, Any])


_decode_header = msgspec.json.Decoder(Header).decode
_decode_claims = msgspec.json.Decoder(Standard).decode


def decode_unpadded(part: bytes) -> bytes:
    """Decode base64url without padding, as JOSE uses it; raise ``Invalid`` if that fails."""
    try:
        if b"=" in part or b"+" in part or b"/" in part:
            raise Invalid("it is not base64url")
        return base64.b64decode(part + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("it is not base64url") from None


def split_token(token: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return the three parts of a signed token; ``None`` for an opaque token, which only its issuer can verify."""
    parts = token.split(b".")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 and token.startswith(b"ey") and all(parts) else None


def read_header(part: bytes) -> Header:
    """Parse the header of a token; raise ``Invalid`` if it is malformed, or demands an extension."""
    if len(part) > _MAX_HEADER:
        raise Invalid("its header is too long")
    try:
        header = _decode_header(decode_unpadded(part))
    except msgspec.DecodeError:
        raise Invalid("its header cannot be read") from None
    if header.crit is not None:
        # RFC 7515, section 4.1.11: extensions that are not supported make it invalid; none is supported here.
        raise Invalid("its header demands extensions")
    return header


def read_claims(part: bytes) -> tuple[Standard, bytes]:
    """Parse the claims of a token; return the validated ones, and all as JSON; raise ``Invalid`` if they are wrong."""
    raw = decode_unpadded(part)
    if too_deep(raw):
        raise Invalid("its claims nest too deep")
    try:
        claims = _decode_claims(raw)
        # All claims must be decodable, because the rest is read later.
        msgspec.json.decode(raw)
    except msgspec.DecodeError:
        raise Invalid("its claims cannot be read") from None
    return claims, raw


def has_signature(token: bytes, key: PublicKey, algorithm: str) -> bool:
    """Verify the signature of a token with a key and an algorithm that the key is for."""
    if algorithm not in key.algorithms:
        return False
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    text, _, signature = token.rpartition(b".")
    # Key and algorithm were chosen above. joserfc's own decoding would parse the header again, and has limits
    # that are too small for a proof with a large key.
    try:
        return bool(JWSRegistry.algorithms[algorithm].verify(text, decode_unpadded(signature), key.key))
    except (JoseError, Invalid, ValueError, TypeError, KeyError):
        return False


def check_claims(
    claims: Standard, *, audiences: Collection[str], issuers: Collection[str], now: float, leeway: float
) -> None:
    """Check issuer, audience and times of a token, or raise ``Invalid``; ``leeway``: seconds clocks may differ."""
    if claims.iss not in issuers:
        raise Invalid("it is from another issuer")
    # 2026-07-28 basic/authorization: "MCP servers MUST validate that access tokens were issued specifically for
    # them as the intended audience". Compared exactly: an audience with ours as a part is a different one.
    said = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    if not any(each in audiences for each in said):
        raise Invalid("it is for another audience")
    if not abs(claims.exp) < 1e12 or now >= claims.exp + leeway:
        raise Invalid("it has expired")
    if claims.nbf is not None and not now >= claims.nbf - leeway:
        raise Invalid("it is not valid yet")
    if claims.iat is not None and not now >= claims.iat - leeway:
        raise Invalid("it is from the future")


def principal_of(issuer: str, claims: Standard) -> str:
    """Return the principal of a token as one text: issuer and subject, or issuer and client with a separate prefix.

    An issuer contains no space, so no two pairs give the same text; the prefix prevents that a client is taken for a
    person with the same name. Raises ``Invalid`` if the token names neither, or a name is too long.
    """
    if claims.sub:
        kind, name = "sub", claims.sub
    else:
        kind, name = "client", claims.client_id or claims.azp or claims.appid or ""
    if not name or len(name) > _MAX_WORD:
        raise Invalid("it names neither a subject nor a client" if not name else "a name in it is too long")
    return f"{issuer} {kind}:{name}"


def scopes_of(raw: bytes, names: Sequence[str]) -> frozenset[str]:
    """Collect the scopes of a token from the claims with these names."""
    claims = msgspec.json.decode(raw, type=dict[str, Any])
    found: set[str] = set()
    for name in names:
        value = claims.get(name)
        if isinstance(value, str):
            found.update(value.split())
        elif isinstance(value, list):
            found.update(each for each in cast("list[object]", value) if isinstance(each, str))
    return frozenset(found)


def thumbprint_of(claims: Standard) -> str | None:
    """Return the thumbprint of the key that a token is bound to (RFC 9449, section 6.1), ``None`` for an unbound one.

    Raises ``Invalid`` if it is bound by a method that cannot be verified here.
    """
    if claims.cnf is None:
        return None
    bound = claims.cnf.get("jkt")
    if not isinstance(bound, str) or not bound or len(claims.cnf) != 1:
        raise Invalid("it is bound to its sender by an unsupported method")
    return bound
