"""``Issuer``: an authorization server whose tokens are accepted, and its metadata.

Makes no requests: ``key_set`` and ``verifier`` do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from antiphon.auth.metadata import read_members
from antiphon.errors import AntiphonError, ConfigError, Unauthorized
from antiphon.machine.loopback import is_loopback

FETCH_TIMEOUT = 10.0
"""Seconds for one document, including the DNS look-up."""


class IssuerUnavailable(AntiphonError):
    """An issuer cannot be asked now; the message says why, and contains no token."""


def check_address(url: str, what: str) -> SplitResult:
    """Parse an address that tokens or keys depend on; raise ``ConfigError`` unless it is https, or of this machine."""
    try:
        read = urlsplit(url)
        # urlsplit drops line ends, such as that of a file which an address was read from.
        host, _ = (read.hostname if url.isprintable() and " " not in url else None), read.port
    except ValueError:
        raise ConfigError(f"{what}: {url!r} is no address") from None
    is_usable = read.scheme == "https" or (read.scheme == "http" and host is not None and is_loopback(host))
    if is_usable and host and "@" not in read.netloc:
        return read
    # 2026-07-28 basic/authorization: "All authorization server endpoints MUST be served over HTTPS."
    raise ConfigError(f"{what}: {url!r} must be an https address; http only on this machine")


async def fetch_document(
    url: str, form: Mapping[str, str] | None = None, authorization: str | None = None, *, issuer: str | None = None
) -> bytes:
    """Fetch a document, or post a form to obtain it; return its bytes.

    ``issuer``: the issuer that named the address, and may not lead us into a local network if it is public itself;
    ``None`` if the address is of this server's own settings. Raises ``IssuerUnavailable`` if there is no answer in
    time, another status than 200, or too long an answer.
    """
    # Such requests are rare (keys every ten minutes, each token once), so no connection is kept open.
    from yarl import URL

    from antiphon.auth.client.fetch import open_fetch

    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    headers |= {} if authorization is None else {"Authorization": authorization}
    named = frozenset[str]() if issuer is not None else frozenset({URL(url).host or ""})
    try:
        async with asyncio.timeout(FETCH_TIMEOUT), open_fetch(URL(issuer or url), named=named) as fetch:
            ask = fetch.request("GET", URL(url), headers) if form is None else fetch.post(URL(url), form, headers)
            answer = await ask
    except TimeoutError:
        raise IssuerUnavailable(f"{url} did not answer within {FETCH_TIMEOUT:g} s") from None
    except (Unauthorized, ConfigError) as error:
        raise IssuerUnavailable(str(error.args[0]).removeprefix("signing in failed: ")) from None
    if answer.status != 200:
        raise IssuerUnavailable(f"{url} answered with status {answer.status}")
    return answer.body


ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Supported signature algorithms. None with a shared secret, since every verifier could then sign tokens."""

TYPES = ("at+jwt", "JWT")
"""Accepted ``typ`` headers of an access token: of RFC 9068, and as Keycloak, Entra and Auth0 write it.

ID tokens have ``JWT`` as well; they are refused by their audience, which is the client and not this server.
"""


class Introspection(Struct, frozen=True, kw_only=True):
    """How to ask an issuer about a token that only the issuer can read (RFC 7662).

    Args:
        client_id: this server's client id at the issuer, for HTTP Basic.
        client_secret: the secret of ``client_id``.
        url: the introspection endpoint; by default the one in the issuer's metadata.
        remembered_for: seconds for which an answer is cached, 0 to 300; never longer than the token is valid.
    """

    client_id: str
    client_secret: str
    url: str | None = None
    remembered_for: float = 60.0

    def __repr__(self) -> str:
        return f"Introspection(client_id={self.client_id!r})"


class Issuer(Struct, frozen=True, kw_only=True):
    """An authorization server whose tokens are accepted.

    Args:
        url: the issuer identifier, exactly as in its metadata.
        token_issuers: the ``iss`` of its tokens, if that differs from ``url`` (Entra's v1 tokens).
        jwks_uri: address of its key set; by default the one in its metadata.
        jwks: the JSON Web Key Set itself, if it is not to be fetched.
        introspection: ask the issuer about its tokens instead of verifying signatures.
        algorithms: accepted signatures, of ``RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519``.
        types: accepted ``typ`` headers, case-insensitive; ``""`` accepts tokens without one.
        scope_claims: names of the claims that list scopes, each as a list or as one text with spaces.

    Raises:
        ConfigError: an argument cannot be used; the message names it and says what to do.
    """

    url: str
    token_issuers: Sequence[str] = ()
    jwks_uri: str | None = None
    jwks: Mapping[str, Any] | None = None
    introspection: Introspection | None = None
    algorithms: Sequence[str] = ALGORITHMS
    types: Sequence[str] = TYPES
    scope_claims: Sequence[str] = ("scope", "scp")

    def __post_init__(self) -> None:
        check_address(self.url, "Issuer(url=)")
        for name in ("token_issuers", "algorithms", "types", "scope_claims"):
            if isinstance(getattr(self, name), str):
                raise ConfigError(f"Issuer({name}=) is a list, as in [{getattr(self, name)!r}]")
        for algorithm in self.algorithms:
            if algorithm not in ALGORITHMS:
                raise ConfigError(f"Issuer(algorithms=): not {algorithm!r}; there are {', '.join(ALGORITHMS)}")
        if not self.algorithms:
            raise ConfigError("Issuer(algorithms=) names at least one")
        for url, what in ((self.jwks_uri, "jwks_uri"), (self.introspection and self.introspection.url, "url")):
            if url is not None:
                check_address(url, f"Issuer({what}=)")
        if self.introspection is not None and not 0 <= self.introspection.remembered_for <= 300:
            raise ConfigError("Introspection(remembered_for=) is a number of seconds from 0 to 300")
        if any(" " in iss or not iss for iss in self.token_issuers):
            raise ConfigError("Issuer(token_issuers=): an issuer is an address, without spaces")

    def __repr__(self) -> str:
        return f"Issuer(url={self.url!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The accepted ``iss`` of its tokens."""
        return tuple(self.token_issuers) or (self.url,)


def issuers_of(given: str | Issuer | Sequence[str | Issuer]) -> tuple[Issuer, ...]:
    """Return the issuers of a server's configuration; raise ``ConfigError`` if none is named, or one twice."""
    several = (given,) if isinstance(given, str | Issuer) else tuple(given)
    issuers = tuple(Issuer(url=each) if isinstance(each, str) else each for each in several)
    names = [name for issuer in issuers for name in issuer.names]
    if not issuers or len(set(names)) != len(names):
        raise ConfigError("ResourceServer(issuers=) names at least one issuer, and none twice")
    if sum(issuer.introspection is not None for issuer in issuers) > 1:
        raise ConfigError("ResourceServer(issuers=): only one can be asked about tokens (introspection=)")
    return issuers


class Metadata(Struct):
    """Metadata of an issuer, as far as a server uses it (RFC 8414, OpenID Connect Discovery)."""

    issuer: str
    jwks_uri: str | None = None
    introspection_endpoint: str | None = None


def read_metadata(document: bytes, issuer: str) -> Metadata:
    """Parse the metadata of an issuer; raise ``IssuerUnavailable`` if it is another's, or has an unsafe address."""
    try:
        found = msgspec.convert(read_members(document), Metadata)
    except msgspec.DecodeError:
        raise IssuerUnavailable(f"the metadata of {issuer} cannot be read") from None
    if found.issuer != issuer:
        # "the issuer value in the document MUST be identical to the issuer identifier used to construct the URL"
        raise IssuerUnavailable(f"the metadata of {issuer} is that of {found.issuer[:200]!r}")
    for url in (found.jwks_uri, found.introspection_endpoint):
        try:
            scheme = "https" if url is None else check_address(url, f"the metadata of {issuer}").scheme
        except ConfigError as error:
            raise IssuerUnavailable(str(error)) from None
        # TLS is needed unless the issuer is on this machine itself.
        if scheme != "https" and issuer.startswith("https:"):
            raise IssuerUnavailable(f"the metadata of {issuer} leads to this machine: {url!r}")
    return found
