"""What has come of an answer that is not whole yet, for whoever looks: the value that crosses the store.

Owns what is said of it, and that somebody who looks is known to look. What of the text may be shown is
``checks.unfinished``'s, how it gets here ``pipeline.growing``'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from antiphon.host.store.base import Store

__all__ = ["LOOK", "Partial", "Watching", "partials_in"]

LOOK = 0.25
"""Seconds between two looks at answers that grow."""
_FOR = 40.0
"""Seconds for which somebody counts as looking who says no more: a page says it four times as often."""
_AGAIN = 10.0


class Partial(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, as far as it has come."""

    review: str = ""
    """The review by which it was asked for."""
    began: float = 0.0
    target: str
    """The server it is for; masked."""
    name: str
    """The server's short name."""
    call: str = ""
    """What was called that it belongs to; nothing in the background."""
    model: str
    """Who answers."""
    text: str = ""
    """The end of what has come, masked."""
    omitted: int = 0
    """Characters before ``text``."""
    cut: bool = False
    """Whether it came too fast to be shown: what follows is seen when it is whole."""


async def partials_in(store: Store) -> list[Partial]:
    """Return the answers that grow now, the one that began first first."""
    found = [(row, msgspec.json.decode(row.body, type=Partial)) for row in await store.partials()]
    return [msgspec.structs.replace(partial, review=row.id, began=row.began) for row, partial in found]


class Watching:
    """Says in a store that somebody looks, as often as needed and no more often."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._said = -_AGAIN

    async def look(self) -> None:
        """Say that somebody looks now."""
        now = self._clock()
        if not 0 <= now - self._said < _AGAIN:
            self._said = now
            await self._store.watch(now + _FOR)
