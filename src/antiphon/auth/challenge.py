"""Parses ``WWW-Authenticate``: what a server requires after it rejected a request; makes DPoP proofs.

Sources: RFC 9110, section 11.6.1, and RFC 9449.
A response may have the header several times, one header may contain several challenges, and commas separate both
challenges and the parameters of one challenge.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

MAX_CHARACTERS = 16 * 1024
"""Characters of all these headers of one response that are parsed; usual are 200."""

MAX_CHALLENGES = 16
"""Challenges of one response that are kept."""

MAX_PARAMETERS = 32
"""Parameters of one challenge that are kept."""

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
# Many servers write addresses without quotes or in other ones, and some forget the closing quote. Without quotes a
# value may be empty, or have several words: those after it that are no names of parameters.
_PARAMETER = re.compile(
    rf"(?P<name>{_TOKEN})[ \t]*+=[ \t]*+"
    r"""(?:"(?P<quoted>(?:[^"\\]|\\.)*+)(?:"|\\?$)|'(?P<single>[^']*+)'(?=[ \t,;]|$)|"""
    r"""\\"(?P<escaped>[^"\\]*+)\\"|(?P<plain>[^ \t,;"]*+(?:[ \t]++[^ \t,;"=]++(?![ \t]*+=))*))"""
)
_SCHEME = re.compile(rf"(?P<scheme>{_TOKEN}):?(?:[ \t]++|$|(?=,))")
_TOKEN68 = re.compile(r"[0-9A-Za-z\-._~+/]++=*+[ \t]*+(?=,|$)")
_BETWEEN = re.compile(r"[ \t,;]++")
_OTHER_QUOTES = "<>`\u201c\u201d\u2018\u2019"
_ESCAPED = re.compile(r"\\(.)")


class Challenge(Struct, frozen=True, kw_only=True):
    """One challenge: an authentication scheme that the server accepts."""

    scheme: str
    """Authentication scheme in lower case: ``bearer``, ``dpop``, ``basic`` ..."""
    parameters: Mapping[str, str] = {}
    """By name in lower case; if a name occurs twice, the first value counts."""

    @property
    def error(self) -> str | None:
        """Error code of the token: ``invalid_token``, ``insufficient_scope``, ``use_dpop_nonce`` ..."""
        return self.parameters.get("error")

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that the operation requires, in the server's order; empty if the challenge names none."""
        return tuple(dict.fromkeys(self.parameters.get("scope", "").split()))

    @property
    def resource_metadata(self) -> str | None:
        """URL of the server's protected resource metadata (RFC 9728, section 5.1)."""
        return self.parameters.get("resource_metadata")


def read_challenges(lines: Iterable[str]) -> list[Challenge]:
    """Parse the ``WWW-Authenticate`` headers of a response; malformed parts are skipped."""
    found: list[Challenge] = []
    left = MAX_CHARACTERS
    for line in lines:
        found += _parse_line(line[:left])
        left -= len(line)
        if left <= 0 or len(found) >= MAX_CHALLENGES:
            break
    return found[:MAX_CHALLENGES]


def oauth_challenge(challenges: Iterable[Challenge]) -> Challenge | None:
    """Return the challenge for an access token; one with an error or a metadata URL is preferred."""
    asking = [one for one in challenges if one.scheme in ("bearer", "dpop")]
    telling = [one for one in asking if one.error is not None or one.resource_metadata is not None]
    return next(iter(telling or asking), None)


def _parse_line(line: str) -> list[Challenge]:
    found: list[Challenge] = []
    at = 0
    while at < len(line) and len(found) < MAX_CHALLENGES:
        if between := _BETWEEN.match(line, at):
            at = between.end()
            continue
        scheme = _SCHEME.match(line, at)
        if scheme is None:
            # What a quote within a quoted value has cut off belongs to the challenge before it.
            if found and _PARAMETER.match(line, at):
                at = _parse_parameters(line, at, cast("dict[str, str]", found[-1].parameters))
            else:
                comma = line.find(",", at)
                at = len(line) if comma < 0 else comma + 1
            continue
        parameters: dict[str, str] = {}
        at = _parse_parameters(line, scheme.end(), parameters)
        found.append(Challenge(scheme=scheme["scheme"].lower(), parameters=parameters))
    return found


def _parse_parameters(line: str, at: int, into: dict[str, str]) -> int:
    """Parse the parameters of a challenge from position ``at``; return where the next challenge begins."""
    if (token68 := _TOKEN68.match(line, at)) is not None and "=" not in token68[0].rstrip(" \t=,"):
        # Basic and other schemes may have one opaque token (token68) instead of parameters.
        return token68.end() if token68[0] else at
    while at < len(line):
        if between := _BETWEEN.match(line, at):
            at = between.end()
            continue
        parameter = _PARAMETER.match(line, at)
        if parameter is None:
            return at
        name = parameter["name"].lower()
        value = parameter["single"] or parameter["escaped"]
        if (plain := parameter["plain"]) is not None:
            value = plain.strip(_OTHER_QUOTES)
        elif value is None:
            value = _ESCAPED.sub(r"\1", parameter["quoted"] or "")
        if len(into) < MAX_PARAMETERS:
            into.setdefault(name, value)
        at = parameter.end()
    return at


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
