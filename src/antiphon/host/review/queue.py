"""Questions to people, stored until somebody decides: a reviewer for any number of people and processes.

Owns how a question is stored, who may decide it, and waiting for the decision. It shows nothing itself: a terminal, a
page or a script lists the questions and decides. A question belongs to no reviewer, so one that disconnects leaves it
unchanged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Any

import msgspec

from antiphon.host.audit import Audit
from antiphon.host.checks.ask_limits import LimitReached
from antiphon.host.checks.people import Decider, write_decider
from antiphon.host.review import question as questions
from antiphon.host.review import review
from antiphon.host.review.decision_watch import CHECK, LATER, SOON, DecisionWatch
from antiphon.host.review.decisions import check_arguments
from antiphon.host.review.question import AnyDecision, AnyItem, Mismatch, NotShown, Question
from antiphon.host.store import base
from antiphon.machine.asyncio_tasks import start_in
from antiphon.machine.other_frameworks import check_argument_types
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import encode_value

__all__ = ["UNDO", "AlreadyDecided", "Mismatch", "NotShown", "OpenQuestions", "Queue"]

_FEW = 8
"""Most questions that are read one by one; if there are more, all of them are read at once."""


_KnownQuestion = tuple[base.ReviewRow, Question]
"""A question that was read, with its row."""


class OpenQuestions:
    """What a store holds in the state ``"pending"``: waiting for a decision, or for the end of its time to undo."""

    def __init__(self, store: base.Store) -> None:
        self._store = store
        self._known: dict[str, _KnownQuestion] = {}

    async def read(self, limit: int = 1000, after: str | None = None) -> list[Question]:
        """Return the open questions, oldest first. An unchanged question is the same object as before."""
        rows = await self._store.reviews(("pending",), limit, contents=False, after=after)
        # Noted here, because another read, of fewer questions, may end before this one.
        known = {row.id: kept for row in rows if (kept := self._find_known(row)) is not None}
        whole = await self._whole([row.id for row in rows if row.id not in known], limit, after)
        found = ((row.id, _read_question(row, known.get(row.id), whole.get(row.id))) for row in rows)
        self._known = {id: one for id, one in found if one is not None}
        return [question for _, question in self._known.values()]

    def _find_known(self, row: base.ReviewRow) -> _KnownQuestion | None:
        """Return a row with its content, if it is known: it is unchanged while its hash and its round are."""
        kept = self._known.get(row.id)
        is_same = kept is not None and row.hash is not None and (kept[0].hash, kept[0].group) == (row.hash, row.group)
        return kept if is_same else None

    async def _whole(self, ids: Sequence[str], limit: int, after: str | None) -> dict[str, base.ReviewRow]:
        if len(ids) > _FEW:
            sought = set(ids)
            rows = await self._store.reviews(("pending",), limit, after=after)
            return {row.id: row for row in rows if row.id in sought}
        found = [await self._store.review(id) for id in ids]
        return {row.id: row for row in found if row is not None and row.state == "pending"}


def _make_ticket(row: base.ReviewRow) -> base.Ticket:
    return base.Ticket(id=row.id, by=row.by, decided=row.decided)


def _read_question(
    row: base.ReviewRow, known: _KnownQuestion | None, whole: base.ReviewRow | None
) -> _KnownQuestion | None:
    if whole is not None:
        return row, questions.question_of(whole)
    # Without its content, it ended after the first read.
    return known if known is None or known[0] == row else (row, questions.question_of(row, known[1].item))


UNDO = 5.0
"""Default seconds in which a person can take back a permission, given at a terminal or on the page."""
_SHARE = 4
"""A permission is held for at most this fraction of the time left, because the server waits only so long."""
MAX_LEFT = 100
"""Most calls of one principal that wait for a person after their caller was answered: nobody decides about more."""
MAX_DRAFT = 4 * 1024 * 1024
"""Most bytes of a draft: enough for the longest request a server may make, edited."""

HISTORY: tuple[base.ReviewState, ...] = ("decided", "done", "expired", "withdrawn")
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
        what = "has expired" if question.state == "pending" else f"is {question.state}"
        super().__init__(f"{question.id} {what}" + (f" by {question.by}" if question.by else ""))
        self.question = question
        """The question, as it is now."""


_log = logging.getLogger("antiphon.host")


class Queue:
    """A ``Reviewer`` that stores questions, with the operations that people need to decide them."""

    def __init__(
        self,
        store: base.Store,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        notify: Callable[[str, AnyItem], None] | None = None,
        undo: float = 0.0,
    ) -> None:
        """Use a store.

        Args:
            store: where questions are kept.
            clock: returns seconds since the epoch.
            monotonic: returns seconds of a clock that is never set, by which callers wait and decisions are held.
            notify: called with id and content of each new question; must return at once.
            undo: seconds for which a permission given through this queue can be undone before it takes effect, at most
                a quarter of the time left. The refusal of one request takes effect at once; one that reaches further,
                or several together, can be undone as well.
        """
        check_argument_types(Queue, locals())
        self._store = store
        self.undo_seconds = undo
        self._clock = clock
        self._notify = notify
        self._waiting = DecisionWatch(store, clock, monotonic)
        self._endings: set[asyncio.Task[None]] = set()
        self._open = OpenQuestions(store)

    async def aclose(self) -> None:
        """Cancel notices that were not sent yet. Questions that wait stay in the store."""
        close: Callable[[], Awaitable[None]] | None = getattr(self._notify, "aclose", None)
        if close is not None:
            await close()

    available = True
    """Somebody may come before the question expires."""

    @property
    def where(self) -> str:
        """How to see what waits: with a command that opens the same store."""
        return "run antiphon review (in a terminal) or antiphon review --web (in a browser), then ask again"

    async def review(self, item: review.ReviewItem) -> review.Decision:
        """Store the question, and wait until somebody has decided.

        Args:
            item: the request, or the answer, to decide about.

        Raises:
            NoReviewer: the question was ended from outside.
        """
        kind = "request" if item.result is None else "response"
        digests = [review.digest(item.params), "" if item.result is None else review.digest(item.result)]
        return await self._decision(await self._put(kind, item, digests, item.expires_in))

    async def confirm(self, item: review.ToolItem) -> review.Decision:
        """Store the question whether a tool may be called, and wait until somebody has decided.

        Args:
            item: the call to decide about.

        Raises:
            NoReviewer: the question was ended from outside.
        """
        asked, now = None if item.result is not None else questions.PENDING.get(), self._clock()
        leaves_at = None if asked is None else asked.find_deadline(item)
        expires_in = item.expires_in if asked is None or leaves_at is None else asked.kept
        digests = questions.digest_call(item.params, item.origin)
        digests += [] if item.result is None else [review.digest(item.result)]
        row = await self._put("tool", item, digests, expires_in, shared=leaves_at is not None)
        if asked is None or leaves_at is None:
            return await self._decision(row)
        call = asked.describe_left(row, item.origin, now)
        asked.left = call if row.created < now else None
        try:
            return await self._decision(row, leaves_at)
        except (questions.CallTaken, review.Blocked):
            raise
        except questions.CallLeft:
            await self._leave(row, call)
            raise
        except review.NoReviewer:
            if row.host == self._store.host or asked.seconds_left <= 0:
                raise
        # The question was that of the same call at another gateway, which was given up there.
        return await self.confirm(item)

    async def _leave(self, row: base.ReviewRow, call: base.PendingCallRow) -> None:
        """Keep a question for when its call is made again, unless another call waits for it here or elsewhere."""
        row = await self._read_anew(row)
        if self._waiting.is_awaited(row):
            return
        if not await self._store.leave_review(call, most=MAX_LEFT):
            await self._end(self._close(row))
            raise LimitReached(f"{MAX_LEFT} calls of this principal wait for approval")

    async def elicit(self, item: review.ElicitItem) -> review.Filled | review.Deny:
        """Store the question, and wait until somebody has filled in the form or refused.

        Args:
            item: the elicitation.

        Raises:
            NoReviewer: the question was ended from outside.
        """
        row = await self._put("elicitation", item, [review.digest(item.params)], item.expires_in)
        decided = await self._decided(row)
        try:
            refused = await self._store.commit(base.Change(finish=_make_ticket(decided)))
        except Exception:
            # Closed later if the store was lost: nobody is told what was decided.
            await self._close(row)
            raise
        if refused is not None:
            raise review.NoReviewer("the decision does not exist any more")
        decision, ticket = questions.decision_of(decided), _make_ticket(decided)
        if isinstance(decision, ElicitResult):
            return review.Filled(result=decision, ticket=ticket)
        return msgspec.structs.replace(decision if isinstance(decision, review.Deny) else review.Deny(), ticket=ticket)

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
        found = await self._open.read(limit, after)
        return [each for each in found if each.expires is None or each.expires > now]

    async def history(self, limit: int = 1000) -> list[Question]:
        """Return the latest questions that are over, newest first. Their content is gone, unless the store keeps it.

        Args:
            limit: most questions to return.
        """
        return [questions.question_of(row) for row in await self._store.reviews(HISTORY, limit, latest=True)]

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
        return questions.question_of(row)

    async def decide(self, id: str, decision: AnyDecision, *, hash: str, by: Decider | None = None) -> None:
        """Decide a question.

        Args:
            id: id of the question.
            decision: the decision.
            hash: ``Question.hash`` of what was shown to the person who decides.
            by: who decides: a ``Person`` who has signed in, or a name for the record that proves nothing.

        Raises:
            LookupError: there is no question with this id.
            NotShown: the question does not have this hash (any more); nothing was decided.
            Mismatch: the decision does not fit the question.
            AlreadyDecided: somebody else decided, or nobody waits any more.
            NotAllowed: a rule, or the role of the person, leaves it to somebody else.
        """
        await self.decide_all({id: decision}, {id: hash}, by=by)

    async def decide_all(
        self, decisions: Mapping[str, AnyDecision], hashes: Mapping[str, str], *, by: Decider | None = None
    ) -> None:
        """Decide several questions, such as those of one group: all or none. See ``decide`` for what it raises.

        A denial of the whole server blocks it, and withdraws everything that waits from it, in the same transaction.

        Args:
            decisions: decisions by id of the question.
            hashes: by id of the question, ``Question.hash`` of what was shown.
            by: who decides: a ``Person`` who has signed in, or a name for the record that proves nothing.
        """
        now = self._clock()
        kept: list[base.Decided] = []
        for id, given in decisions.items():
            question = await self.get(id)
            if question.item is None:
                raise AlreadyDecided(question)
            decision = questions.read_approved(question, given)
            questions.check_decider(by, question.item, decision)
            questions.check(question.item, decision)
            if isinstance(question.item, review.ToolItem) and isinstance(decision, review.EditCall):
                try:
                    await check_arguments(question.item, decision.params)
                except ValueError as error:
                    raise Mismatch(str(error)) from None
            shown = hashes.get(id, "")
            if question.state == "pending" and shown != question.hash:
                raise NotShown("the question has changed since it was shown: look at it again")
            # Store the hash that was shown, because a decision that is held may be undone before this one
            # is stored.
            kept.append(self._kept(question, decision, by, now, hash=shown, alone=len(decisions) == 1))
        late = await self._store.decide(kept)
        if late is not None:
            mine = next(decided for decided in kept if decided.id == late.id)
            has_changed = late.hash not in (None, mine.hash)
            has_changed |= mine.approvals is not None and late.approvals != mine.seen
            if late.state == "pending" and not late.held and has_changed:
                raise NotShown("the question has changed since it was shown: look at it again")
            raise AlreadyDecided(questions.question_of(late))

    def _kept(
        self, question: Question, decision: AnyDecision, by: Decider | None, now: float, *, hash: str, alone: bool
    ) -> base.Decided:
        block, name = None, write_decider(by)
        if isinstance(decision, review.Deny) and decision.reach == "server" and question.item is not None:
            origin = question.item.origin
            alike = origin.coarser[0] if origin.coarser else None
            block = base.BlockRow(identity=question.identity, target=origin.target, since=now, by=name, coarse=alike)
        decided = base.Decided(
            id=question.id,
            decision=encode_value(decision).decode(),
            by=name,
            hash=hash.partition(".")[0],
            release=self._release(question, decision, now, alone=alone),
            block=block,
            seen=encode_value(question.approvals).decode() if question.approvals else None,
        )
        return questions.count_approvals(question, decision, decided)

    def _release(self, question: Question, decision: AnyDecision, now: float, *, alone: bool) -> float | None:
        """Return when a decision takes effect; ``None`` for at once, as the refusal of one request does.

        So does one that no process waits for: nobody would block the server when its time has come.
        """
        refuses = review.is_refusal(decision)
        if isinstance(decision, review.Deny):
            refuses = not question.waited_for or (alone and decision.reach == "once")
        seconds = self.undo_seconds
        if question.expires is not None:
            seconds = min(seconds, (question.expires - now) / _SHARE)
        return None if refuses or seconds <= 0 else now + seconds

    async def undo(self, id: str, *, by: Decider | None = None, decided: float | None = None) -> None:
        """Take back a permission that is held, so that the question waits again.

        Somebody who has signed in takes back only their own, or as an admin any.

        Args:
            id: id of the question.
            by: who does so, for the record; by default whoever gave the permission.
            decided: ``Question.decided`` of the decision that is meant, so that a later one stays.

        Raises:
            LookupError: there is no question with this id.
            NotAllowed: the person did not make this decision, and is no admin.
            AlreadyDecided: the decision has taken effect, there is nothing to undo, or another decision.
        """
        row = await self._store.review(id)
        questions.check_undo(by, None if row is None else row.by)
        if row is None or decided not in (None, row.decided):
            raise AlreadyDecided(await self.get(id))
        withdrawal = questions.record_withdrawal(row, write_decider(by), self._clock())
        if not await self._store.undo(id, row.decided, *withdrawal):
            raise AlreadyDecided(await self.get(id))

    async def block(self, identity: str, target: str, *, by: Decider | None = None, coarse: str | None = None) -> None:
        """Block a server, and withdraw at once everything that waits from it, in all processes that share the store.

        Args:
            identity: identity of the server.
            target: its command line or URL, for display.
            by: who blocks it, for the record.
            coarse: the first of ``Origin.coarser``, to block similar servers as well, such as the same one started in
                another folder; by default only this server is blocked.
        """
        row = base.BlockRow(identity=identity, target=target, since=self._clock(), by=write_decider(by), coarse=coarse)
        await Audit(self._store).record_access_change(identity, "blocked", by=by, target=target)
        await self._store.block(row)

    async def unblock(self, identity: str, *, by: Decider | None = None) -> bool:
        """Let a server ask again. Returns whether it was blocked.

        Args:
            identity: identity of the server.
            by: who lets it, for the record.
        """
        blocked = next((row for row in await self._store.blocks(identity) if row.identity == identity), None)
        if blocked is None:
            return False
        await Audit(self._store).record_access_change(identity, "unblocked", by=by, target=blocked.target)
        return await self._store.unblock(identity)

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
        body = None if fields is None else encode_value(fields).decode()
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
                wait = min(slowest, wait * 1.3)  # Looks without news come ever later.

    async def _put(
        self, kind: base.ReviewKind, item: AnyItem, digests: Sequence[str], lasts: float | None, *, shared: bool = False
    ) -> base.ReviewRow:
        await self._waiting.follow_clock()
        now, origin, call = self._clock(), item.origin, item.origin.call
        asked = f"{call.id}:{origin.round.n if origin.round else 0}" if call else f"ask:{origin.id}"
        row = base.ReviewRow(
            id=token_hex(8),
            kind=kind,
            fingerprint=questions.fingerprint_question(kind, origin, digests),
            group=f"{self._store.host}:{asked}",
            identity=origin.identity,
            created=now,
            expires=None if lasts is None else now + lasts,
            host=self._store.host,
            item=encode_value(item).decode(),
            hash=review.hash_of(item),
            shared=shared,
        )
        storing = asyncio.ensure_future(self._store_question(row, item))
        self._waiting.storing.append(row)
        try:
            put = await asyncio.shield(storing)
        except BaseException:
            self._waiting.storing.remove(row)
            # A caller that stops waiting withdraws the question, even if the store has it only after that.
            await self._end(self._take_back(storing, row))
            raise
        self._waiting.storing.remove(row)
        return put

    async def _store_question(self, row: base.ReviewRow, item: AnyItem) -> base.ReviewRow:
        put = await self._store.put_review(row)
        if self._notify is not None and put.state == "pending" and not (row.shared and put.id != row.id):
            try:
                self._notify(put.id, item)
            except Exception as error:
                # The question is stored, and can be decided without the notice.
                _log.warning("a question could not be announced: %s", type(error).__name__)
        return put

    async def _take_back(self, storing: asyncio.Future[base.ReviewRow], row: base.ReviewRow) -> None:
        await asyncio.wait([storing])
        # A store that did not respond in time may have stored it, or still do so.
        put = row if storing.cancelled() or storing.exception() else storing.result()
        # One that it has joined may have been left to it by the call that asked, unless that one carries it out.
        if put.group == row.group or put.state == "pending":
            await self._close(put)

    async def _read_anew(self, row: base.ReviewRow) -> base.ReviewRow:
        """Return a question with the process that waits for it now: this one may have been suspended."""
        with suppress(Exception):
            row = await self._store.review(row.id) or row
        return row

    async def _close(self, row: base.ReviewRow) -> None:
        """Withdraw a question, unless another call waits for it, in this process or another."""
        if self._waiting.is_awaited(await self._read_anew(row)):
            return
        over = row.expires is not None and self._clock() >= row.expires - _AT_ONCE
        await self._store.close_review(row.id, "expired" if over else "withdrawn", keep_item=False)

    async def _decision(self, row: base.ReviewRow, leaves_at: float | None = None) -> review.Decision:
        decided = await self._decided(row, leaves_at)
        decision = msgspec.json.decode(decided.decision or "null", type=review.Decision)
        return msgspec.structs.replace(decision, ticket=_make_ticket(decided))

    async def _decided(self, row: base.ReviewRow, leaves_at: float | None = None) -> base.ReviewRow:
        """Wait for a decision. A caller that stops waiting withdraws the question, unless it leaves to ask again."""
        limit = asyncio.timeout_at(leaves_at)
        try:
            async with limit:
                # One that was taken over may have been decided before.
                row = row if row.state == "decided" else await self._waiting.wait(row)
        except BaseException:
            if limit.expired():
                raise questions.CallLeft(row.id) from None
            await self._end(self._close(row))
            raise
        if row.outcome == base.BLOCKED:
            raise review.Blocked("the server was blocked")
        if leaves_at is not None and (row.state == "done" or row.outcome == base.TAKEN):
            raise questions.CallTaken(row.id)
        if row.state != "decided":
            raise review.NoReviewer(f"the review was {row.state}")
        return row

    async def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        """Store that nobody waits for a question any more. A store that does not respond is not waited for."""
        await asyncio.wait([start_in(self._endings, ending)], timeout=_ENDING)
