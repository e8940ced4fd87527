"""A store in a database: a SQLite file, or PostgreSQL. It outlives the process, and several processes can share it.

Owns opening it, the lease of this process, and one transaction per method. ``money``, ``reviews``, ``grants``,
``audit`` and ``recovery`` have the work done in them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from types import CoroutineType
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from antiphon.errors import ConfigError
from antiphon.host.budget import Amount
from antiphon.host.store import audit_tables as trail
from antiphon.host.store import base, money, tables
from antiphon.host.store import grant_tables as permits
from antiphon.host.store import recovery as leftovers
from antiphon.host.store import reviews as questions
from antiphon.host.store.chain import Record
from antiphon.host.store.group_commit import Grouped, Owed
from antiphon.host.store.news import News
from antiphon.host.store.recovery import BEATS, LEASE, LeaseWatch, is_own, name_process
from antiphon.sql.database_store import StorePatience
from antiphon.sql.runner import CLOSING, Runner

T = TypeVar("T")
P = ParamSpec("P")

_MARK = 0.001
"""Least change of a mark, in seconds, so that a process is seen to be alive even if its clock stands still or was set
back."""

LISTING = 60.0
"""Seconds for operations that may take long: opening a store, which may make its tables, and reading many records."""

_log = logging.getLogger("antiphon.host")


def _reads(
    work: Callable[Concatenate[Connection, P], T], patience: float | None = None
) -> Callable[Concatenate[SqlStore, P], CoroutineType[Any, Any, T]]:
    """Make a method that reads with one function; ``patience`` as for ``run_read``."""

    async def read(self: SqlStore, *args: P.args, **options: P.kwargs) -> T:
        return await self.run_read(lambda connection: work(connection, *args, **options), patience)

    return read


def _writes(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[SqlStore, P], CoroutineType[Any, Any, T]]:
    """Make a method that writes with one function."""

    async def write(self: SqlStore, *args: P.args, **options: P.kwargs) -> T:
        return await self.run_write(lambda connection: work(connection, *args, **options))

    return write


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
        self._clock = clock
        self._monotonic = monotonic
        self._lease = lease
        self._watch = LeaseWatch(lease)
        self._mark = 0.0
        self._keep_content = keep_content
        self._changes = Grouped(self._make, money.RefusedChange)
        self._owed = Owed(runner.run)
        self._patience = StorePatience(runner.last_turn)
        self._opening = asyncio.Lock()
        self._heart: asyncio.Task[None] | None = None
        self._only_read = False
        self._has_content = False
        """Whether a record with content was kept."""
        self._outdated: ConfigError | None = None
        """Set when a newer release has added to the store what this one must not ignore; every method raises it."""

    balances = _reads(money.list_balances)
    balances_of = _reads(money.balances_of)
    holds = _reads(money.find_holds)
    entries = _reads(trail.list_entries, LISTING)
    head = _reads(trail.read_head)
    entries_at = _reads(trail.entries_at)
    find_records = _reads(trail.find)
    record_keys = _reads(trail.keys, LISTING)
    asks = _reads(trail.find_asks)
    ask = _reads(trail.find_ask)
    spending = _reads(trail.read_spending)
    calls = _reads(trail.count_calls)
    servers = _reads(trail.find_servers)
    definition = _reads(permits.find_definition)
    standing = _reads(permits.find_standing)
    definitions = _reads(permits.list_definitions)
    blocks = _reads(permits.list_blocks)
    run_entries = _reads(questions.list_run_entries)
    review = _reads(questions.find_review)
    reviews = _reads(questions.in_states)
    draft = _reads(questions.read_draft)
    reviews_version = _reads(questions.read_version)
    partials = _reads(questions.find_partials)
    pages = _reads(questions.find_pages)
    browsers = _reads(questions.browsers_of)
    gather = _writes(trail.gather_more)
    switch_tool = _writes(permits.switch_tool)
    add_grant = _writes(permits.add_grant)
    revoke = _writes(permits.revoke_grant)
    unblock = _writes(permits.unblock_server)
    add_run_entry = _writes(questions.add_run_entry)
    forget_run = _writes(questions.forget_run)
    keep_draft = _writes(questions.keep_draft)
    keep_partial = _writes(questions.keep_partial)
    drop_partial = _writes(questions.drop_partial)
    keep_page = _writes(questions.keep_page)
    keep_browser = _writes(questions.keep_browser)

    async def commit(self, change: base.Change) -> str | None:
        try:
            await self._open()
            await self._patience.wait(self._changes.add(change))
        except money.RefusedChange as refused:
            return str(refused)
        for id in [change.finish, *(change.ended.reviews if change.ended is not None else ())]:
            if id is not None:
                self.news.tell(id)
        return None

    async def task_so_far(self, task: str, ask: str) -> base.TaskSoFar:
        return await self.run_write(partial(money.task_so_far, task=task, ask=ask, now=self._clock()))

    async def grants(self, identity: str | None = None) -> list[base.GrantRow]:
        return await self.run_read(partial(permits.in_force, identity=identity, now=self._clock()))

    async def block(self, row: base.BlockRow) -> None:
        await self._change(partial(self._block, row, ()))

    async def put_review(self, row: base.ReviewRow, *, joins: bool = False) -> base.ReviewRow:
        return await self._change(partial(questions.put_review, row=row, now=self._clock(), joins=joins), row.id)

    async def leave_review(self, call: base.PendingCallRow, *, most: int) -> bool:
        leaving = partial(questions.leave_review, call=call, host=self.host, most=most)
        return await self._change(leaving, call.id)

    async def pending_call(self, *, id: str = "", fingerprint: str = "") -> base.PendingCallRow | None:
        finding = partial(questions.find_call, id=id, fingerprint=fingerprint, now=self._clock())
        return await self.run_read(finding)

    async def settle_call(self, call: base.PendingCallRow) -> None:
        await self._change(partial(questions.keep_call, row=call), call.id)

    async def waiting(self) -> int:
        return await self.run_read(partial(questions.count_waiting, now=self._clock()))

    async def decide(self, decisions: Sequence[base.Decided]) -> base.ReviewRow | None:
        try:
            await self.run_write(partial(self._write_decisions, decisions))
        except money.RefusedChange as refused:
            return await self.review(str(refused))
        for decided in decisions:
            self.news.tell(None if decided.block is not None else decided.id)
        return None

    async def undo(self, id: str, *records: Record) -> bool:
        return await self._change(partial(self._undo_change, id, records), id)

    async def release(self, id: str) -> bool:
        return await self._change(partial(questions.release_decision, id=id, now=self._clock()), id)

    async def close_review(self, id: str, state: Literal["expired", "withdrawn", "done"], *, keep_item: bool) -> None:
        closing = partial(questions.close_review, id=id, state=state, keep_item=keep_item)
        try:
            await self._change(closing, id)
        except (OSError, SQLAlchemyError):
            self._owed.add(f"review:{id}", closing)

    async def claim_review(self, id: str) -> None:
        await self._change(partial(questions.claim_review, id=id, host=self.host), id)

    async def undecided(self) -> set[str]:
        return await self.run_read(partial(questions.list_undecided, host=self.host))

    async def watch(self, until: float) -> None:
        await self.run_write(partial(questions.watch_process, host=self.host, until=until))

    async def watched(self) -> bool:
        return await self.run_read(partial(questions.is_watched, now=self._clock()))

    async def recover(self) -> int:
        done = await self.run_write(self._recover_store)
        await self._owed.pay()
        return done

    async def aclose(self) -> None:
        """See ``base.Store.aclose``. It waits for the database, but no longer than ``runner.CLOSING`` per step."""
        await self.news.aclose()
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            with suppress(asyncio.CancelledError):
                await heart
            try:
                async with asyncio.timeout(CLOSING):
                    await self._leave_store()
            except Exception as error:
                # The next process that uses the store finds that this one does not run any more, and
                # recovers what it left.
                _log.warning("the end of this process could not be recorded in the store: %s", type(error).__name__)
        await self._runner.aclose()

    async def _leave_store(self) -> None:
        await self._changes.finish()
        await self._owed.pay()
        await self._runner.run(partial(leftovers.record_leaving, host=self.host))

    async def run_write(self, work: Callable[[Connection], T]) -> T:
        """Open the store and write."""
        await self._open()
        return await self._patience.wait(self._runner.run(work))

    async def _change(self, work: Callable[[Connection], T], question: str | None = None) -> T:
        """Change a question, or any; those who wait in this process are told at once."""
        result = await self.run_write(work)
        self.news.tell(question)
        return result

    async def run_read(self, work: Callable[[Connection], T], patience: float | None = None) -> T:
        """Open the store and read; ``patience``: most seconds, if not the usual ones."""
        await self._open()
        return await self._patience.wait(self._runner.run(work, write=False), patience)

    async def _open(self) -> None:
        if self._outdated is not None:
            raise ConfigError(str(self._outdated))
        if self._heart is not None or self._only_read:
            return
        async with self._opening:
            if self._runner.read_only:
                self._only_read = await self._patience.wait(self._runner.run(_check_readable, write=False), LISTING)
            elif self._heart is None:
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
        now = self._clock()
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

    def _make(self, changes: Sequence[base.Change]) -> Awaitable[None]:
        # Contents and definitions may be megabytes, and keys are made from earlier records as well.
        self._has_content = self._has_content or any(record.content for each in changes for record in each.records)
        is_brief = not self._has_content and not any(change.define for change in changes)
        making = self._runner.run(partial(self._commit_changes, changes), brief=is_brief)
        if any(change.settle for change in changes):
            making.add_done_callback(partial(self._save_later, changes))
        return making

    def _save_later(self, changes: Sequence[base.Change], making: asyncio.Future[None]) -> None:
        """Keep the settlements that could not be saved, to save them later: else this process would hold the money."""
        error = None if making.cancelled() else making.exception()
        if error is None or isinstance(error, money.RefusedChange):
            return
        for change in changes:
            if change.settle is not None:
                again = partial(self._settle_again, change.settle, change.records)
                self._owed.add(f"hold:{change.settle.id}", again)

    def _commit_changes(self, changes: Sequence[base.Change], connection: Connection) -> None:
        end = trail.lock_chain(connection)
        records: list[Record] = []
        standing: base.Supposed | None = None
        for change in changes:
            # Read once for calls of one tool in a row: only a change of this transaction could alter it meanwhile.
            if change.supposed is not None and change.supposed != standing:
                if not permits.still_stands(connection, change.supposed):
                    raise money.RefusedChange("standing")
                standing = change.supposed
            if change.define is not None:
                standing = None
            records += self._apply_change(change, connection)
        trail.append_records(connection, end, records)

    def _apply_change(self, change: base.Change, connection: Connection) -> Sequence[Record]:
        now, records = self._clock(), change.records
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
        if change.finish is not None and not questions.finish_review(
            connection, change.finish, keep_item=self._keep_content
        ):
            raise money.RefusedChange("review")
        if change.begin is not None:
            questions.keep_call(connection, change.begin)
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

    def _undo_change(self, id: str, records: Sequence[Record], connection: Connection) -> bool:
        end = trail.lock_chain(connection)
        undone = questions.undo_decision(connection, id, self._clock())
        trail.append_records(connection, end, records if undone else ())
        return undone

    def _block(self, row: base.BlockRow, but: Sequence[str], connection: Connection) -> None:
        permits.block_server(connection, row)
        questions.withdraw_from(connection, row, but, keep_item=self._keep_content)

    def _write_decisions(self, decisions: Sequence[base.Decided], connection: Connection) -> None:
        late = questions.decide_reviews(connection, decisions, self._clock())
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
