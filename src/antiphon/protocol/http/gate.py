"""The interface between a transport and the check of tokens, which is called before a request is read.

``auth`` and an application's own function (``check_token=``) implement it; transports know neither.
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
    """The caller of a request, and headers for the response, usually none."""

    caller: Caller
    headers: tuple[HeaderPair, ...] = ()


class Denied(Struct, frozen=True):
    """Why a request is refused: the error, and headers for the response."""

    refusal: Refusal
    headers: tuple[HeaderPair, ...] = ()


class Gate(Protocol):
    """Authorizes the requests of one endpoint. ``path`` is always relative to the mount."""

    def known(self, method: str, path: str, headers: Headers) -> Caller | None:
        """Return the caller if that is known at once; ``None``: call ``admit``."""
        ...

    async def admit(self, method: str, path: str, headers: Headers) -> Admitted | Denied:
        """Return the caller of a request, or why it is refused."""
        ...

    def challenge(self, scopes: Collection[str]) -> tuple[HeaderPair, ...]:
        """Build the headers of a response to a token without the required scopes (403)."""
        ...

    def documents(self) -> Mapping[str, bytes]:
        """Return the JSON documents that need no token, by path, such as where to obtain tokens."""
        ...
