"""Token introspection (RFC 7662): asks the issuer about opaque tokens, and caches the answer briefly.

Owns the request and the validation of its response. ``resource_server`` decides which tokens are asked about.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from urllib.parse import quote_plus

import msgspec
from msgspec import Struct

from antiphon.auth.server.access_token import Invalid, Standard
from antiphon.auth.server.documents import Unavailable, fetch_document
from antiphon.auth.server.issuer import Introspection, Issuer
from antiphon.auth.server.key_set import metadata_of

__all__ = ["Introspector"]

log = logging.getLogger("antiphon.auth")

MAX_QUESTIONS = 100
"""Requests in progress at most, so that made-up tokens cannot cause more; further requests are told to retry."""

Ask = Callable[[str, Mapping[str, str], str], Awaitable[bytes]]


class _Answer(Struct):
    active: bool = False
    exp: float | None = None
    iss: str | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class Introspector:
    """Asks one issuer. ``ask`` posts a form; ``fetch`` gets a document."""

    def __init__(
        self,
        issuer: Issuer,
        options: Introspection,
        *,
        ask: Ask | None = None,
        fetch: Callable[[str], Awaitable[bytes]] | None = None,
    ) -> None:
        self._issuer = issuer
        self._options = options
        named_by = None if options.url else issuer.url
        self._ask = ask or partial(fetch_document, issuer=named_by)
        self._fetch = fetch or partial(fetch_document, issuer=named_by)
        self._url = options.url
        self._open = 0

    async def claims(self, token: bytes, now: float) -> tuple[Standard, bytes]:
        """Ask about a token; return its validated claims, and all as JSON.

        Raises:
            Invalid: the token is not active, or the response cannot be parsed.
            Unavailable: the issuer cannot be asked now.
        """
        if self._open >= MAX_QUESTIONS:
            raise Unavailable(f"{self._issuer.url} is asked about {MAX_QUESTIONS} tokens already")
        self._open += 1
        try:
            url = await self._where()
            answer = await self._ask(url, {"token": token.decode("ascii"), "token_type_hint": "access_token"}, self._me)
        finally:
            self._open -= 1
        return self._read(answer, now)

    async def _where(self) -> str:
        if self._url is None:
            self._url = (await metadata_of(self._issuer, self._fetch)).introspection_endpoint
            if self._url is None:
                raise Unavailable(f"the metadata of {self._issuer.url} names no introspection_endpoint")
        return self._url

    @property
    def _me(self) -> str:
        # RFC 6749, section 2.3.1: both are form-encoded before they are joined.
        pair = f"{quote_plus(self._options.client_id)}:{quote_plus(self._options.client_secret)}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    def _read(self, answer: bytes, now: float) -> tuple[Standard, bytes]:
        try:
            said = _decode(answer)
            if not said.active:
                raise Invalid("its issuer says that it is not active")
            words = msgspec.json.decode(answer, type=dict[str, object])
            # "exp" and "iss" may be missing (section 2.2): then the answer is valid briefly, and from
            # this issuer.
            words.setdefault("exp", now + self._options.remembered_for)
            words.setdefault("iss", self._issuer.names[0])
            raw = msgspec.json.encode(words)
            return msgspec.json.decode(raw, type=Standard), raw
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Invalid("the answer of its issuer cannot be read") from None
