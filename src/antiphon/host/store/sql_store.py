"""A store in a database: a SQLite file, or PostgreSQL. It outlives the process, and several processes can share it.

Owns opening it, the lease of this process, and one transaction per method. ``money``, ``reviews``, ``grants``,
``audit`` and ``recovery`` have the work done in them.

A transaction costs far more than the changes in it. While one runs, the next changes are collected, and then made
together (``Grouped``): each of them still happens completely or not at all, in order of arrival. Where changes come
alone, each is made at once; while several come together now and then, and just after another transaction, a change
waits for the next turn of the event loop, and is made with all that come until then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from antiphon.errors import ConfigError
from antiphon.host.budget import Amount
from antiphon.host.store import audit_tables as trail
from antiphon.host.store import base, money, tables
from antiphon.host.store import grant_tables as permits
from antiphon.host.store import recovery as leftovers
from antiphon.host.store import reviews as questions
from antiphon.host.store.chain import Head, Record
from antiphon.host.store.news import News
from antiphon.host.store.recovery import BEATS, LEASE, LeaseWatch, is_own, name_process
from antiphon.machine.asyncio_tasks import end_tasks, ignore_error, settle_future
from antiphon.sql.database_store import StorePatience
from antiphon.sql.runner import CLOSING, DatabaseVersion, Runner

C = TypeVar("C")


MAX_GROUP = 64
"""Most changes in one transaction: more would gain little, and other processes wait for it."""


CALM = 8
"""Transactions in a row with a single change, after which the next change is not expected to have company."""
_SAME_TURN = 0.000_1
"""Seconds after a transaction in which a change may belong to the same turn of the event loop, and more may come in it.
To be told of the end of each turn would take one turn more of every change that comes alone."""


class Grouped(Generic[C]):
    """Groups changes. ``make`` makes several in one transaction: all of them, or none and it raises."""

    def __init__(
        self,
        make: Callable[[Sequence[C]], asyncio.Future[None]],
        refused: type[Exception],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``refused`` is raised if a change is not allowed; each of its group is then made by itself."""
        self._clock, self._ended_at = clock, -1.0
        self._make = make
        self._refused = refused
        self._waiting: list[tuple[C, asyncio.Future[None]]] = []
        """Changes, each with the future of its caller."""
        self._alone: deque[tuple[C, asyncio.Future[None]]] = deque()
        self._making: asyncio.Future[None] | None = None
        self._is_collecting = False
        """Whether changes are collected until the next turn of the event loop."""
        self._alone_in_row = CALM
        """How many transactions in a row had a single change."""

    def add(self, change: C) -> asyncio.Future[None]:
        """Make a change, together with any others. Cancelling the future does not undo it.

        Returns:
            Done when the change is made, with whatever making it raises.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, done))
        if self._making is None and not self._is_collecting:
            if self._alone_in_row < CALM or self._clock() - self._ended_at < _SAME_TURN:
                self._collect()
            else:
                self._begin()
        return done

    async def finish(self) -> None:
        """Wait until all changes added so far are made."""
        while self._making is not None or self._alone or self._waiting:
            await (asyncio.sleep(0) if self._making is None else asyncio.wait([self._making]))

    def _begin(self) -> None:
        """Start with the next changes."""
        self._is_collecting = False
        if self._alone:
            group = [self._alone.popleft()]
        else:
            group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
            self._alone_in_row = 0 if len(group) > 1 else self._alone_in_row + 1
        try:
            self._making = making = self._make([change for change, _ in group])
        except Exception as error:
            # The transaction could not start. Handled like a failed one, so that the next change makes an
            # attempt of its own.
            self._making = making = asyncio.get_running_loop().create_future()
            making.set_exception(error)
        if making.done():
            self._made(group, making)
        else:
            making.add_done_callback(partial(self._made, group))

    def _made(self, group: list[tuple[C, asyncio.Future[None]]], making: asyncio.Future[None]) -> None:
        error = asyncio.CancelledError() if making.cancelled() else making.exception()
        if len(group) > 1 and isinstance(error, self._refused):
            # Nothing was changed: making each by itself shows which one is refused.
            self._alone.extend(group)
        else:
            for _, done in group:
                settle_future(done, error)
        self._making, self._ended_at = None, self._clock()
        if self._alone or self._waiting:
            self._collect()

    def _collect(self) -> None:
        """Begin the next transaction in four turns of the event loop: calls that were read together come until then."""
        self._is_collecting = True
        later: Any = asyncio.get_running_loop().call_soon
        later(later, later, later, self._begin)


Work = Callable[[Connection], object]

MAX_OWED = 1_000
"""Most pieces of work that are kept; beyond that the oldest is dropped, and recovered when the process has ended."""

_log = logging.getLogger("antiphon.host")


class Owed:
    """Work to do when the store can be reached again. ``run`` does some work in a transaction."""

    def __init__(self, run: Callable[[Work], Awaitable[object]]) -> None:
        self._run = run
        self._works: dict[str, Work] = {}
        self._paying: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._works)

    def add(self, key: str, work: Work) -> None:
        """Add work; the same key twice is one. It must be harmless if it has happened already."""
        self._works[key] = work
        if len(self._works) > MAX_OWED:
            del self._works[next(iter(self._works))]
            _log.error("more than %d changes could not be saved; what they held counts as spent", MAX_OWED)

    async def pay(self) -> None:
        """Do the work, each piece in a transaction of its own, and once for all who call this at the same time.

        Raises:
            Whatever the store raises; the remaining work is then kept.
        """
        if self._paying is None:
            self._paying = asyncio.get_running_loop().create_task(self._pay())
            self._paying.add_done_callback(self._paid)
        # Not cancelled with its caller: a transaction that has begun goes on, and must not be made again.
        await asyncio.shield(self._paying)

    async def _pay(self) -> None:
        for key, work in list(self._works.items()):
            await self._run(work)
            if self._works.get(key) is work:
                del self._works[key]

    def _paid(self, paying: asyncio.Task[None]) -> None:
        self._paying = None
        ignore_error(paying)


T = TypeVar("T")
P = ParamSpec("P")

_MARK = 0.001
"""Least change of a mark, in seconds, so that a process is seen to be alive even if its clock stands still or was set
back."""

LISTING = 60.0
"""Seconds for operations that may take long: opening a store, which may make its tables, and reading many records."""


def _run_by(
    work: Callable[Concatenate[Connection, P], T], patience: float | None = None, *, write: bool = False
) -> Callable[Concatenate[SqlStore, P], CoroutineType[Any, Any, T]]:
    """Make a method that reads, or with ``write`` changes, with one function; ``patience`` as for ``run_work``."""

    async def run_with(self: SqlStore, *args: P.args, **options: P.kwargs) -> T:
        return await self.run_work(lambda connection: work(connection, *args, **options), patience, write=write)

    return run_with


def _run_at(
    work: Callable[Concatenate[Connection, float, P], T], *, write: bool = False
) -> Callable[Concatenate[SqlStore, P], CoroutineType[Any, Any, T]]:
    """As ``_run_by``, for a function that also takes the time."""

    async def run_with(self: SqlStore, *args: P.args, **options: P.kwargs) -> T:
        now = self.clock()
        return await self.run_work(lambda connection: work(connection, now, *args, **options), write=write)

    return run_with


class SqlStore:
    """See ``base.Store``. It opens on first use."""

    bounded = False

    def __init__(
        self,
        runner: Runner,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        lease: float = LEASE,
        keep_content: bool = False,
    ) -> None:
        """Use a database.

        ``clock`` returns the times that are stored, ``monotonic`` measures the silence of other processes; both in
        seconds. After ``lease`` seconds of silence another process counts as killed. ``keep_content`` keeps what was
        reviewed after the review is over.
        """
        self.host = name_process()
        self.news = News(runner.watched(questions.VERSION) or runner.notices(questions.CHANNEL), self._open)
        self._runner = runner
        self.clock = clock
        self._monotonic = monotonic
        self._lease = lease
        self._watch = LeaseWatch(lease)
        self._mark = 0.0
        self._keep_content = keep_content
        self._changes = Grouped(self._make, money.RefusedChange)
        self._known: tuple[DatabaseVersion | None, Head, base.Supposed | None] = None, Head(seq=0, hash=""), None
        """The end of the chain, and what was found to stand, in one version of the database."""
        self._owed = Owed(runner.run)
        self._patience = StorePatience(runner.last_turn)
        self._opening = asyncio.Lock()
        self._heart: asyncio.Task[None] | None = None
        self._only_read = False
        self._outdated: ConfigError | None = None
        """Set when a newer release has added to the store what this one must not ignore; every method raises it."""

    balances = _run_by(money.list_balances)
    balances_of = _run_by(money.balances_of)
    holds = _run_by(money.find_holds)
    entries = _run_by(trail.list_entries, LISTING)
    head = _run_by(trail.read_head)
    entries_at = _run_by(trail.entries_at)
    find_records = _run_by(trail.find, LISTING)
    asks = _run_by(trail.find_asks)
    ask = _run_by(trail.find_ask)
    spending = _run_by(trail.read_spending)
    calls = _run_by(trail.count_calls)
    servers = _run_by(trail.find_servers)
    standing = _run_by(permits.find_standing)
    definitions = _run_by(permits.list_definitions)
    blocks = _run_by(permits.list_blocks)
    run_entries = _run_by(questions.list_run_entries)
    review = _run_by(questions.find_review)
    reviews = _run_by(questions.in_states)
    draft = _run_by(questions.read_draft)
    reviews_version = _run_by(questions.read_version)
    partials = _run_by(questions.find_partials)
    gather = _run_by(trail.gather_more, write=True)
    switch_tool = _run_by(permits.switch_tool, write=True)
    add_grant = _run_by(permits.add_grant, write=True)
    revoke = _run_by(permits.revoke_grant, write=True)
    unblock = _run_by(permits.unblock_server, write=True)
    add_run_entry = _run_by(questions.add_run_entry, write=True)
    forget_run = _run_by(questions.forget_run, write=True)
    keep_draft = _run_by(questions.keep_draft, write=True)
    keep_partial = _run_by(questions.keep_partial, write=True)
    drop_partial = _run_by(questions.drop_partial, write=True)
    grants = _run_at(permits.in_force)
    pending_call = _run_at(questions.find_call)
    timed_rows = _run_at(questions.list_timed_rows)
    waiting = _run_at(questions.count_waiting)
    watched = _run_at(questions.is_watched)
    keep_timed_row = _run_at(questions.keep_timed_row, write=True)
    take_timed_row = _run_at(questions.take_timed_row, write=True)
    task_so_far = _run_at(money.task_so_far, write=True)

    async def commit(self, change: base.Change) -> str | None:
        try:
            if self._heart is None or self._outdated is not None:
                await self._open()
            await self._patience.wait(self._changes.add(change))
        except money.RefusedChange as refused:
            return str(refused)
        for id in filter(None, [change.finish and change.finish.id, *(change.ended.reviews if change.ended else ())]):
            self.news.tell(id)
        return None

    async def block(self, row: base.BlockRow) -> None:
        await self._change(partial(self._block, row, ()))

    async def put_review(self, row: base.ReviewRow) -> base.ReviewRow:
        return await self._change(partial(questions.put_review, row=row, now=self.clock()), row.id)

    async def leave_review(self, call: base.PendingCallRow, *, most: int) -> bool:
        leaving = partial(questions.leave_review, now=self.clock(), call=call, host=self.host, most=most)
        return await self._change(leaving, call.id)

    async def settle_call(self, call: base.PendingCallRow) -> None:
        await self._change(partial(questions.keep_call, row=call), call.id)

    async def decide(self, decisions: Sequence[base.Decided]) -> base.ReviewRow | None:
        try:
            await self.run_work(partial(self._write_decisions, decisions), write=True)
        except money.RefusedChange as refused:
            late = await self.review(str(refused))
            if late is None:
                raise LookupError(f"there is no review {refused}") from None
            return late
        for decided in decisions:
            self.news.tell(None if decided.block is not None else decided.id)
        return None

    async def undo(self, id: str, decided: float | None, *records: Record) -> bool:
        return await self._change(partial(self._undo_change, id, decided, records), id)

    async def release(self, id: str, decided: float | None) -> bool:
        taking = partial(questions.end_hold, id=id, decided=decided, values={"state": "decided"})
        return await self._change(taking, id)

    async def close_review(self, id: str, state: Literal["expired", "withdrawn", "done"], *, keep_item: bool) -> None:
        closing = partial(questions.close_review, id=id, state=state, keep_item=keep_item)
        try:
            await self._change(closing, id)
        except (OSError, SQLAlchemyError):
            self._owed.add(f"review:{id}", closing)

    async def claim_review(self, id: str, expires: float | None) -> None:
        await self._change(partial(questions.claim_review, id=id, host=self.host, expires=expires), id)

    async def undecided(self) -> set[str]:
        return await self.run_work(partial(questions.list_undecided, host=self.host))

    async def watch(self, until: float) -> None:
        await self.run_work(partial(questions.watch_process, host=self.host, until=until), write=True)

    async def recover(self) -> int:
        done = await self.run_work(self._recover_store, write=True)
        await self._owed.pay()
        return done

    async def aclose(self) -> None:
        """See ``base.Store.aclose``. It waits for the database, but no longer than ``runner.CLOSING`` per step."""
        try:
            await self.news.aclose()
            heart, self._heart = self._heart, None
            if heart is not None:
                await end_tasks(heart)
                async with asyncio.timeout(CLOSING):
                    await self._changes.finish()
                    await self._owed.pay()
                    await self._runner.run(partial(leftovers.record_leaving, host=self.host))
        except Exception as error:
            # The next process that uses the store finds that this one does not run any more, and recovers what it left.
            _log.warning("the end of this process could not be recorded in the store: %s", type(error).__name__)
        finally:
            await self._runner.aclose()

    async def run_work(
        self, work: Callable[[Connection], T], patience: float | None = None, *, write: bool = False
    ) -> T:
        """Open the store, and read or write; ``patience``: most seconds, if not the usual ones."""
        await self._open()
        return await self._patience.wait(self._runner.run(work, write=write), patience)

    async def _change(self, work: Callable[[Connection], T], question: str | None = None) -> T:
        """Change a question, or any; those who wait in this process are told at once."""
        result = await self.run_work(work, write=True)
        self.news.tell(question)
        return result

    async def _open(self) -> None:
        if self._outdated is not None:
            raise ConfigError(str(self._outdated))
        self._runner.bind()
        # A heart that has ended was of an event loop before this one.
        if (self._heart is not None and not self._heart.done()) or self._only_read:
            return
        async with self._opening:
            if self._runner.read_only:
                self._only_read = await self._patience.wait(self._runner.run(_check_readable, write=False), LISTING)
            elif self._heart is None or self._heart.done():
                if not is_own(self.host):
                    self.host = name_process()
                await self._patience.wait(self._runner.run(self._prepare_tables), LISTING)
                self._heart = asyncio.create_task(self._beating(), name="antiphon-store-lease")

    def _prepare_tables(self, connection: Connection) -> None:
        tables.make_tables(connection)
        self._recover_store(connection)

    def _recover_store(self, connection: Connection) -> int:
        try:
            # A newer release may have changed the tables since we opened the store.
            tables.TABLES.check(connection)
        except ConfigError as error:
            self._outdated = error
            raise
        now = self.clock()
        self._mark = max(now, self._mark + _MARK)
        leftovers.record_beat(connection, self.host, self._mark)
        return leftovers.recover_processes(
            connection, self.host, now, lambda marks: self._watch.silent(marks, self._monotonic())
        )

    async def _beating(self) -> None:
        while True:
            await asyncio.sleep(self._lease / BEATS)
            try:
                await self._runner.run(self._recover_store)
                await self._owed.pay()
            except ConfigError as error:
                _log.error("%s", error)
                return
            except Exception as error:
                # The next attempt may succeed. If the lease ends, others only settle what we hold.
                _log.warning("the store could not be reached: %s", type(error).__name__)

    def _make(self, changes: Sequence[base.Change]) -> asyncio.Future[None]:
        # Contents and definitions may be megabytes.
        large = [each for each in changes if each.define or [record for record in each.records if record.content]]
        making = self._runner.run(partial(self._commit_changes, changes), brief=not large)
        if [change for change in changes if change.settle or change.last]:
            making.add_done_callback(partial(self._save_later, changes))
        return making

    def _save_later(self, changes: Sequence[base.Change], making: asyncio.Future[None]) -> None:
        """Keep what could not be saved at the end of asks, to save it later: else this process would hold the money."""
        error = None if making.cancelled() else making.exception()
        if error is None or isinstance(error, money.RefusedChange):
            return
        for change in changes:
            if change.settle is not None:
                again = partial(self._settle_again, change.settle, change.records)
                self._owed.add(f"hold:{change.settle.id}", again)
            elif change.last:
                self._owed.add(f"last:{id(change)}", partial(self._end_again, change))

    def _commit_changes(self, changes: Sequence[base.Change], connection: Connection) -> None:
        version = self._runner.version(connection)
        # Not read again while nobody has changed anything, as between two calls of one tool.
        known, end, standing = self._known
        if version is None or known != version:
            end, standing = trail.lock_chain(connection), None
        records: list[Record] = []
        for change in changes:
            # Read once for calls of one tool in a row: only a change of this transaction could alter it meanwhile.
            if change.supposed is not None and change.supposed != standing:
                now = permits.find_standing(connection, change.supposed.identities, change.supposed.tool)
                if not base.still_stands(change.supposed, now):
                    raise money.RefusedChange("standing")
                standing = change.supposed
            if change.define is not None:
                standing = None
            records += self._apply_change(change, connection)
        end = trail.append_records(connection, end, records)
        self._known = self._runner.version(connection, version), end, standing

    def _apply_change(self, change: base.Change, connection: Connection) -> Sequence[Record]:
        now, records = self.clock(), change.records
        if change.settle is not None:
            records = self._settle_rows(change.settle, records, connection) or base.correct_late_records(
                records, change.settle, Amount()
            )
        if change.hold is not None:
            money.take_reservation(connection, change.hold, host=self.host, now=now)
        if change.send is not None:
            money.mark_sent(connection, change.send)
        if change.use is not None and not permits.use_grant(connection, change.use, now):
            raise money.RefusedChange("grant")
        if change.finish is not None and not questions.carry_out(connection, change.finish, self._keep_content):
            raise money.RefusedChange("review")
        if change.begin is not None:
            if questions.find_call(connection, now, fingerprint=change.begin.fingerprint) is not None:
                raise money.RefusedChange("sent")
            questions.keep_call(connection, change.begin)
            questions.withdraw_taken(connection, change.begin, keep_item=self._keep_content)
        if change.define is not None:
            permits.define_tool(connection, change.define)
        if change.ended is not None:
            questions.record_end(connection, change.ended)
        return records

    def _settle_rows(
        self, settling: base.Settlement, records: Sequence[Record], connection: Connection
    ) -> Sequence[Record] | None:
        """Settle. Returns the records with the amounts charged now; ``None`` if this process had settled it before."""
        if money.settle_reservation(connection, settling.id, settling.amount):
            return records
        rest = money.settle_late(connection, settling.id, settling.amount)
        return None if rest is None else base.correct_late_records(records, settling, rest)

    def _settle_again(self, settling: base.Settlement, records: Sequence[Record], connection: Connection) -> None:
        """Settle what could not be saved before. If only the reply was lost, it is saved already."""
        end = trail.lock_chain(connection)
        trail.append_records(connection, end, self._settle_rows(settling, records, connection) or ())

    def _end_again(self, change: base.Change, connection: Connection) -> None:
        """Save what could not be saved at the end of an ask."""
        try:
            self._commit_changes([change], connection)
        except money.RefusedChange:
            # Another process has taken over the question since, so that it says what became of the decision.
            self._commit_changes([base.Change(records=change.records)], connection)

    def _undo_change(self, id: str, decided: float | None, records: Sequence[Record], connection: Connection) -> bool:
        end, row = trail.lock_chain(connection), questions.find_review(connection, id)
        undone = questions.end_hold(connection, id, decided, base.UNDECIDED)
        trail.append_records(connection, end, records if undone else ())
        if undone and row is not None and row.blocks:
            rows = questions.in_states(connection, limit=permits.MAX_LISTED, contents=False)
            if row.identity not in {each.identity for each in rows if each.blocks}:
                permits.unblock_server(connection, row.identity)
        return undone

    def _block(self, row: base.BlockRow, but: Sequence[str], connection: Connection) -> None:
        permits.block_server(connection, row)
        questions.withdraw_from(connection, row, but, keep_item=self._keep_content)

    def _write_decisions(self, decisions: Sequence[base.Decided], connection: Connection) -> None:
        late = questions.decide_reviews(connection, decisions, self.clock())
        if late is not None:
            raise money.RefusedChange(late)
        for decided in decisions:
            if decided.block is not None and decided.release is not None:
                permits.block_server(connection, decided.block)
            elif decided.block is not None:
                self._block(decided.block, [one.id for one in decisions], connection)


def _check_readable(connection: Connection) -> bool:
    """Check that a read-only store can be read without changing it."""
    if not tables.TABLES.are_made(connection):
        raise ConfigError("the store has no tables, and is read-only, so that none can be made")
    return True
