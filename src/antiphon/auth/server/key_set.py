"""The public keys of one issuer: fetched on first use, refreshed, and kept while the issuer is unreachable.

Decides when keys are fetched. ``access_token`` verifies signatures.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from antiphon.auth.metadata import issuer_places, read_members
from antiphon.auth.server import issuer as issuers
from antiphon.auth.server.issuer import Issuer, IssuerUnavailable
from antiphon.errors import ConfigError
from antiphon.machine.asyncio_tasks import end_tasks

log = logging.getLogger("antiphon.auth")

MAX_KEYS = 100
"""Keys of one issuer at most. Providers have two to ten."""

KEYS_FOR = 600.0
"""Seconds after which keys are fetched again, in the background."""

KEPT_FOR = 86_400.0
"""Seconds for which keys stay valid while their issuer is unreachable, so that an outage of a day has no effect."""

UNKNOWN_PAUSE = 60.0
"""Seconds between two fetches for unknown key ids, so that made-up ones cause at most one fetch a minute."""

RENEW_TIMEOUT = 15.0
"""Seconds for all that is fetched to renew keys: a request may be waiting for them."""

FAILURE_PAUSE = 5.0
"""Seconds after a failed fetch before the next."""

_RSA_BITS = range(2048, 8193)
"""Accepted sizes of RSA keys in bits: smaller ones are insecure, larger ones slow to verify with."""

_MOST_EXPONENT = 8
"""Bytes of an RSA key's public exponent at most; usual are 3. One as long as the key takes 300 times as long."""

_FAMILIES: Mapping[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA", "Ed25519"),
}
"""The algorithms of a key by its type and curve. The key decides, not the token."""

Fetch = Callable[[str], Awaitable[bytes]]


class PublicKey(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One public key, and the algorithms it is used for."""

    id: object
    words: Mapping[str, Any]
    """The JWK as the issuer published it."""
    key: Any
    """The key as joserfc's object."""
    algorithms: tuple[str, ...]

    @classmethod
    def read(cls, words: Mapping[str, Any]) -> PublicKey | None:
        """Parse a JSON Web Key; ``None`` for one that must not be used to verify tokens."""
        family = _FAMILIES.get((str(words.get("kty")), str(words.get("crv")) if words.get("kty") != "RSA" else None))
        # With "d" it is a private key that was published, so anybody could sign with it.
        if family is None or words.get("use") not in (None, "sig") or "d" in words:
            return None
        if isinstance(named := words.get("alg"), str):
            family = (named,) if named in family else ()
        from joserfc.errors import JoseError
        from joserfc.jwk import import_key

        try:
            if words["kty"] == "RSA":
                modulus = int.from_bytes(base64.urlsafe_b64decode(words["n"] + "=="))
                exponent = base64.urlsafe_b64decode(words["e"] + "==")
                if modulus.bit_length() not in _RSA_BITS or len(exponent) > _MOST_EXPONENT:
                    return None
            key = import_key({name: words[name] for name in ("kty", "crv", "x", "y", "n", "e") if name in words})
        except (JoseError, ValueError, TypeError, KeyError):
            return None
        return cls(id=words.get("kid"), words=words, key=key, algorithms=family) if family else None


class KeySet:
    """The keys of one issuer. ``fetch`` gets a document; ``clock`` returns seconds."""

    def __init__(self, issuer: Issuer, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._fetch = fetch or partial(issuers.fetch_document, issuer=None if issuer.jwks_uri else issuer.url)
        self._clock = clock
        self._keys: tuple[PublicKey, ...] = ()
        self._fetched: float | None = None
        """When keys were fetched last."""
        self._tried: float | None = None
        """When a fetch was started last."""
        self._failed = ""
        """Why the last fetch failed; empty if it succeeded."""
        self._task: asyncio.Task[None] | None = None
        self.epoch = 0
        """Incremented when a key is removed, which invalidates cached tokens of these keys."""
        if issuer.jwks is not None:
            self._keys = read_keys(msgspec.json.encode(issuer.jwks))
            self._fetched = float("inf")
            if not self._keys:
                raise ConfigError(f"Issuer({issuer.url!r}): there is no key in jwks= that tokens may be signed with")

    async def find(self, id: object, algorithm: str) -> PublicKey | None:
        """Return the key with an id for an algorithm, ``None`` if there is none.

        A token without a key id must be signed with the only key for its algorithm. Raises ``IssuerUnavailable`` if
        there are no keys, and none can be fetched now.
        """
        now = self._clock()
        if self._fetched is None or (self._failed and now - self._fetched > KEPT_FOR):
            await self._refresh(now)
        elif now - self._fetched > KEYS_FOR:
            self._begin(now)
        found = self._look_up(id, algorithm)
        may_ask_again = self._issuer.jwks is None and (self._tried is None or now - self._tried >= UNKNOWN_PAUSE)
        if found is None and may_ask_again:
            # The issuer may have rotated its keys just now.
            await self._refresh(now)
            found = self._look_up(id, algorithm)
        return found

    def _look_up(self, id: object, algorithm: str) -> PublicKey | None:
        fitting = [key for key in self._keys if algorithm in key.algorithms and (id is None or key.id == id)]
        return fitting[0] if fitting and (id is not None or len(fitting) == 1) else None

    async def _refresh(self, now: float) -> None:
        """Fetch keys, or wait for a fetch in progress; after a failure the old keys are kept."""
        task = self._begin(now)
        if task is not None:
            # Not awaited directly: when the server closes, the fetch is cancelled, which must not cancel the requests.
            await asyncio.wait([task])
        if self._fetched is None or (self._failed and now - self._fetched > KEPT_FOR):
            raise IssuerUnavailable(self._failed or f"the keys of {self._issuer.url} cannot be fetched now")

    def _begin(self, now: float) -> asyncio.Task[None] | None:
        """Start one fetch for all waiting callers, unless one has just failed."""
        loop = asyncio.get_running_loop()
        task = self._task
        if task is not None and not task.done() and task.get_loop() is loop:
            return task
        if self._failed and self._tried is not None and now - self._tried < FAILURE_PAUSE:
            return None
        self._tried = now
        self._task = loop.create_task(self._renew())
        return self._task

    async def _renew(self) -> None:
        try:
            async with asyncio.timeout(RENEW_TIMEOUT):
                url = self._issuer.jwks_uri or (await metadata_of(self._issuer, self._fetch)).jwks_uri
                if url is None:
                    raise IssuerUnavailable(f"the metadata of {self._issuer.url} names no jwks_uri")
                keys = read_keys(await self._fetch(url))
            if not keys:
                raise IssuerUnavailable(f"{url} has no key that tokens may be signed with")
        except Exception as error:
            # Whatever it is: the waiting callers must be told, and a later attempt must be possible.
            self._failed = str(error) if isinstance(error, IssuerUnavailable) else type(error).__name__
            log.warning("the keys of %s cannot be renewed: %s", self._issuer.url, self._failed)
            return
        left = {msgspec.json.encode(key.words, order="sorted") for key in keys}
        if any(msgspec.json.encode(key.words, order="sorted") not in left for key in self._keys):
            self.epoch += 1
        self._keys, self._fetched, self._failed = keys, self._clock(), ""

    async def close(self) -> None:
        """Stop fetching."""
        task, self._task = self._task, None
        await end_tasks(task)


class _Listed(msgspec.Struct):
    keys: list[dict[str, Any]]


def read_keys(document: bytes) -> tuple[PublicKey, ...]:
    """Parse a JSON Web Key Set without the keys that cannot be used; raise ``IssuerUnavailable`` if it is malformed."""
    try:
        listed = msgspec.convert(read_members(document), _Listed).keys
    except msgspec.DecodeError:
        raise IssuerUnavailable("a list of keys cannot be read") from None
    if len(listed) > MAX_KEYS:
        raise IssuerUnavailable(f"a list of keys has more than {MAX_KEYS}")
    return tuple(key for key in [PublicKey.read(words) for words in listed] if key is not None)


async def metadata_of(issuer: Issuer, fetch: Fetch) -> issuers.Metadata:
    """Fetch the metadata of an issuer from the first of its locations that has it, or raise ``IssuerUnavailable``."""
    said: list[str] = []
    for url in issuer_places(issuer.url):
        try:
            issuers.check_address(url, "issuer")
            return issuers.read_metadata(await fetch(url), issuer.url)
        except IssuerUnavailable as error:
            said.append(str(error))
    raise IssuerUnavailable("; ".join(said))
