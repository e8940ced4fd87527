"""The part of an answer that has arrived so far, as a value that crosses the store.

Owns what is reported of it, and the record of who is watching. ``checks.unfinished`` decides what of the text may be
shown, ``pipeline.growth`` produces it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from antiphon.host.store.base import Store

__all__ = ["LOOK", "Partial", "Watching", "partials_in"]

LOOK = 0.25
"""Seconds between two reads of unfinished answers."""
_FOR = 40.0
"""Seconds for which a viewer counts as watching without a further sign; a page gives one four times as often."""
_AGAIN = 10.0


class Partial(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, as far as it has arrived."""

    review: str = ""
    """The review of its request."""
    began: float = 0.0
    target: str
    """The server it is for, with secrets masked."""
    name: str
    """The server's short name."""
    call: str = ""
    """The call it belongs to; empty in the background."""
    model: str
    """The model that answers."""
    text: str = ""
    """The end of what has arrived, with secrets masked."""
    omitted: int = 0
    """Number of characters before ``text``."""
    cut: bool = False
    """Whether it arrived too fast to be shown; the rest is shown when it is complete."""


async def partials_in(store: Store) -> list[Partial]:
    """Return the unfinished answers, in the order they began."""
    found = [(row, msgspec.json.decode(row.body, type=Partial)) for row in await store.partials()]
    return [msgspec.structs.replace(partial, review=row.id, began=row.began) for row, partial in found]


class Watching:
    """Records in a store that somebody is watching, no more often than necessary."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._said = -_AGAIN

    async def look(self) -> None:
        """Record that somebody is watching now."""
        now = self._clock()
        if not 0 <= now - self._said < _AGAIN:
            self._said = now
            await self._store.watch(now + _FOR)
