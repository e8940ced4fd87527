"""DecisionWatch for the decisions about all questions of one process, with one task that reads the store.

The task reads a question when a notice names it, and when its decision takes effect. A notice that names no question,
or one that was lost, is found by the version of the store: then one statement returns the questions that nobody has
changed, and the others are read. A question that waits therefore costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from antiphon.host.store.base import OPEN, ReviewRow, Store

__all__ = ["CHECK", "LATER", "SOON", "DecisionWatch"]

SOON, LATER = 0.02, 0.5
"""Seconds between two reads of the store: at first, and when nobody has decided for a while. People take seconds."""
CHECK = 1.0
"""Seconds between two reads of a store that sends notices of changes: a notice may be lost with its connection."""
_EACH = 50e-6
"""Seconds of rest for each question that waits, after all were compared: some twenty times as long as that takes."""
_log = logging.getLogger("antiphon.host")


class DecisionWatch:
    """The questions of one process that wait for a decision.

    Args:
        store: where the questions are.
        clock: returns seconds since the epoch.
    """

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._waiting: dict[str, asyncio.Future[ReviewRow]] = {}
        self._rows: dict[str, ReviewRow] = {}
        self._unread: dict[str, None] = {}
        """Ids of the questions that may have changed."""
        self._release: dict[str, float] = {}
        """When the decisions that can still be undone take effect."""
        self._version = -1
        self._arrival = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._unreached = False
        """Whether the store could not be reached the last time, so that this is logged only once."""

    async def wait(self, row: ReviewRow) -> ReviewRow:
        """Wait until a question is over or decided, and return it as it is then.

        Args:
            row: the question, as it was stored.
        """
        loop = asyncio.get_running_loop()
        decided = self._waiting[row.id] = loop.create_future()
        self._rows[row.id] = row
        self._read_again(row.id)
        if self._watching is None or self._watching.done():
            self._watching = loop.create_task(self._watch(), name="antiphon-reviews")
        try:
            return await decided
        finally:
            for known in (self._waiting, self._rows, self._unread, self._release):
                known.pop(row.id, None)
            if not self._waiting:
                self._watching.cancel()
                self._watching = None

    def _read_again(self, id: str | None) -> None:
        """Read a question at the next look, or find out which have changed."""
        if not id:
            self._version = -1
        elif id in self._waiting:
            self._unread[id] = None
        else:
            return
        self._arrival.set()

    async def _watch(self) -> None:
        """Follow the store until cancelled. What cannot be followed fails every wait, so that none goes on for ever."""
        try:
            await self._follow()
        except Exception as error:
            for decided in self._waiting.values():
                if not decided.done():
                    decided.set_exception(error)

    async def _follow(self) -> None:
        wait = SOON
        self._arrival = asyncio.Event()
        self._arrival.set()
        with self._store.news.listening(on_change=self._read_again):
            while True:
                is_known = bool(self._unread)
                rest = await self._look(is_due=not self._arrival.is_set())
                wait = SOON if is_known else min(wait * 1.3, LATER)
                await self._pause(CHECK if self._store.news.are_heard else wait, rest)

    async def _pause(self, seconds: float, rest: float) -> None:
        if self._unreached:
            await asyncio.sleep(LATER)
            return
        await asyncio.sleep(rest)
        if self._release:
            seconds = min(seconds, max(SOON, min(self._release.values()) - self._clock()))
        await self._store.news.wait(self._arrival, seconds)

    async def _look(self, *, is_due: bool) -> float:
        """Read the questions that have changed. Returns the seconds to rest: comparing all of them takes time."""
        rest = 0.0
        is_due = is_due or self._version < 0
        self._arrival.clear()
        try:
            now = self._clock()
            self._unread |= dict.fromkeys(id for id, at in self._release.items() if at <= now)
            if is_due and await self._find_changed():
                rest = _EACH * len(self._waiting)
            for id in list(self._unread):
                if id in self._rows:
                    await self._read(id, self._rows[id])
        except Exception as error:
            # A database that restarts is back within seconds, and people take longer, so the wait ends only when the
            # question expires.
            if not self._unreached:
                _log.warning("reviews wait for the store: %s", type(error).__name__)
            self._unreached, self._version = True, -1
            return rest
        self._unreached = False
        return rest

    async def _find_changed(self) -> bool:
        """Compare all questions if the version of the store is another than before. Returns whether it is."""
        version = await self._store.reviews_version()
        if version == self._version:
            return False
        known, self._version = list(self._waiting), version
        unchanged = await self._store.undecided()
        self._unread |= dict.fromkeys(id for id in known if id not in unchanged and id in self._waiting)
        return True

    async def _read(self, id: str, row: ReviewRow) -> None:
        self._unread.pop(id, None)
        try:
            found = await self._read_row(id, row)
        except Exception:
            self._read_again(id)
            raise
        decided = self._waiting.get(id)
        if decided is None or decided.done():
            return
        self._rows[id] = found
        self._release.pop(id, None)
        if found.state != "pending":
            decided.set_result(found)
        elif found.release is not None:
            self._release[id] = found.release

    async def _read_row(self, id: str, row: ReviewRow) -> ReviewRow:
        if row.held and row.release is not None and row.release <= self._clock():
            await self._store.release(id)
        found = await self._store.review(id)
        if found is not None and found.host is None and found.state in OPEN:
            # Another process took this one for dead while it was suspended.
            await self._store.claim_review(id)
        return found or msgspec.structs.replace(row, state="withdrawn")
