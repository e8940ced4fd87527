"""Waiting for decisions: what one process reads of a store so that none of its questions is missed.

For all questions of a process, one task reads the store: a question when a notice names it, and when its decision takes
effect. A notice that names no question, or one that was lost, is found by the version of the store: then one statement
returns the questions that nobody has changed, and the others are read. A question that waits therefore costs nothing.

People and other processes see and compare times of a clock that may be set. What lasts, a question and the seconds to
undo a decision, is counted here by a monotonic clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from antiphon.host.store import base
from antiphon.machine.asyncio_tasks import settle_future

__all__ = ["CHECK", "LATER", "SOON", "DecisionWatch"]

SOON, LATER = 0.02, 0.5
"""Seconds between two reads of the store: at first, and when nobody has decided for a while. People take seconds."""
CHECK = 1.0
"""Seconds between two reads of a store that sends notices of changes: a notice may be lost with its connection."""
_SET = 1.0
"""Seconds by which a clock differs after it was set; less is a correction in small steps."""
_EACH = 50e-6
"""Seconds of rest for each question that waits, after all were compared: some twenty times as long as that takes."""
_log = logging.getLogger("antiphon.host")


class WaitingQuestion(msgspec.Struct, eq=False):
    """A question that calls of this process wait for."""

    row: base.ReviewRow
    """As it was when it was last read."""
    decided: asyncio.Future[base.ReviewRow]
    end: float | None
    """When it expires, in the time of the monotonic clock: its callers do not wait by the other one."""
    calls: int = 0
    """How many calls wait for it: each is the same call of one principal."""
    is_read: bool = False
    """Whether it was read since it is waited for."""


class DecisionWatch:
    """The questions of one process that wait for a decision."""

    def __init__(self, store: base.Store, clock: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._ahead = clock() - monotonic()
        """How far the clock is ahead of the monotonic one; that changes when the clock is set."""
        self._questions: dict[str, WaitingQuestion] = {}
        self._unread: set[str] = set()
        """Ids of the questions that may have changed."""
        self._release: dict[str, tuple[float | None, float]] = {}
        """The decisions that can still be undone, by their time, and when they take effect, by the monotonic clock."""
        self._looked = 0.0
        """When the last look began that found all changes, by the monotonic clock."""
        self.storing: list[base.ReviewRow] = []
        """Questions that are being stored: each may turn out to be one that is there already."""
        self._version = -1
        self._arrival = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._unreached = False
        """Whether the store could not be reached the last time, so that this is logged only once."""

    async def wait(self, row: base.ReviewRow) -> base.ReviewRow:
        """Wait until a question is over or decided, and return it as it is then."""
        loop = asyncio.get_running_loop()
        question = self._questions.get(row.id)
        if question is None:
            end = None if row.expires is None else row.expires - self._ahead
            question = self._questions[row.id] = WaitingQuestion(row, loop.create_future(), end)
        question.calls += 1
        self._read_again(row.id)
        if self._watching is None or self._watching.done():
            self._watching = loop.create_task(self._watch(), name="antiphon-reviews")
        try:
            return await asyncio.shield(question.decided)
        finally:
            question.calls -= 1
            if not question.calls:
                del self._questions[row.id]
                self._unread.discard(row.id)
                self._release.pop(row.id, None)
            if not self._questions:
                self._watching.cancel()
                self._watching = None

    def is_awaited(self, row: base.ReviewRow) -> bool:
        """Return whether another call waits for a question, here or in another process, or may be joining it here."""
        joining = (one.shared and one.fingerprint == row.fingerprint and one.hash == row.hash for one in self.storing)
        return row.host not in (None, self._store.host) or row.id in self._questions or (row.shared and any(joining))

    def _read_again(self, id: str | None) -> None:
        """Read a question at the next look, or find out which have changed."""
        if not id:
            self._version = -1
        elif id in self._questions:
            self._unread.add(id)
        else:
            return
        self._arrival.set()

    async def _watch(self) -> None:
        """Follow the store until cancelled. What cannot be followed fails every wait, so that none goes on for ever."""
        try:
            await self._follow()
        except Exception as error:
            for question in self._questions.values():
                settle_future(question.decided, error)

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
            first = min(at for _, at in self._release.values())
            seconds = min(seconds, max(SOON, first - self._monotonic()))
        await self._store.news.wait(self._arrival, seconds)

    async def _look(self, *, is_due: bool) -> float:
        """Read the questions that have changed. Returns the seconds to rest: comparing all of them takes time."""
        rest = 0.0
        self._arrival.clear()
        try:
            await self.follow_clock()
            now = self._monotonic()
            self._unread.update(id for id, (_, at) in self._release.items() if at <= now)
            if (is_due or self._version < 0) and await self._find_changed():
                rest = _EACH * len(self._questions)
            for id in list(self._unread):
                if id in self._unread:
                    await self._read_question(self._questions[id])
        except Exception as error:
            # A database that restarts is back within seconds, and people take longer, so the wait ends only when the
            # question expires.
            if not self._unreached:
                _log.warning("reviews wait for the store: %s", type(error).__name__)
            self._unreached, self._version = True, -1
            return rest
        self._unreached, self._looked = False, now
        return rest

    async def follow_clock(self) -> None:
        """Store anew when questions expire if the clock was set, because people decide and see the time left by it."""
        ahead = self._clock() - self._monotonic()
        if abs(ahead - self._ahead) > _SET:
            for question in list(self._questions.values()):
                if question.end is not None:
                    await self._claim(question, ahead)
            self._ahead = ahead

    async def _find_changed(self) -> bool:
        """Compare all questions if the version of the store is another than before. Returns whether it is."""
        version = await self._store.reviews_version()
        if version == self._version:
            return False
        self._version = version
        unchanged = await self._store.undecided()
        self._unread |= self._questions.keys() - unchanged
        return True

    async def _read_question(self, question: WaitingQuestion) -> None:
        id = question.row.id
        self._unread.discard(id)
        try:
            found = await self._read_row(question)
        except Exception:
            self._read_again(id)
            raise
        if not self._is_waiting(question):
            return
        question.row = found
        if found.state != "pending":
            question.decided.set_result(found)
        elif found.release is None or found.decided is None:
            self._release.pop(id, None)
        elif self._release.get(id, (None, 0.0))[0] != found.decided:
            # Whoever decided may have another clock, or it was set since: no decision is older than the last look.
            passed = max(0.0, self._clock() - found.decided)
            if question.is_read:
                passed = min(passed, self._monotonic() - self._looked)
            self._release[id] = found.decided, self._monotonic() + found.release - found.decided - passed
        question.is_read = True

    async def _read_row(self, question: WaitingQuestion) -> base.ReviewRow:
        id = question.row.id
        decided, at = self._release.get(id, (None, 0.0))
        if decided is not None and at <= self._monotonic():
            await self._store.release(id, decided)
        found = await self._store.review(id)
        if found is not None and found.host is None and found.state in base.OPEN:
            # Another process took this one for dead while it was suspended, or the one that waited was killed.
            await self._claim(question, self._ahead)
        return found or msgspec.structs.replace(question.row, state="withdrawn")

    async def _claim(self, question: WaitingQuestion, ahead: float) -> None:
        """Claim a question, unless its last call has left meanwhile: it then waits for its call to be made again."""
        if self._is_waiting(question):
            await self._store.claim_review(question.row.id, None if question.end is None else question.end + ahead)

    def _is_waiting(self, question: WaitingQuestion) -> bool:
        return self._questions.get(question.row.id) is question and not question.decided.done()
