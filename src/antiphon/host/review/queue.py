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
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Literal

import msgspec

from antiphon.host.review.fitting import AnyDecision, AnyItem, Mismatch, NotShown, check
from antiphon.host.review.review import (
    Blocked,
    Decision,
    Deny,
    ElicitItem,
    Filled,
    NoReviewer,
    ReviewItem,
    Ticket,
    ToolItem,
    digest,
    hash_of,
)
from antiphon.host.store.base import (
    BLOCKED,
    OPEN,
    BlockRow,
    Change,
    Decided,
    ReviewKind,
    ReviewRow,
    ReviewState,
    Store,
)
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import encode
from antiphon.wire.origin import Origin

__all__ = ["UNDO", "AlreadyDecided", "Mismatch", "NotShown", "Outcome", "Question", "QuestionState", "Queue"]

QuestionState = ReviewState | Literal["held"]
"""``"held"``: decided, and still to be undone until ``Question.release``."""
UNDO = 5.0
"""Seconds in which a person can take back a permission, by default where people decide on a page or a screen."""
_SHARE = 4
"""A permission is held for at most this part of the time that is left: the server must not lose its patience."""
MAX_DRAFT = 4 * 1024 * 1024
"""Bytes of a draft: the longest request that a server may make, edited."""

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


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a question after it was decided."""

    became: Literal["handed-over", "late", "failed", "blocked"]
    """The answer was handed over to the server; it came too late; it could not be made, or was refused later on; or
    the question was withdrawn because its server was blocked."""
    why: str = ""
    """Of ``"late"``: cancelled, call-gone, deadline or closed. Of ``"failed"``: a reason as refusals have it."""


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
    state: QuestionState
    waited_for: bool
    """Whether a process waits; ``False`` where it was killed: the decision is kept for when it is asked again."""
    item: AnyItem | None = None
    """What to show; ``None`` once it is over."""
    decision: AnyDecision | None = None
    by: str | None = None
    decided: float | None = None
    hash: str = ""
    """Of what is shown (see ``review.hash_of``): a decision must name it."""
    release: float | None = None
    """When a decision that is held counts; until then it can be undone."""
    outcome: Outcome | None = None
    """What became of the decision; ``None`` while nobody knows."""


class Queue:
    """A ``Reviewer``, and what those who review need."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        notify: Callable[[ReviewKind, str], None] | None = None,
        undo: float = 0.0,
    ) -> None:
        """Use a store.

        ``notify`` is told the kind and the id of each question that is put here, and must return at once.
        ``undo``: seconds for which a permission that is given through this queue can be undone before it counts, at
        most a quarter of the time that is left. Refusals count at once.
        """
        self._store = store
        self.undo_seconds = undo
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

    async def elicit(self, item: ElicitItem) -> Filled | Deny:
        """Keep the question, and wait until somebody has filled in the form or refused.

        Raises:
            NoReviewer: it was closed from outside.
        """
        row = await self._put("elicitation", item, item.origin, [digest(item.params)], item.expires_in)
        decided = await self._decided(row)
        if await self._store.commit(Change(finish=row.id)) is not None:
            raise NoReviewer("the decision is not there any more")
        decision, ticket = _decision_of(decided), Ticket(id=row.id, by=decided.by)
        if isinstance(decision, ElicitResult):
            return Filled(result=decision, ticket=ticket)
        return msgspec.structs.replace(decision, ticket=ticket) if isinstance(decision, Deny) else Deny(ticket=ticket)

    async def pending(self) -> list[Question]:
        """Return the questions that wait for a decision, oldest first."""
        return [question for question in await self.open() if question.state == "pending"]

    async def open(self) -> list[Question]:
        """Return the questions that wait for a decision, and those whose decision can be undone, oldest first."""
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

    async def decide(self, id: str, decision: AnyDecision, *, hash: str, by: str | None = None) -> None:
        """Decide a question.

        ``hash`` is ``Question.hash`` of what was shown to whoever decides. ``by`` says who, for the record.

        Raises:
            LookupError: there is none of this id.
            NotShown: the question is not the one of this hash (any more); nothing was decided.
            Mismatch: the decision does not fit what is kept.
            AlreadyDecided: somebody was faster, or nobody waits any more.
        """
        await self.decide_all({id: decision}, {id: hash}, by=by)

    async def decide_all(
        self, decisions: Mapping[str, AnyDecision], hashes: Mapping[str, str], *, by: str | None = None
    ) -> None:
        """Decide several questions, such as those of one group: all or none. ``hashes`` are by id. See ``decide``.

        A denial that reaches the server blocks it, and withdraws all that waits from it, in the same transaction.
        """
        now = self._clock()
        kept: list[Decided] = []
        for id, decision in decisions.items():
            question = await self.get(id)
            if question.item is None:
                raise AlreadyDecided(question)
            check(question.item, decision)
            shown = hashes.get(id, "")
            if question.state == "pending" and shown != question.hash:
                raise NotShown("what was shown is not what waits now: look at it again")
            # The hash that was shown goes to the store: a decision that is held may be undone before this one is kept.
            kept.append(self._kept(question, decision, by, now, hash=shown))
        late = await self._store.decide(kept)
        self._tell()
        if late is not None:
            hash = next(decided.hash for decided in kept if decided.id == late.id)
            if late.state == "pending" and not late.held and late.hash not in (None, hash):
                raise NotShown("what was shown is not what waits now: look at it again")
            raise AlreadyDecided(_question(late))

    def _kept(self, question: Question, decision: AnyDecision, by: str | None, now: float, *, hash: str) -> Decided:
        block = None
        if isinstance(decision, Deny) and decision.reach == "server" and question.item is not None:
            origin = question.item.origin
            alike = origin.coarser[0] if origin.coarser else None
            block = BlockRow(identity=question.identity, target=origin.target, since=now, by=by, coarse=alike)
        return Decided(
            id=question.id,
            decision=encode(decision).decode(),
            by=by,
            hash=hash,
            release=self._release(question, decision, now),
            block=block,
        )

    def _release(self, question: Question, decision: AnyDecision, now: float) -> float | None:
        """Say when a decision counts: refusals at once."""
        refuses = isinstance(decision, Deny) or (isinstance(decision, ElicitResult) and decision.action != "accept")
        seconds = self.undo_seconds
        if question.expires is not None:
            seconds = min(seconds, (question.expires - now) / _SHARE)
        return None if refuses or seconds <= 0 else now + seconds

    async def undo(self, id: str) -> None:
        """Take back a permission that is held: the question waits again. Whoever reviews may undo it.

        Raises:
            LookupError: there is none of this id.
            AlreadyDecided: it counts already, or there is nothing to undo.
        """
        undone = await self._store.undo(id)
        self._tell()
        if not undone:
            raise AlreadyDecided(await self.get(id))

    async def block(self, identity: str, target: str, *, by: str | None = None, coarse: str | None = None) -> None:
        """Block a server, and withdraw at once all that waits from it, in every process that shares the store.

        ``target`` is its command line or address, for display. ``coarse``: the first of ``Origin.coarser``, so that
        it also holds for servers alike, such as the same one started in another folder; by default for this one alone.
        """
        row = BlockRow(identity=identity, target=target, since=self._clock(), by=by, coarse=coarse)
        await self._store.block(row)
        self._tell()

    async def keep_draft(self, id: str, fields: Sequence[tuple[str, str]] | None) -> bool:
        """Keep what somebody has begun to type about a pending question, as the fields of its form.

        ``None`` forgets it. It lasts until the question is over, whoever looks, whatever restarts. Returns whether it
        is kept: of a question that is over it is not.

        Raises:
            Mismatch: it is longer than ``MAX_DRAFT`` bytes.
        """
        body = None if fields is None else encode(fields).decode()
        if body is not None and len(body) > MAX_DRAFT:
            raise Mismatch(f"a draft has at most {MAX_DRAFT} bytes")
        return await self._store.keep_draft(id, body)

    async def draft(self, id: str) -> list[tuple[str, str]] | None:
        """Return what somebody has begun to type about a question; ``None`` if nothing."""
        body = await self._store.draft(id)
        return None if body is None else msgspec.json.decode(body, type=list[tuple[str, str]])

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
            hash=hash_of(item),
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
                wait = await self._pause(wait, until=row.release)
                row = await self._looked(row)
        except BaseException:
            over = row.expires is not None and self._clock() >= row.expires - _AT_ONCE
            await self._ended(row.id, "expired" if over else "withdrawn")
            raise
        if row.outcome == BLOCKED:
            raise Blocked("the server was blocked")
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
            if row.held and row.release is not None and row.release <= self._clock():
                await self._store.release(row.id)
                self._tell()
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

    async def _pause(self, seconds: float, *, until: float | None = None) -> float:
        """Wait for news in this process, so many seconds, or until a moment. Returns how long to wait the next time."""
        left = seconds if until is None else max(_SOON, until - self._clock())
        with suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, left)):
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


def _decision_of(row: ReviewRow) -> AnyDecision:
    """Read a decision: that of an elicitation is a result, or a denial, which has a tag."""
    body = row.decision or "null"
    if row.kind == "elicitation" and "type" not in msgspec.json.decode(body, type=dict[str, object]):
        return msgspec.json.decode(body, type=ElicitResult)
    return msgspec.json.decode(body, type=Decision)


def _question(row: ReviewRow) -> Question:
    item = None
    if row.item is not None:
        item = msgspec.json.decode(row.item, type=_ITEMS.get(row.kind, ReviewItem))
    return Question(
        id=row.id,
        kind=row.kind,
        group=row.group,
        identity=row.identity,
        created=row.created,
        expires=row.expires,
        state="held" if row.held else row.state,
        waited_for=row.host is not None,
        item=item,
        decision=None if row.decision is None else _decision_of(row),
        by=row.by,
        decided=row.decided,
        hash=row.hash or ("" if item is None else hash_of(item)),
        release=row.release if row.held else None,
        outcome=None if row.outcome is None else msgspec.json.decode(row.outcome, type=Outcome),
    )
