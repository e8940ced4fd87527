"""Questions to people, kept until somebody decides: a reviewer with any number of people, in any number of processes.

Owns what a question is in the store, who may decide what about it, and waiting for a decision. It shows nothing: a
terminal, a page or a script lists the questions, and decides. A question belongs to no reviewer: whoever disconnects
leaves it as it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from secrets import token_hex
from typing import Literal

import msgspec

from antiphon.host.review.fitting import AnyItem, Mismatch, check
from antiphon.host.review.review import (
    Decision,
    ElicitItem,
    NoReviewer,
    ReviewItem,
    Ticket,
    ToolItem,
    digest,
)
from antiphon.host.store.base import OPEN, Change, Decided, ReviewKind, ReviewRow, ReviewState, Store
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import encode
from antiphon.wire.origin import Origin

__all__ = ["AlreadyDecided", "Mismatch", "Question", "Queue"]

_SOON, _LATER = 0.02, 0.5
"""Seconds between two looks at the store: at first, and when nobody has decided for long. People take seconds."""
_SLOWER = 1.3
_HISTORY: tuple[ReviewState, ...] = ("decided", "done", "expired", "withdrawn")
_ENDING = 1.0
"""Seconds that whoever stops waiting for a question waits until that is kept."""
_AT_ONCE = 1.0
"""Seconds: whoever waits began to count a little before the question was kept, and stops a little before it expires."""


_log = logging.getLogger("antiphon.host")

_ITEMS: dict[ReviewKind, type[AnyItem]] = {"elicitation": ElicitItem, "tool": ToolItem}


class AlreadyDecided(Exception):
    """Somebody was faster, or nobody waits any more."""

    def __init__(self, question: Question) -> None:
        super().__init__(f"{question.id} is {question.state}" + (f" by {question.by}" if question.by else ""))
        self.question = question
        """As it is now."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question, as it is in the store."""

    id: str
    kind: ReviewKind
    group: str
    """The same for all asks of one round of a call: they are shown and decided together."""
    identity: str
    created: float
    """Seconds since the epoch, as all moments here."""
    expires: float | None
    state: ReviewState
    waited_for: bool
    """Whether a process waits; ``False`` where it was killed: the decision is kept for when it is asked again."""
    item: AnyItem | None = None
    """What to show; ``None`` once it is over."""
    decision: Decision | ElicitResult | None = None
    by: str | None = None
    decided: float | None = None


class Queue:
    """A ``Reviewer``, and what those who review need."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        notify: Callable[[ReviewKind, str], None] | None = None,
    ) -> None:
        """``notify`` is told the kind and the id of each question that is put here, and must return at once."""
        self._store = store
        self._clock = clock
        self._notify = notify
        self._news = asyncio.Event()
        self._unreached = False
        """Whether the store could not be reached the last time: said once, not twice a second."""
        self._endings: set[asyncio.Task[None]] = set()

    @property
    def available(self) -> bool:
        """Always: somebody may come, until the question expires."""
        return True

    async def review(self, item: ReviewItem) -> Decision:
        """Keep the question, and wait until somebody has decided.

        Raises:
            NoReviewer: it was closed from outside.
        """
        kind = "request" if item.result is None else "response"
        digests = [digest(item.params), "" if item.result is None else digest(item.result)]
        return await self._decision(await self._put(kind, item, item.origin, digests, item.expires_in))

    async def confirm(self, item: ToolItem) -> Decision:
        """Keep the question whether a tool may be called, and wait until somebody has decided.

        Raises:
            NoReviewer: it was closed from outside.
        """
        digests = [digest(item.params), "" if item.origin.tool is None else digest(item.origin.tool)]
        return await self._decision(await self._put("tool", item, item.origin, digests, item.expires_in))

    async def elicit(self, item: ElicitItem) -> ElicitResult:
        """Keep the question, and wait until somebody has filled in the form or refused.

        Raises:
            NoReviewer: it was closed from outside.
        """
        row = await self._put("elicitation", item, item.origin, [digest(item.params)], item.expires_in)
        decided = await self._decided(row)
        if await self._store.commit(Change(finish=row.id)) is not None:
            raise NoReviewer("the decision is not there any more")
        return msgspec.json.decode(decided.decision or "null", type=ElicitResult)

    async def pending(self) -> list[Question]:
        """Return the questions that wait for a decision, oldest first."""
        now = self._clock()
        rows = await self._store.reviews(("pending",))
        return [_question(row) for row in rows if row.expires is None or row.expires > now]

    async def history(self, limit: int = 1000) -> list[Question]:
        """Return the latest questions that nobody need decide any more, newest first.

        What was asked is gone once a question is over, unless the store keeps it.
        """
        return [_question(row) for row in await self._store.reviews(_HISTORY, limit, latest=True)]

    async def get(self, id: str) -> Question:
        """Return one question.

        Raises:
            LookupError: there is none of this id.
        """
        row = await self._store.review(id)
        if row is None:
            raise LookupError(f"there is no review {id}")
        return _question(row)

    async def decide(self, id: str, decision: Decision | ElicitResult, *, by: str | None = None) -> None:
        """Decide a question; ``by`` says who, for the record.

        Raises:
            LookupError: there is none of this id.
            Mismatch: the decision does not fit what is kept.
            AlreadyDecided: somebody was faster, or nobody waits any more.
        """
        await self.decide_all({id: decision}, by=by)

    async def decide_all(self, decisions: Mapping[str, Decision | ElicitResult], *, by: str | None = None) -> None:
        """Decide several questions, such as those of one group: all or none. Raises as ``decide`` does."""
        kept: list[Decided] = []
        for id, decision in decisions.items():
            question = await self.get(id)
            if question.item is None:
                raise AlreadyDecided(question)
            check(question.item, decision)
            kept.append(Decided(id=id, decision=encode(decision).decode(), by=by))
        late = await self._store.decide(kept)
        self._tell()
        if late is not None:
            raise AlreadyDecided(_question(late))

    async def changes(self) -> AsyncIterator[int]:
        """Yield a number now, and another one each time that any question has changed, here or elsewhere."""
        seen, wait = -1, _SOON
        while True:
            version = await self._store.reviews_version()
            if version != seen:
                seen, wait = version, _SOON
                yield version
            wait = await self._pause(wait)

    async def _put(
        self,
        kind: ReviewKind,
        item: AnyItem,
        origin: Origin,
        digests: list[str],
        expires_in: float | None,
    ) -> ReviewRow:
        now = self._clock()
        row = ReviewRow(
            id=token_hex(8),
            kind=kind,
            fingerprint=_fingerprint(kind, origin, digests),
            group=_group(origin, self._store.host),
            identity=origin.identity,
            created=now,
            expires=None if expires_in is None else now + expires_in,
            host=self._store.host,
            item=encode(item).decode(),
        )
        put = await self._store.put_review(row)
        self._tell()
        if self._notify is not None and put.state == "pending":
            self._notify(kind, put.id)
        return put

    async def _decision(self, row: ReviewRow) -> Decision:
        decided = await self._decided(row)
        decision = msgspec.json.decode(decided.decision or "null", type=Decision)
        return msgspec.structs.replace(decision, ticket=Ticket(id=row.id, by=decided.by))

    async def _decided(self, row: ReviewRow) -> ReviewRow:
        """Wait for a decision. Whoever stops waiting withdraws the question."""
        wait = _SOON
        try:
            while row.state == "pending":
                wait = await self._pause(wait)
                row = await self._looked(row)
        except BaseException:
            over = row.expires is not None and self._clock() >= row.expires - _AT_ONCE
            await self._ended(row.id, "expired" if over else "withdrawn")
            raise
        if row.state != "decided":
            raise NoReviewer(f"the review was {row.state}")
        return row

    async def _ended(self, id: str, state: Literal["expired", "withdrawn"]) -> None:
        """Say that nobody waits for a question any more. A store that stands still is not waited for, but told."""
        ending = asyncio.create_task(self._store.close_review(id, state, keep_item=False))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        await asyncio.wait([ending], timeout=_ENDING)
        self._tell()

    async def _looked(self, row: ReviewRow) -> ReviewRow:
        """Return a question as it is now; as it was, where the store cannot be reached.

        A database that is started again is there some seconds later, and people take longer. Whoever waits gives up
        when the question expires, not before.
        """
        try:
            found = await self._store.review(row.id)
            if found is not None and found.host is None and found.state in OPEN:
                # Another process took this one for dead while it stood still.
                await self._store.claim_review(row.id)
        except Exception as error:
            if not self._unreached:
                _log.warning("reviews wait for the store: %s", type(error).__name__)
            self._unreached = True
            return row
        self._unreached = False
        return found or msgspec.structs.replace(row, state="withdrawn")

    async def _pause(self, seconds: float) -> float:
        """Wait for news in this process, or so many seconds. Returns how long to wait the next time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        return min(seconds * _SLOWER, _LATER)

    def _tell(self) -> None:
        """Wake everybody who waits in this process."""
        self._news.set()
        self._news = asyncio.Event()


def _fingerprint(kind: str, origin: Origin, digests: list[str]) -> str:
    # The call is named by what it is: its id would be another after a restart.
    call = [origin.call.method, origin.call.name, origin.call.arguments] if origin.call else None
    return hashlib.sha256(encode([kind, origin.identity, call, *digests])).hexdigest()


def _group(origin: Origin, host: str) -> str:
    if origin.call is None:
        return f"{host}:ask:{origin.id}"
    return f"{host}:{origin.call.id}:{origin.round.n if origin.round else 0}"


def _question(row: ReviewRow) -> Question:
    item = None
    if row.item is not None:
        item = msgspec.json.decode(row.item, type=_ITEMS.get(row.kind, ReviewItem))
    decision = None
    if row.decision is not None:
        decision = msgspec.json.decode(row.decision, type=ElicitResult if row.kind == "elicitation" else Decision)
    return Question(
        id=row.id,
        kind=row.kind,
        group=row.group,
        identity=row.identity,
        created=row.created,
        expires=row.expires,
        state=row.state,
        waited_for=row.host is not None,
        item=item,
        decision=decision,
        by=row.by,
        decided=row.decided,
    )
