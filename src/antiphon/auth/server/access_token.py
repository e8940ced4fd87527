"""A JSON Web Token as an access token: what it must be before a word of it counts (RFC 9068, RFC 8725).

Owns the checks and their order: form, issuer, signature, then claims. Sans-IO but for the key, which is asked for.
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

__all__ = ["MAX_TOKEN", "Claims", "Invalid", "Standard", "check_claims", "has_signature", "principal_of", "scopes_of"]

MAX_TOKEN = 16 * 1024
"""Bytes of an access token. Entra's with many groups have 8 KiB; proxies take headers of 8 to 32 KiB."""

_MAX_HEADER = 4 * 1024
_MAX_WORD = 1024
"""Characters of an issuer, a subject or a client: they name somebody, and stand in every record."""


class Invalid(AntiphonError):
    """A token or a proof that is not taken.

    The message says why, for a log; the client learns less, and neither has a word of the token.
    """


class Header(Struct):
    """The header of a token, as far as it counts. What it says of keys (``jwk``, ``jku``, ``x5u``) never does."""

    alg: str
    typ: str = ""
    kid: str | int | None = None
    crit: Any = None


class Standard(Struct):
    """The claims that are checked."""

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
    """What a token says, decoded when looked at: it is held for as long as the token lives, and rarely looked at."""

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
        # They name people, and this ends up in logs.
        return f"Claims({len(self._raw)} bytes)"

    def _all(self) -> dict[str, Any]:
        return msgspec.json.decode(self._raw, type=dict[str, Any])


_decode_header = msgspec.json.Decoder(Header).decode
_decode_claims = msgspec.json.Decoder(Standard).decode


def unpadded(part: bytes) -> bytes:
    """Decode base64url without padding, as JOSE writes it.

    Raises:
        Invalid: it is something else.
    """
    try:
        if b"=" in part or b"+" in part or b"/" in part:
            raise Invalid("it is not base64url")
        return base64.b64decode(part + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("it is not base64url") from None


def split(token: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return the three parts of a signed token; ``None`` if it is none, and its issuer has to be asked."""
    parts = token.split(b".")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 and token.startswith(b"ey") and all(parts) else None


def read_header(part: bytes) -> Header:
    """Read the header of a token.

    Raises:
        Invalid: it cannot be read, or asks for what is not understood here.
    """
    if len(part) > _MAX_HEADER:
        raise Invalid("its header is too long")
    try:
        header = _decode_header(unpadded(part))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Invalid("its header cannot be read") from None
    if header.crit is not None:
        # RFC 7515, section 4.1.11: extensions that are not understood make it invalid; none is understood here.
        raise Invalid("its header demands extensions")
    return header


def read_claims(part: bytes) -> tuple[Standard, bytes]:
    """Read the claims of a token, and return them as they came as well.

    Raises:
        Invalid: they cannot be read, or one that is checked is missing or of another type.
    """
    raw = unpadded(part)
    try:
        claims = _decode_claims(raw)
        # All of it must be readable: somebody will look at the rest later.
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Invalid("its claims cannot be read") from None
    return claims, raw


def has_type(header: Header, types: Collection[str]) -> bool:
    """Tell whether a header says what an access token is to say it is; media types are the same in any case."""
    said = header.typ.lower().removeprefix("application/")
    return said in {each.lower() for each in types}


def has_signature(token: bytes, key: PublicKey, algorithm: str) -> bool:
    """Tell whether a token was signed with a key, by an algorithm that the key is for."""
    if algorithm not in key.algorithms:
        return False
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    text, _, signature = token.rpartition(b".")
    # Which key, and for what, was decided above. The whole of joserfc's reading would look at the header once more,
    # and has bounds of its own, in which no proof with a large key has room.
    try:
        return bool(JWSRegistry.algorithms[algorithm].verify(text, unpadded(signature), key.key))
    except (JoseError, Invalid, ValueError, TypeError, KeyError):
        return False


def check_claims(
    claims: Standard, *, audiences: Collection[str], issuers: Collection[str], now: float, leeway: float
) -> None:
    """Check who a token is from, whom it is for, and when. ``now``: seconds since 1970; ``leeway``: of both clocks.

    Raises:
        Invalid: it is not for now, not for here, or not from there.
    """
    if claims.iss not in issuers:
        raise Invalid("it is from another issuer")
    # 2026-07-28 basic/authorization: "MCP servers MUST validate that access tokens were issued specifically for them
    # as the intended audience". By the letter: an audience that contains ours, or begins like it, is another one.
    said = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    if not any(each in audiences for each in said):
        raise Invalid("it is for another audience")
    check_times(claims, now, leeway)


def check_times(claims: Standard, now: float, leeway: float) -> None:
    """Check whether a token is good now.

    Raises:
        Invalid: it is not yet, or not any more.
    """
    if not abs(claims.exp) < 1e12 or now >= claims.exp + leeway:
        raise Invalid("it has expired")
    if claims.nbf is not None and not now >= claims.nbf - leeway:
        raise Invalid("it is not good yet")
    if claims.iat is not None and not now >= claims.iat - leeway:
        raise Invalid("it is from the future")


def principal_of(issuer: str, claims: Standard) -> str:
    """Say whose token it is, in one text: issuer and subject, or issuer and client in a namespace of their own.

    An issuer has no space in it, so no two pairs give the same text; the word between keeps a client that is called
    like a person from being that person.

    Raises:
        Invalid: it names neither, or a name is too long.
    """
    if claims.sub:
        kind, name = "sub", claims.sub
    else:
        kind, name = "client", claims.client_id or claims.azp or claims.appid or ""
    if not name or len(name) > _MAX_WORD:
        raise Invalid("it names nobody whom it is for" if not name else "a name in it is too long")
    return f"{issuer} {kind}:{name}"


def scopes_of(raw: bytes, names: Sequence[str]) -> frozenset[str]:
    """Collect what a token allows from the claims that say so."""
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
    """Return the thumbprint of the key a token is bound to (RFC 9449, section 6.1); ``None``: to none.

    Raises:
        Invalid: it is bound in a way that is not understood here, and so would not be checked.
    """
    if claims.cnf is None:
        return None
    bound = claims.cnf.get("jkt")
    if not isinstance(bound, str) or not bound or len(claims.cnf) != 1:
        raise Invalid("it is bound to its sender in a way that is not known here")
    return bound
