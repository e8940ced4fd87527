"""Verifies tokens: by signature, by introspection (RFC 7662), or by the application's function.

Chooses between the three, and caches results, since each request of a client brings the same token. The cache is
limited, and contains only digests of tokens. Issuers are asked about opaque tokens, and their answers are kept briefly.
``resource_server`` decides which tokens are asked about, and whether a result suffices for a request.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import partial
from urllib.parse import quote_plus

import msgspec
from msgspec import Struct, structs

from antiphon.auth.metadata import read_members
from antiphon.auth.server import access_token
from antiphon.auth.server.issuer import FETCH_TIMEOUT, Introspection, Issuer, IssuerUnavailable, fetch_document
from antiphon.auth.server.key_set import KeySet, metadata_of
from antiphon.machine.asyncio_tasks import ignore_error
from antiphon.protocol.caller import Caller, Covers

log = logging.getLogger("antiphon.auth")

CheckAccess = Callable[[str], Awaitable[Caller | str] | Caller | str]
"""Takes an access token and returns its owner: a ``Caller``, or a principal without scopes; raises for any other.

``OSError``, except ``PermissionError``, means that it cannot be verified now (503); any other exception or result,
including ``None``, ``False``, ``0`` and ``""``, refuses the request (401).
"""

MAX_QUESTIONS = 100
"""Introspections in progress at most, so that made-up tokens cannot cause more; further requests are told to retry."""

MAX_TOKENS = 10_000
"""Tokens in the cache at most; the oldest is dropped, and verified again if it returns (0.1 ms)."""

MAX_BYTES = 32 * 1024 * 1024
"""Bytes of all their claims together."""


@dataclass(eq=False)
class Verifier:
    """Verifies the tokens of some issuers. ``clock``: seconds since 1970."""

    issuers: InitVar[Sequence[Issuer]]
    audiences: frozenset[str]
    _: KW_ONLY
    check: CheckAccess | None = None
    leeway: float
    covers: Covers | None = None
    sees_only_allowed: bool = False
    clock: Callable[[], float]

    def __post_init__(self, issuers: Sequence[Issuer]) -> None:
        self._issuers: Mapping[str, Issuer] = {name: issuer for issuer in issuers for name in issuer.names}
        self._keys = {issuer.url: KeySet(issuer) for issuer in issuers if issuer.introspection is None}
        asked = (Introspector(each, each.introspection) for each in issuers if each.introspection is not None)
        self._introspector = next(asked, None)
        self._remembered = Remembered()
        self._questions: dict[bytes, asyncio.Task[Verified]] = {}
        self._warned = False

    def known(self, token: bytes) -> Verified | None:
        """Return the cached result for a token, if any."""
        return self._remembered.get(Remembered.mark(token), self.clock())

    async def verify(self, token: bytes) -> Verified:
        """Verify a token; raise ``Invalid``, or ``IssuerUnavailable`` if it cannot be verified now."""
        if not token or len(token) > access_token.MAX_TOKEN:
            raise access_token.Invalid("it is empty or too long")
        if not token.isascii() or not token.decode("ascii").isprintable() or b" " in token:
            raise access_token.Invalid("it has characters that no token may have")
        if self.check is not None:
            return await self._by_own(self.check, token)
        mark = Remembered.mark(token)
        found = self._remembered.get(mark, self.clock())
        return found if found is not None else await self._new(mark, token)

    async def close(self) -> None:
        """Stop asking issuers."""
        for question in list(self._questions.values()):
            question.cancel()
        for keys in self._keys.values():
            await keys.close()

    async def _new(self, mark: bytes, token: bytes) -> Verified:
        parts = access_token.split_token(token)
        if parts is not None:
            header, (claims, raw) = access_token.read_header(parts[0]), access_token.read_claims(parts[1])
            issuer = self._issuers.get(claims.iss)
            if issuer is None:
                # Introspection is not tried either: it would disclose the token to an issuer that did
                # not issue it.
                raise access_token.Invalid("it is from another issuer")
            if issuer.introspection is None:
                keys = await self._check_signature(issuer, header, token)
                verified = self._verify_token(issuer, claims, raw, claims.exp)
                verified = structs.replace(verified, keys=keys, epoch=keys.epoch)
                self._remembered.put(mark, verified)
                return verified
        if self._introspector is None:
            raise access_token.Invalid("it is no signed token")
        return await self._answer(self._introspector, mark, token)

    async def _check_signature(self, issuer: Issuer, header: access_token.Header, token: bytes) -> KeySet:
        keys = self._keys[issuer.url]
        # Media types are case-insensitive.
        said, types = header.typ.lower().removeprefix("application/"), {each.lower() for each in issuer.types}
        if header.alg not in issuer.algorithms or said not in types:
            raise access_token.Invalid("its header has another algorithm or type")
        key = await keys.find(header.kid, header.alg)
        if key is None or not access_token.has_signature(token, key, header.alg):
            raise access_token.Invalid("it is not signed with a key of its issuer")
        return keys

    async def _answer(self, asked: Introspector, mark: bytes, token: bytes) -> Verified:
        """Ask about a token once for all concurrent requests with it."""
        question, loop = self._questions.get(mark), asyncio.get_running_loop()
        if question is None or question.get_loop() is not loop:
            question = self._questions[mark] = loop.create_task(self._ask(asked, mark, token))
            question.add_done_callback(lambda done: self._forget_question(mark, done))
            question.add_done_callback(ignore_error)
        # Not awaited directly: when the server closes, the question is cancelled, which must not cancel the requests.
        await asyncio.wait([question])
        if question.cancelled():
            raise IssuerUnavailable(f"{asked.issuer.url} is not asked any more: the server is closing")
        return question.result()

    def _forget_question(self, mark: bytes, question: asyncio.Task[Verified]) -> None:
        if self._questions.get(mark) is question:
            del self._questions[mark]

    async def _ask(self, asked: Introspector, mark: bytes, token: bytes) -> Verified:
        now, lasts = self.clock(), asked.options.remembered_for
        claims, raw = await asked.claims(token, now)
        verified = self._verify_token(asked.issuer, claims, raw, min(claims.exp, now + lasts))
        if lasts > 0:
            self._remembered.put(mark, verified)
        return verified

    def _verify_token(self, issuer: Issuer, claims: access_token.Standard, raw: bytes, until: float) -> Verified:
        access_token.check_claims(
            claims, audiences=self.audiences, issuers=issuer.names, now=self.clock(), leeway=self.leeway
        )
        caller = Caller(
            access_token.principal_of(claims.iss, claims),
            access_token.scopes_of(raw, issuer.scope_claims),
            access_token.Claims(raw),
            claims.exp,
            self.covers,
            self.sees_only_allowed,
        )
        return Verified(caller, until, access_token.thumbprint_of(claims), len(raw))

    async def _by_own(self, check: CheckAccess, token: bytes) -> Verified:
        try:
            found = check(token.decode("ascii"))
            who: object = await found if inspect.isawaitable(found) else found
        except Exception as error:
            # The message is the application's, and may contain the token.
            log.info("check= refused a token: %s", type(error).__name__)
            if isinstance(error, OSError) and not isinstance(error, PermissionError):
                raise IssuerUnavailable(f"check= failed: {type(error).__name__}") from None
            raise access_token.Invalid("check= has refused it") from None
        if isinstance(who, str) and who:
            who = Caller(who)
        if not isinstance(who, Caller) or not who.principal:
            self._warn_once(who)
            raise access_token.Invalid("check= has returned no principal")
        caller = structs.replace(
            who, scopes=frozenset(who.scopes), covers=self.covers, sees_only_allowed=self.sees_only_allowed
        )
        return Verified(caller, 0.0)

    def _warn_once(self, who: object) -> None:
        if not self._warned:
            self._warned = True
            log.error(
                "check= returned %s, which is no principal: return a Caller or its name, or raise; nobody is let in",
                type(who).__name__,
            )


class Introspector:
    """Asks one issuer."""

    def __init__(self, issuer: Issuer, options: Introspection) -> None:
        self.issuer = issuer
        self.options = options
        self._fetch = partial(fetch_document, issuer=None if options.url else issuer.url)
        self._url = options.url
        self._open = 0

    async def claims(self, token: bytes, now: float) -> tuple[access_token.Standard, bytes]:
        """Ask about a token; return its validated claims, and all as JSON. Raises as ``Verifier.verify``."""
        if self._open >= MAX_QUESTIONS:
            raise IssuerUnavailable(f"{self.issuer.url} is asked about {MAX_QUESTIONS} tokens already")
        form = {"token": token.decode("ascii"), "token_type_hint": "access_token"}
        self._open += 1
        try:
            answer = await self._fetch(await self._where(), form, self._me)
        finally:
            self._open -= 1
        return self._read_answer(answer, now)

    async def _where(self) -> str:
        if self._url is None:
            self._url = (await metadata_of(self.issuer, self._fetch)).introspection_endpoint
            if self._url is None:
                raise IssuerUnavailable(f"the metadata of {self.issuer.url} names no introspection_endpoint")
        return self._url

    @property
    def _me(self) -> str:
        # RFC 6749, section 2.3.1: both are form-encoded before they are joined.
        pair = f"{quote_plus(self.options.client_id)}:{quote_plus(self.options.client_secret)}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    def _read_answer(self, answer: bytes, now: float) -> tuple[access_token.Standard, bytes]:
        try:
            words = read_members(answer)
            if words.get("active") is not True:
                raise access_token.Invalid("its issuer says that it is not active")
            # "exp" and "iss" may be missing (section 2.2): then the answer is valid briefly, also if it was slow, and
            # from this issuer.
            words.setdefault("exp", now + self.options.remembered_for + 2 * FETCH_TIMEOUT)
            words.setdefault("iss", self.issuer.names[0])
            raw = msgspec.json.encode(words)
            return msgspec.json.decode(raw, type=access_token.Standard), raw
        except msgspec.DecodeError:
            raise access_token.Invalid("the answer of its issuer cannot be read") from None


class Verified(Struct, frozen=True, eq=False):
    """The result of verifying a token."""

    caller: Caller
    until: float
    """When it must be verified again, in seconds since 1970."""
    thumbprint: str | None = None
    """Thumbprint of the key it is bound to, if any."""
    weight: int = 0
    """Bytes of its claims."""
    keys: KeySet | None = None
    """The key set with which its signature was verified."""
    epoch: int = 0
    """``KeySet.epoch`` at that time."""


class Remembered:
    """Verified tokens by their digests."""

    def __init__(self) -> None:
        self._tokens: dict[bytes, Verified] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._tokens)

    @staticmethod
    def mark(token: bytes) -> bytes:
        """Return the digest of a token, its key in the cache."""
        return hashlib.blake2b(token, digest_size=32).digest()

    def get(self, mark: bytes, now: float) -> Verified | None:
        """Return the result for a token, unless it has to be verified again."""
        found = self._tokens.get(mark)
        if found is None:
            return None
        if found.until > now and (found.keys is None or found.keys.epoch == found.epoch):
            return found
        self._drop(mark)
        return None

    def put(self, mark: bytes, verified: Verified) -> None:
        """Add a token; the oldest ones are dropped if necessary."""
        self._drop(mark)
        self._tokens[mark] = verified
        self._held += verified.weight
        while len(self._tokens) > MAX_TOKENS or self._held > MAX_BYTES:
            self._drop(next(iter(self._tokens)))

    def _drop(self, mark: bytes) -> None:
        found = self._tokens.pop(mark, None)
        if found is not None:
            self._held -= found.weight
