"""``ResourceServer``: an MCP server as an OAuth resource server.

Builds the responses to requests without a token or with an invalid one: status, error and challenge. 2026-07-28
basic/authorization; RFC 6750 (bearer tokens), RFC 9449 (DPoP), RFC 9728 (metadata that
tells clients where to obtain tokens).

Addresses are taken from the operator's configuration, never from the headers of a request: its ``Host`` is chosen by
the sender, who could make clients request tokens for another server.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import SplitResult
from weakref import WeakKeyDictionary

import msgspec

from antiphon.auth.metadata import PROTECTED_RESOURCE, ResourceMetadata
from antiphon.auth.server.access_token import Invalid
from antiphon.auth.server.issuer import Issuer, IssuerUnavailable, check_address, issuers_of
from antiphon.auth.server.proofs import DPoP, NonceWanted, Proofs, TooMany
from antiphon.auth.server.verifier import CheckAccess, Verified, Verifier
from antiphon.errors import ConfigError, InsufficientScope, InvalidRequest
from antiphon.machine.public_names import describe_install
from antiphon.protocol.caller import Caller, Covers
from antiphon.protocol.http.rules import NOT_ACCEPTED, Admitted, Denied, HeaderPair, Headers, HttpRefusal

log = logging.getLogger("antiphon.auth")

_UNAUTHORIZED = HttpRefusal(401, InvalidRequest("Unauthorized"))
_UNAVAILABLE = Denied(
    HttpRefusal(503, InvalidRequest("Tokens cannot be checked now")), ((b"retry-after", b"5"), (NOT_ACCEPTED, b"1"))
)


class _Checks(NamedTuple):
    """What tokens are checked with, and the proofs of those that are bound to a key."""

    verifier: Verifier
    proofs: Proofs


_CHECKS: WeakKeyDictionary[ResourceServer, _Checks] = WeakKeyDictionary()
"""What each resource server checks with. It stands here, not in an attribute, since authors have no use for it."""


class ResourceServer:
    """Verifies the access tokens of a server (OAuth 2.1), and tells clients where to obtain them.

    Give it to ``server.run("http", auth=...)`` or ``server.asgi(auth=...)``.

    Args:
        issuers: issuer identifiers of the authorization servers, or an ``Issuer`` for each that needs options.
        audience: the required ``aud`` of tokens, compared exactly; if there are several, any one.
        url: the address of the server for clients; by default the audience, if that is an address. It is used in
            metadata, challenges and proofs; headers of requests are not.
        check: a function that verifies a token instead of signatures and introspection: it returns a ``Caller`` or the
            name of a principal, and raises to refuse. ``OSError`` (except ``PermissionError``) means that it cannot
            tell now. None by default.
        scopes: scopes that every token must have; none by default.
        scopes_supported: scopes that clients are told to request first; by default ``scopes``.
        covers: a function ``(granted, required) -> bool``: whether one scope includes another; by default none does.
        hides: leave out of lists what the caller's token does not allow; by default lists are complete.
        dpop: how tokens bound to a key are accepted; by default they are accepted as well as unbound ones.
        leeway: seconds by which the issuer's clock may differ, 0 to 300; 60 by default.
        name: name of the server for people, in its metadata.
        documentation: address of a page for people, in its metadata.
        metadata_url: the location of the metadata for clients, if it is served elsewhere.

    Raises:
        ConfigError: an argument cannot be used, or ``antiphon[auth]`` is not installed; the message says what to do.
    """

    def __init__(
        self,
        issuers: str | Issuer | Sequence[str | Issuer],
        audience: str | Sequence[str],
        *,
        url: str | None = None,
        check: CheckAccess | None = None,
        scopes: Sequence[str] = (),
        scopes_supported: Sequence[str] | None = None,
        covers: Covers | None = None,
        hides: bool = False,
        dpop: DPoP | None = None,
        leeway: float = 60.0,
        name: str | None = None,
        documentation: str | None = None,
        metadata_url: str | None = None,
    ) -> None:
        if importlib.util.find_spec("joserfc") is None:
            raise ConfigError(f"ResourceServer needs more packages: {describe_install('auth')}")
        audiences = frozenset([audience] if isinstance(audience, str) else audience)
        if not audiences or not all(audiences):
            raise ConfigError("ResourceServer(audience=) needs the aud that tokens for this server have")
        if not 0 <= leeway <= 300:
            raise ConfigError("ResourceServer(leeway=) is a number of seconds from 0 to 300")
        taken = issuers_of(issuers)
        self.url = _choose_url(url, audiences)
        """The address of the server for clients."""
        self.scopes = _check_scopes("scopes", scopes)
        self.metadata_url = metadata_url
        dpop = dpop or DPoP()
        self.covers = covers
        _CHECKS[self] = _Checks(
            Verifier(
                taken, audiences, check=check, leeway=leeway, covers=covers, sees_only_allowed=hides, clock=time.time
            ),
            Proofs(dpop),
        )
        self._document = msgspec.json.encode(
            _MetadataDocument(
                resource=self.url,
                authorization_servers=[issuer.url for issuer in taken],
                bearer_methods_supported=["header"],
                scopes_supported=list(_check_scopes("scopes_supported", scopes_supported or scopes)) or None,
                resource_name=name,
                resource_documentation=documentation,
                dpop_signing_alg_values_supported=list(dpop.algorithms),
                dpop_bound_access_tokens_required=dpop.required,
            )
        )

    def __repr__(self) -> str:
        return f"ResourceServer(url={self.url!r})"

    @property
    def metadata(self) -> bytes:
        """The protected resource metadata (RFC 9728) as JSON, for serving it elsewhere as well."""
        return self._document

    async def close(self) -> None:
        """Stop asking issuers."""
        await _CHECKS[self].verifier.close()


class Entrance:
    """The authorization of one endpoint: a ``Gate``. ``path``: of the endpoint in this process."""

    def __init__(self, auth: ResourceServer, path: str) -> None:
        self._place = EndpointPlace(auth.url, path, auth.metadata_url)
        self._documents = dict.fromkeys(self._place.paths, auth.metadata)
        self._verifier, self._proofs = _CHECKS[auth]
        self._scopes = auth.scopes
        self._warned: float | None = None
        self._wants_token = Denied(_UNAUTHORIZED, (self._header(),))

    def documents(self) -> Mapping[str, bytes]:
        """Return the documents that need no token, by path."""
        return self._documents

    def challenge(self, scopes: Collection[str]) -> tuple[HeaderPair, ...]:
        """Build the challenge for a token without these scopes; it names all that are required."""
        required = list_scopes({*scopes, *self._scopes})
        return (self._header(None, required, error="insufficient_scope", error_description="The token lacks a scope"),)

    def known(self, method: str, path: str, headers: Headers) -> Caller | None:
        """Return the caller if the token is in the cache and needs no proof, otherwise ``None``."""
        sent = headers.get(b"authorization")
        if sent is None or not sent.startswith(b"Bearer ") or self._proofs.options.required or b"dpop" in headers:
            return None
        found = self._verifier.known(sent[7:])
        if found is None or found.thumbprint is not None or (self._scopes and not found.caller.has(self._scopes)):
            return None
        return found.caller

    async def admit(self, method: str, path: str, headers: Headers) -> Admitted | Denied:
        """Return the caller of a request, or why it is refused."""
        # "Access tokens MUST NOT be included in the URI query string": the query is ignored.
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        scheme, token = scheme.lower(), token.strip(b" ")
        if scheme not in (b"bearer", b"dpop"):
            return self._wants_token
        verified: Verified | None = None
        try:
            verified = await self._verifier.verify(token)
            nonces = self._check_binding(scheme, verified, token, method, path, headers)
        except (Invalid, IssuerUnavailable) as error:
            return self._build_denial(error, verified if scheme == b"dpop" else None)
        if not verified.caller.has(self._scopes):
            return Denied(HttpRefusal(403, InsufficientScope(scopes=self._scopes)), self.challenge(()))
        return Admitted(verified.caller, tuple((b"dpop-nonce", nonce.encode()) for nonce in nonces))

    def _check_binding(
        self, scheme: bytes, verified: Verified, token: bytes, method: str, path: str, headers: Headers
    ) -> tuple[str, ...]:
        """Check a token's scheme, and its proof if it is bound to a key; return a new nonce, or raise ``Invalid``."""
        if verified.thumbprint is None:
            # RFC 9449, section 7.1: a token that is bound to no key must not be sent with the scheme
            # DPoP.
            if scheme == b"dpop" or self._proofs.options.required:
                raise Invalid("the token is not bound to a key")
            return ()
        proof = headers.get(b"dpop")
        if scheme != b"dpop" or proof is None:
            # Section 7.2: a bound token that is sent as a bearer token may be stolen.
            raise Invalid("the token is bound to a key, and comes without a proof")
        address = self._place.address(path)
        return self._proofs.check(proof, token=token, method=method, url=address, thumbprint=verified.thumbprint)

    # --- answers ------------------------------------------------------------------------------------------------

    def _build_denial(self, error: Invalid | IssuerUnavailable, verified: Verified | None) -> Denied:
        """Build the response for a refused token, or for the refused proof of the token ``verified``."""
        if isinstance(error, NonceWanted):
            return self._dpop_refused("use_dpop_nonce", "the proof needs a nonce", self._proofs.nonce())
        if isinstance(error, IssuerUnavailable | TooMany):
            self._warn(error)
            return _UNAVAILABLE
        log.info("a request was refused: %s", error)
        if verified is None:
            told = self._header(error="invalid_token", error_description=_describe_refusal(str(error)))
            return Denied(_UNAUTHORIZED, (told,))
        return self._dpop_refused("invalid_dpop_proof" if verified.thumbprint else "invalid_token", str(error))

    def _warn(self, error: Exception) -> None:
        """Log that tokens cannot be checked: as a warning at most once a minute, otherwise as a debug message."""
        now = time.monotonic()
        is_new = self._warned is None or now - self._warned >= 60
        if is_new:
            self._warned = now
        log.log(logging.WARNING if is_new else logging.DEBUG, "a token cannot be checked now: %s", error)

    def _dpop_refused(self, error: str, why: str, nonce: str | None = None) -> Denied:
        header = self._header("DPoP", None, error=error, error_description=_describe_refusal(why))
        return Denied(_UNAUTHORIZED, (header, *(((b"dpop-nonce", nonce.encode()),) if nonce is not None else ())))

    def _header(self, scheme: str | None = None, scopes: str | None = None, **parameters: str) -> HeaderPair:
        """Build a challenge: its scheme (by default the one that is required), scopes and where the metadata is."""
        scheme = scheme or ("DPoP" if self._proofs.options.required else "Bearer")
        given: dict[str, str | None] = {
            "resource_metadata": self._place.metadata_url,
            "scope": list_scopes(self._scopes) if scopes is None else scopes,
            "algs": " ".join(self._proofs.options.algorithms) if scheme == "DPoP" else None,
            **parameters,
        }
        return b"www-authenticate", build_challenge(scheme, given)


_TOLD = {
    "it has expired": "The access token has expired",
    "it is for another audience": "The access token is for another resource",
}
"""The reasons for a refusal that a client is told, because it can act on them."""


def _describe_refusal(why: str) -> str:
    if why.startswith("the "):
        # The client made the proof itself, so it may be told everything.
        return f"T{why[1:]}"
    return _TOLD.get(why, "The access token is not valid")


def _choose_url(given: str | None, audiences: Collection[str]) -> str:
    if given is None:
        addresses = sorted(each for each in audiences if each.startswith(("https://", "http://")))
        if len(addresses) != 1:
            raise ConfigError("ResourceServer(url=) is the address of the server, as clients have it")
        given = addresses[0]
    resource_address(given)
    return given


def _check_scopes(name: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ConfigError(f"ResourceServer({name}=) is a list, as in {name}=[{given!r}]")
    if "offline_access" in given:
        # "MCP Servers SHOULD NOT include offline_access": requesting it is up to the client.
        raise ConfigError(f"ResourceServer({name}=): offline_access is no scope of a server; clients ask for it")
    return tuple(dict.fromkeys(given))


class _MetadataDocument(ResourceMetadata, frozen=True, kw_only=True, omit_defaults=True):
    """What only a server says of itself; clients do not read it."""

    bearer_methods_supported: Sequence[str]
    resource_name: str | None = None
    resource_documentation: str | None = None
    dpop_signing_alg_values_supported: Sequence[str]


class EndpointPlace:
    """The location of an endpoint, for clients and in this process.

    ``url``: the address for clients; ``path``: the path in this process, which may be a part of that, since a mount or
    a proxy removes the rest. ``metadata_url``: the location of the document for clients, if it is served elsewhere.
    """

    def __init__(self, url: str, path: str, metadata_url: str | None = None) -> None:
        parts = resource_address(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._path = path.rstrip("/")
        outer = parts.path.rstrip("/")
        self._prefix = outer[: len(outer) - len(self._path)] if outer.endswith(self._path) else None
        self._url = url
        # Below the mount it always reaches this process; at the root of the host only if nothing else is
        # mounted there.
        self.metadata_url = metadata_url or (
            f"{self._origin}{self._prefix}{PROTECTED_RESOURCE}{self._path}"
            if self._prefix
            else f"{self._origin}{PROTECTED_RESOURCE}{outer}"
        )
        self.paths = frozenset(
            {PROTECTED_RESOURCE, f"{PROTECTED_RESOURCE}{self._path}", f"{PROTECTED_RESOURCE}{outer}"}
        )
        """Request paths that return the document: "at the path of the server's MCP endpoint" or "at the root"
        (2026-07-28 basic/authorization/authorization-server-discovery)."""

    def address(self, path: str) -> str:
        """Return the address for clients of a path in this process."""
        return self._url if path == self._path else f"{self._origin}{self._prefix or ''}{path}"


def resource_address(url: str) -> SplitResult:
    """Parse the address of a server that requires tokens, as ``check_address`` does; it has no query or fragment."""
    parts = check_address(url, "ResourceServer(url=)")
    if parts.fragment or parts.query:
        raise ConfigError(f"ResourceServer(url=): {url!r} has a query or a fragment; leave it out")
    return parts


def build_challenge(scheme: str, parameters: Mapping[str, str | None]) -> bytes:
    """Build a ``WWW-Authenticate`` header (RFC 9110, section 11.6.1). Parameters that are ``None`` are left out."""
    given = ", ".join(f'{name}="{_quote_value(value)}"' for name, value in parameters.items() if value)
    return f"{scheme} {given}".rstrip().encode("ascii")


def _quote_value(value: str) -> str:
    plain = "".join(sign for sign in value if " " <= sign <= "~")
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def list_scopes(scopes: Collection[str]) -> str:
    """Join scopes to one text, always in the same order."""
    return " ".join(sorted(set(scopes)))
