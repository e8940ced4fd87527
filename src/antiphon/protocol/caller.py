"""Who sends a request, according to its token, and which scopes the token grants.

``auth`` checks tokens; the author of a tool says which scopes it requires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

Covers = Callable[[str, str], bool]
"""Says whether a scope that was granted (first) includes one that is required (second)."""


class Caller(Struct, frozen=True, eq=False):
    """Who sends a request, according to its token.

    Args:
        principal: whose token it is; never empty.
        scopes: the scopes that were granted.
        claims: everything the token says, by name; decoded when read.
        expires: when the token expires, in seconds since 1970; ``None`` if that is not known.
        covers: whether one scope includes another; set by the ``ResourceServer``.
        sees_only_allowed: whether lists leave out what the token does not allow; set by the ``ResourceServer``.
    """

    principal: str
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any])
    expires: float | None = None
    covers: Covers | None = None
    sees_only_allowed: bool = False

    def __repr__(self) -> str:
        # Claims name people, and this ends up in logs.
        return f"Caller({self.principal!r})"

    def has(self, required: Iterable[str]) -> bool:
        """Return whether the token has all of these scopes, by itself or by a broader one.

        Args:
            required: names of scopes.
        """
        return all(scope in self.scopes or self._covers(scope) for scope in required)

    def _covers(self, scope: str) -> bool:
        # 2026-07-28 basic/authorization: "Servers MUST account for scope hierarchies, where a broader scope implies
        # narrower ones, when deciding whether a token is sufficient for an operation."
        covers = self.covers
        return covers is not None and any(covers(granted, scope) is True for granted in self.scopes)
