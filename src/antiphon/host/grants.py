"""Permissions a person gave to more than one request, and what they cover.

Owns the grants of this process, in memory. Rules written beforehand are ``policy``.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from antiphon.host.review import digest
from antiphon.wire.envelope import encode
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["Grant", "Grants"]

_MAX_GRANTS = 1000
"""A person gives a handful; the oldest go first, which only means that the person is asked again."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """One remembered permission.

    It covers a request of the same server with the same tools and system prompt, for no more tokens and of no larger
    size class than the one that was approved.
    """

    identity: str
    scope: Literal["call", "session"]
    call: str | None
    """The call it is for (``origin.call.id``); ``None`` for the whole session."""
    tools: str
    """Digest of tools and tool choice."""
    system_prompt: str
    """Digest of the system prompt."""
    max_tokens: int
    size_class: int
    """Number of times the size in bytes doubles from 4 KiB: 0 up to 4 KiB, 1 up to 8 KiB, ..."""

    @classmethod
    def give(cls, params: CreateMessageRequestParams, origin: Origin, scope: Literal["call", "session"]) -> Grant:
        """Make the grant that a person gives who approves this request for more than once."""
        return cls(
            identity=origin.identity,
            scope=scope,
            call=_call(origin) if scope == "call" else None,
            tools=_digest([params.tools, params.tool_choice]),
            system_prompt=_digest(params.system_prompt),
            max_tokens=params.max_tokens,
            size_class=_size_class(params),
        )

    def covers(self, params: CreateMessageRequestParams, origin: Origin) -> bool:
        """Tell whether the request may go without asking again."""
        wanted = Grant.give(params, origin, self.scope)
        within = wanted.max_tokens <= self.max_tokens and wanted.size_class <= self.size_class
        # Everything else must be the same: whoever adds a member to a grant narrows it.
        return within and self == msgspec.structs.replace(
            wanted, max_tokens=self.max_tokens, size_class=self.size_class
        )


class Grants:
    """The grants of one host."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {}

    def add(self, grant: Grant) -> None:
        """Remember a grant."""
        self._grants[digest(grant)] = grant
        while len(self._grants) > _MAX_GRANTS:
            del self._grants[next(iter(self._grants))]

    def covering(self, params: CreateMessageRequestParams, origin: Origin) -> Grant | None:
        """Return a grant that covers this request, or ``None``."""
        return next((grant for grant in self._grants.values() if grant.covers(params, origin)), None)

    def all(self) -> list[Grant]:
        """Return all grants, oldest first."""
        return list(self._grants.values())

    def revoke(self, grant: Grant) -> None:
        """Forget a grant; the next request asks again."""
        self._grants.pop(digest(grant), None)


def _call(origin: Origin) -> str:
    # An ask without a call is a chain of its own: a grant for it covers nothing else.
    return origin.call.id if origin.call else f"ask:{origin.id}"


def _digest(value: object) -> str:
    return hashlib.sha256(encode(value)).hexdigest()


def _size_class(params: CreateMessageRequestParams) -> int:
    return (max(len(encode(params)) - 1, 0) >> 12).bit_length()
