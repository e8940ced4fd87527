"""Questions to people, stored until somebody decides: a reviewer for any number of people and processes.

Owns how a question is stored, who may decide it, and waiting for the decision. It shows nothing itself: a terminal, a
page or a script lists the questions and decides. A question belongs to no reviewer, so one that disconnects leaves it
unchanged.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from secrets import token_hex
from typing import Literal

import msgspec

from antiphon.host.review.decision_watch import CHECK, LATER, SOON, DecisionWatch
from antiphon.host.review.edit_call import check_arguments
from antiphon.host.review.fit import AnyDecision, AnyItem, Mismatch, NotShown, check
from antiphon.host.review.question import Question, decision_of, question_of, undone_records
from antiphon.host.review.review import (
    Blocked,
    Decision,
    Deny,
    EditCall,
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
    BlockRow,
    Change,
    Decided,
    ReviewKind,
    ReviewRow,
    ReviewState,
    Store,
)
from antiphon.machine.asyncio_tasks import start_in
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import encode
from antiphon.wire.origin import Origin

__all__ = ["UNDO", "AlreadyDecided", "Mismatch", "NotShown", "OpenQuestions", "Queue"]


_FEW = 8
"""Most questions that are read one by one; if there are more, all of them are read at once."""


class OpenQuestions:
    """What a store holds in the state ``"pending"``: waiting for a decision, or for the end of its time to undo."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[ReviewRow, Question]] = {}

    async def read(self, limit: int = 1000, after: str | None = None) -> list[Question]:
        """Return the open questions, oldest first. An unchanged question is the same object as before."""
        rows = await self._store.reviews(("pending",), limit, contents=False, after=after)
        unknown = [row.id for row in rows if not self._knows(row)]
        whole = await self._whole(unknown, limit, after)
        self._known = {row.id: one for row in rows if (one := self._read(row, whole.get(row.id))) is not None}
        return [question for _, question in self._known.values()]

    def _knows(self, row: ReviewRow) -> bool:
        """Tell whether the content of a row is known: it is unchanged while its hash and its round are."""
        kept = self._known.get(row.id)
        return kept is not None and row.hash is not None and (kept[0].hash, kept[0].group) == (row.hash, row.group)

    async def _whole(self, ids: Sequence[str], limit: int, after: str | None) -> dict[str, ReviewRow]:
        if len(ids) > _FEW:
            sought = set(ids)
            rows = await self._store.reviews(("pending",), limit, after=after)
            return {row.id: row for row in rows if row.id in sought}
        found = [await self._store.review(id) for id in ids]
        return {row.id: row for row in found if row is not None and row.state == "pending"}

    def _read(self, row: ReviewRow, whole: ReviewRow | None) -> tuple[ReviewRow, Question] | None:
        if whole is not None:
            return row, question_of(whole)
        kept = self._known.get(row.id)
        if kept is None or not self._knows(row):
            # It ended after the first read.
            return None
        return kept if kept[0] == row else (row, question_of(row, kept[1].item))


UNDO = 5.0
"""Default seconds in which a person can take back a permission, given at a terminal, a page or a screen."""
_SHARE = 4
"""A permission is held for at most this fraction of the time left, because the server waits only so long."""
MAX_DRAFT = 4 * 1024 * 1024
"""Most bytes of a draft: enough for the longest request a server may make, edited."""

_SLOWER = 1.3
_HISTORY: tuple[ReviewState, ...] = ("decided", "done", "expired", "withdrawn")
_ENDING = 1.0
"""Seconds that a caller that stops waiting for a question waits for this to be stored."""
_AT_ONCE = 1.0
"""Seconds of tolerance: the caller's deadline starts a little before the question is stored, and so ends a little
before the question expires."""


class AlreadyDecided(Exception):
    """Somebody else decided, or nobody waits any more.

    Args:
        question: the question, as it is now.
    """

    def __init__(self, question: Question) -> None:
        super().__init__(f"{question.id} is {question.state}" + (f" by {question.by}" if question.by else ""))
        self.question = question
        """The question, as it is now."""


class Queue:
    """A ``Reviewer`` that stores questions, with the operations that people need to decide them."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        notify: Callable[[ReviewKind, str], None] | None = None,
        undo: float = 0.0,
    ) -> None:
        """Use a store.

        Args:
            store: where questions are kept.
            clock: returns seconds since the epoch.
            notify: called with the kind and the id of each new question; must return at once.
            undo: seconds for which a permission given through this queue can be undone before it takes effect, at most
                a quarter of the time left. The refusal of one request takes effect at once; one that reaches further,
                or several together, can be undone as well.
        """
        self._store = store
        self.undo_seconds = undo
        self._clock = clock
        self._notify = notify
        self._waiting = DecisionWatch(store, clock)
        self._endings: set[asyncio.Task[None]] = set()
        self._open = OpenQuestions(store)

    @property
    def available(self) -> bool:
        """Always true: somebody may come before the question expires."""
        return True

    @property
    def where(self) -> str:
        """How to see what waits: with a command that opens the same store."""
        return "run antiphon review (in a terminal) or antiphon review --web (in a browser), then ask again"

    async def review(self, item: ReviewItem) -> Decision:
        """Store the question, and wait until somebody has decided.

        Args:
            item: the request, or the answer, to decide about.

        Raises:
            NoReviewer: the question was ended from outside.
        """
        kind = "request" if item.result is None else "response"
        digests = [digest(item.params), "" if item.result is None else digest(item.result)]
        return await self._decision(await self._put(kind, item, item.origin, digests, item.expires_in))

    async def confirm(self, item: ToolItem) -> Decision:
        """Store the question whether a tool may be called, and wait until somebody has decided.

        Args:
            item: the call to decide about.

        Raises:
            NoReviewer: the question was ended from outside.
        """
        digests = [digest(item.params), "" if item.origin.tool is None else digest(item.origin.tool)]
        return await self._decision(await self._put("tool", item, item.origin, digests, item.expires_in))

    async def elicit(self, item: ElicitItem) -> Filled | Deny:
        """Store the question, and wait until somebody has filled in the form or refused.

        Args:
            item: the elicitation.

        Raises:
            NoReviewer: the question was ended from outside.
        """
        row = await self._put("elicitation", item, item.origin, [digest(item.params)], item.expires_in)
        decided = await self._decided(row)
        if await self._store.commit(Change(finish=row.id)) is not None:
            raise NoReviewer("the decision does not exist any more")
        decision, ticket = decision_of(decided), Ticket(id=row.id, by=decided.by)
        if isinstance(decision, ElicitResult):
            return Filled(result=decision, ticket=ticket)
        return msgspec.structs.replace(decision, ticket=ticket) if isinstance(decision, Deny) else Deny(ticket=ticket)

    async def pending(self, limit: int = 1000, after: str | None = None) -> list[Question]:
        """Return the questions that wait for a decision, oldest first.

        Args:
            limit: most questions to read; ``waiting`` says how many there are.
            after: id of a question, to return only later ones: the next page.
        """
        return [question for question in await self.open(limit, after) if question.state == "pending"]

    async def waiting(self) -> int:
        """Return how many questions wait for a decision."""
        return await self._store.waiting()

    async def open(self, limit: int = 1000, after: str | None = None) -> list[Question]:
        """Return the questions that wait for a decision, and those whose decision can be undone, oldest first.

        Args:
            limit: most questions to read.
            after: id of a question, to return only later ones: the next page.
        """
        now = self._clock()
        questions = await self._open.read(limit, after)
        return [each for each in questions if each.expires is None or each.expires > now]

    async def history(self, limit: int = 1000) -> list[Question]:
        """Return the latest questions that are over, newest first. Their content is gone, unless the store keeps it.

        Args:
            limit: most questions to return.
        """
        return [question_of(row) for row in await self._store.reviews(_HISTORY, limit, latest=True)]

    async def get(self, id: str) -> Question:
        """Return one question.

        Args:
            id: id of the question.

        Raises:
            LookupError: there is no question with this id.
        """
        row = await self._store.review(id)
        if row is None:
            raise LookupError(f"there is no review {id}")
        return question_of(row)

    async def decide(self, id: str, decision: AnyDecision, *, hash: str, by: str | None = None) -> None:
        """Decide a question.

        Args:
            id: id of the question.
            decision: the decision.
            hash: ``Question.hash`` of what was shown to the person who decides.
            by: who decides, for the record.

        Raises:
            LookupError: there is no question with this id.
            NotShown: the question does not have this hash (any more); nothing was decided.
            Mismatch: the decision does not fit the question.
            AlreadyDecided: somebody else decided, or nobody waits any more.
        """
        await self.decide_all({id: decision}, {id: hash}, by=by)

    async def decide_all(
        self, decisions: Mapping[str, AnyDecision], hashes: Mapping[str, str], *, by: str | None = None
    ) -> None:
        """Decide several questions, such as those of one group: all or none. See ``decide`` for what it raises.

        A denial of the whole server blocks it, and withdraws everything that waits from it, in the same transaction.

        Args:
            decisions: decisions by id of the question.
            hashes: by id of the question, ``Question.hash`` of what was shown.
            by: who decides, for the record.
        """
        now = self._clock()
        kept: list[Decided] = []
        for id, decision in decisions.items():
            question = await self.get(id)
            if question.item is None:
                raise AlreadyDecided(question)
            check(question.item, decision)
            await _check_call(question.item, decision)
            shown = hashes.get(id, "")
            if question.state == "pending" and shown != question.hash:
                raise NotShown("the question has changed since it was shown: look at it again")
            # Store the hash that was shown, because a decision that is held may be undone before this one
            # is stored.
            kept.append(self._kept(question, decision, by, now, hash=shown, alone=len(decisions) == 1))
        late = await self._store.decide(kept)
        if late is not None:
            hash = next(decided.hash for decided in kept if decided.id == late.id)
            if late.state == "pending" and not late.held and late.hash not in (None, hash):
                raise NotShown("the question has changed since it was shown: look at it again")
            raise AlreadyDecided(question_of(late))

    def _kept(
        self, question: Question, decision: AnyDecision, by: str | None, now: float, *, hash: str, alone: bool
    ) -> Decided:
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
            release=self._release(question, decision, now, alone=alone),
            block=block,
        )

    def _release(self, question: Question, decision: AnyDecision, now: float, *, alone: bool) -> float | None:
        """Return when a decision takes effect; ``None`` for at once, as the refusal of one request does.

        So does one that no process waits for: nobody would block the server when its time has come.
        """
        if isinstance(decision, Deny):
            refuses = not question.waited_for or (alone and decision.reach == "once")
        else:
            refuses = isinstance(decision, ElicitResult) and decision.action != "accept"
        seconds = self.undo_seconds
        if question.expires is not None:
            seconds = min(seconds, (question.expires - now) / _SHARE)
        return None if refuses or seconds <= 0 else now + seconds

    async def undo(self, id: str, *, by: str | None = None) -> None:
        """Take back a permission that is held, so that the question waits again. Any reviewer may do so.

        Args:
            id: id of the question.
            by: who does so, for the record; by default whoever gave the permission.

        Raises:
            LookupError: there is no question with this id.
            AlreadyDecided: the decision has taken effect, or there is nothing to undo.
        """
        row = await self._store.review(id)
        undone = row is not None and await self._store.undo(id, *undone_records(row, by, self._clock()))
        if row is None or not undone:
            raise AlreadyDecided(await self.get(id))
        decision = decision_of(row)
        if isinstance(decision, Deny) and decision.reach == "server":
            await self._store.unblock(row.identity)

    async def block(self, identity: str, target: str, *, by: str | None = None, coarse: str | None = None) -> None:
        """Block a server, and withdraw at once everything that waits from it, in all processes that share the store.

        Args:
            identity: identity of the server.
            target: its command line or URL, for display.
            by: who blocks it, for the record.
            coarse: the first of ``Origin.coarser``, to block similar servers as well, such as the same one started in
                another folder; by default only this server is blocked.
        """
        row = BlockRow(identity=identity, target=target, since=self._clock(), by=by, coarse=coarse)
        await self._store.block(row)

    async def keep_draft(self, id: str, fields: Sequence[tuple[str, str]] | None) -> bool:
        """Store what somebody has begun to type about a pending question. Returns whether it is stored.

        It is kept until the question is over, and shown to every reviewer. For a question that is over, nothing is
        stored.

        Args:
            id: id of the question.
            fields: names and values of the form's fields; ``None`` deletes the draft.

        Raises:
            Mismatch: it is longer than ``MAX_DRAFT`` bytes.
        """
        body = None if fields is None else encode(fields).decode()
        if body is not None and len(body) > MAX_DRAFT:
            raise Mismatch(f"a draft has at most {MAX_DRAFT} bytes")
        return await self._store.keep_draft(id, body)

    async def draft(self, id: str) -> list[tuple[str, str]] | None:
        """Return what somebody has begun to type about a question, or ``None``.

        Args:
            id: id of the question.
        """
        body = await self._store.draft(id)
        return None if body is None else msgspec.json.decode(body, type=list[tuple[str, str]])

    async def changes(self, slowest: float = LATER) -> AsyncIterator[int]:
        """Yield a number now, and another one whenever any question has changed, in this process or another.

        Args:
            slowest: most seconds between two reads of the store while it sends no notices of changes by other
                processes, default 0.5.
        """
        seen, wait = -1, SOON
        with self._store.news.listening() as news:
            while True:
                version = await self._store.reviews_version()
                if version != seen:
                    seen, wait = version, SOON
                    yield version
                await news.wait(CHECK if self._store.news.are_heard else wait)
                wait = min(slowest, wait * _SLOWER)

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
        if self._notify is not None and put.state == "pending":
            self._notify(kind, put.id)
        return put

    async def _decision(self, row: ReviewRow) -> Decision:
        decided = await self._decided(row)
        decision = msgspec.json.decode(decided.decision or "null", type=Decision)
        return msgspec.structs.replace(decision, ticket=Ticket(id=row.id, by=decided.by))

    async def _decided(self, row: ReviewRow) -> ReviewRow:
        """Wait for a decision. A caller that stops waiting withdraws the question."""
        try:
            row = await self._waiting.wait(row)
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
        """Store that nobody waits for a question any more.

        If the store does not respond, this is logged and not waited for.
        """
        ending = start_in(self._endings, self._store.close_review(id, state, keep_item=False))
        await asyncio.wait([ending], timeout=_ENDING)


async def _check_call(item: AnyItem, decision: AnyDecision) -> None:
    if isinstance(item, ToolItem) and isinstance(decision, EditCall):
        try:
            await check_arguments(item, decision.params)
        except ValueError as error:
            raise Mismatch(str(error)) from None


def _fingerprint(kind: str, origin: Origin, digests: list[str]) -> str:
    # Identify the call by its content, because its id differs after a restart.
    call = [origin.call.method, origin.call.name, origin.call.arguments] if origin.call else None
    return hashlib.sha256(encode([kind, origin.identity, call, *digests])).hexdigest()


def _group(origin: Origin, host: str) -> str:
    if origin.call is None:
        return f"{host}:ask:{origin.id}"
    return f"{host}:{origin.call.id}:{origin.round.n if origin.round else 0}"
