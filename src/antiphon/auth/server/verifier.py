"""Verifies tokens: by signature, by introspection, or by the application's function.

Chooses between the three, and caches results. ``resource_server`` decides whether a result suffices for a request.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import structs

from antiphon.auth.server.access_token import (
    MAX_TOKEN,
    Claims,
    Header,
    Invalid,
    Standard,
    check_claims,
    has_signature,
    has_type,
    principal_of,
    read_claims,
    read_header,
    scopes_of,
    split,
    thumbprint_of,
)
from antiphon.auth.server.documents import Unavailable
from antiphon.auth.server.introspection import Introspector
from antiphon.auth.server.issuer import Issuer
from antiphon.auth.server.key_set import KeySet
from antiphon.auth.server.remembered import Remembered, Verified
from antiphon.protocol.caller import Caller, Covers

__all__ = ["CheckAccess", "Verifier"]

log = logging.getLogger("antiphon.auth")

CheckAccess = Callable[[str], Awaitable[Caller | str] | Caller | str]
"""Takes an access token and returns its owner: a ``Caller``, or a principal without scopes; raises for any other.

``OSError``, except ``PermissionError``, means that it cannot be verified now (503); any other exception or result,
including ``None``, ``False``, ``0`` and ``""``, refuses the request (401).
"""


class Verifier:
    """Verifies the tokens of some issuers. ``clock``: seconds since 1970."""

    def __init__(
        self,
        issuers: Sequence[Issuer],
        audiences: frozenset[str],
        *,
        check: CheckAccess | None,
        leeway: float,
        covers: Covers | None,
        sees_only_allowed: bool,
        clock: Callable[[], float],
    ) -> None:
        self._audiences = audiences
        self._check = check
        self._leeway = leeway
        self._covers = covers
        self._sees_only_allowed = sees_only_allowed
        self._clock = clock
        self._issuers: Mapping[str, Issuer] = {name: issuer for issuer in issuers for name in issuer.names}
        self._keys = {issuer.url: KeySet(issuer) for issuer in issuers if issuer.introspection is None}
        asked = [issuer for issuer in issuers if issuer.introspection is not None]
        self._asked = asked[0] if asked else None
        self._introspectors = {each.url: Introspector(each, each.introspection) for each in asked if each.introspection}
        self._remembered = Remembered()
        self._questions: dict[bytes, asyncio.Task[Verified]] = {}
        self._warned = False

    def known(self, token: bytes) -> Verified | None:
        """Return the cached result for a token, if any."""
        return self._remembered.get(Remembered.mark(token), self._clock())

    async def verify(self, token: bytes) -> Verified:
        """Verify a token.

        Raises:
            Invalid: it is not valid, or not for this server.
            Unavailable: it cannot be verified now.
        """
        if not token or len(token) > MAX_TOKEN:
            raise Invalid("it is empty or too long")
        if not token.isascii() or not token.decode("ascii").isprintable() or b" " in token:
            raise Invalid("it has characters that no token may have")
        if self._check is not None:
            return await self._by_own(self._check, token)
        mark = Remembered.mark(token)
        found = self._remembered.get(mark, self._clock())
        return found if found is not None else await self._new(mark, token)

    async def close(self) -> None:
        """Stop asking issuers."""
        for question in list(self._questions.values()):
            question.cancel()
        for keys in self._keys.values():
            await keys.close()

    async def _new(self, mark: bytes, token: bytes) -> Verified:
        parts = split(token)
        if parts is not None:
            header, (claims, raw) = read_header(parts[0]), read_claims(parts[1])
            issuer = self._issuers.get(claims.iss)
            if issuer is None:
                # Introspection is not tried either: it would disclose the token to an issuer that did
                # not issue it.
                raise Invalid("it is from another issuer")
            if issuer.introspection is None:
                keys = await self._check_signature(issuer, header, token)
                verified = self._verified(issuer, claims, raw, claims.exp)
                verified = structs.replace(verified, keys=keys, epoch=keys.epoch)
                self._remembered.put(mark, verified)
                return verified
        if self._asked is None:
            raise Invalid("it is no signed token")
        return await self._answer(self._asked, mark, token)

    async def _check_signature(self, issuer: Issuer, header: Header, token: bytes) -> KeySet:
        keys = self._keys[issuer.url]
        if header.alg not in issuer.algorithms or not has_type(header, issuer.types):
            raise Invalid("its header has another algorithm or type")
        key = await keys.find(header.kid, header.alg)
        if key is None or not has_signature(token, key, header.alg):
            raise Invalid("it is not signed with a key of its issuer")
        return keys

    async def _answer(self, issuer: Issuer, mark: bytes, token: bytes) -> Verified:
        """Ask about a token once for all concurrent requests with it."""
        question, loop = self._questions.get(mark), asyncio.get_running_loop()
        if question is None or question.get_loop() is not loop:
            question = self._questions[mark] = loop.create_task(self._ask(issuer, mark, token))
            question.add_done_callback(lambda done: self._answered(mark, done))
        return await asyncio.shield(question)

    def _answered(self, mark: bytes, question: asyncio.Task[Verified]) -> None:
        if self._questions.get(mark) is question:
            del self._questions[mark]
        if not question.cancelled():
            # All callers may have been cancelled: mark the exception as retrieved.
            question.exception()

    async def _ask(self, issuer: Issuer, mark: bytes, token: bytes) -> Verified:
        assert issuer.introspection is not None
        now = self._clock()
        claims, raw = await self._introspectors[issuer.url].claims(token, now)
        lasts = issuer.introspection.remembered_for
        verified = self._verified(issuer, claims, raw, min(claims.exp, now + lasts))
        if lasts > 0:
            self._remembered.put(mark, verified)
        return verified

    def _verified(self, issuer: Issuer, claims: Standard, raw: bytes, until: float) -> Verified:
        check_claims(claims, audiences=self._audiences, issuers=issuer.names, now=self._clock(), leeway=self._leeway)
        caller = Caller(
            principal_of(claims.iss, claims),
            scopes_of(raw, issuer.scope_claims),
            Claims(raw),
            claims.exp,
            self._covers,
            self._sees_only_allowed,
        )
        return Verified(caller, until, thumbprint_of(claims), len(raw))

    async def _by_own(self, check: CheckAccess, token: bytes) -> Verified:
        try:
            found = check(token.decode("ascii"))
            who: object = await found if inspect.isawaitable(found) else found
        except Exception as error:
            # The message is the application's, and may contain the token.
            log.info("check= refused a token: %s", type(error).__name__)
            if isinstance(error, OSError) and not isinstance(error, PermissionError):
                raise Unavailable(f"check= failed: {type(error).__name__}") from None
            raise Invalid("check= has refused it") from None
        if isinstance(who, str) and who:
            who = Caller(who)
        if not isinstance(who, Caller) or not who.principal:
            self._warn_once(who)
            raise Invalid("check= has returned no principal")
        caller = structs.replace(
            who, scopes=frozenset(who.scopes), covers=self._covers, sees_only_allowed=self._sees_only_allowed
        )
        return Verified(caller, 0.0)

    def _warn_once(self, who: object) -> None:
        if not self._warned:
            self._warned = True
            log.error(
                "check= returned %s, which is no principal: return a Caller or its name, or raise; nobody is let in",
                type(who).__name__,
            )
