"""The seam between a transport and whoever checks tokens: what is asked of each request before it is read.

``auth`` and the hook of an application's own (``check_token=``) are behind it; a transport knows neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct

from antiphon.protocol.caller import Caller
from antiphon.protocol.http.rules import Headers, Refusal

__all__ = ["Admitted", "Denied", "Gate", "HeaderPair"]

HeaderPair = tuple[bytes, bytes]


class Admitted(Struct, frozen=True):
    """Who a request is from, and the headers that its response has to carry, mostly none."""

    caller: Caller
    headers: tuple[HeaderPair, ...] = ()


class Denied(Struct, frozen=True):
    """Why a request is not let in: the error, and the headers that go with it."""

    refusal: Refusal
    headers: tuple[HeaderPair, ...] = ()


class Gate(Protocol):
    """What lets requests in, at one endpoint. ``path`` is always the one below a mount."""

    def known(self, method: str, path: str, headers: Headers) -> Caller | None:
        """Say who sends a request, where that can be said at once; ``None``: ``admit`` has to be asked."""
        ...

    async def admit(self, method: str, path: str, headers: Headers) -> Admitted | Denied:
        """Say who sends a request, or why it is not let in."""
        ...

    def challenge(self, scopes: Collection[str]) -> tuple[HeaderPair, ...]:
        """Say in headers that a token does not allow what requires these scopes (403)."""
        ...

    def documents(self) -> Mapping[str, bytes]:
        """Return what may be read without a token, JSON by path: where tokens come from."""
        ...
