"""What the tests of stores are made of: the same promises, kept by each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from sqlalchemy import Connection, event

from antiphon.host.budget import Account, Amount, Cap
from antiphon.host.store.base import Hold, ReviewRow, Store, Ticket
from antiphon.host.store.chain import Record
from antiphon.host.store.memory_store import MemoryStore
from antiphon.host.store.recovery import BEATS, LEASE
from antiphon.host.store.sql_store import SqlStore
from antiphon.sql.runner import PostgresRunner, SqliteRunner

KINDS = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
DURABLE = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def _postgres() -> str:
    from tests.support.postgres import shared_postgres

    return shared_postgres()


class Place:
    """Where the stores of one test are: each opened there shares it with the others."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.path = folder / "state" / "host.db"
        self.clock = Clock()

    async def __aenter__(self) -> Self:
        if self.kind == "postgres":
            await self._empty()
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def make(self, clock: Callable[[], float] | None = None) -> Store:
        """Make a store, as another process would."""
        clock = clock or self.clock
        if self.kind == "memory":
            return MemoryStore(clock=clock)
        return SqlStore(self.runner(), clock=clock, monotonic=self.clock)

    async def outlast(self, store: Store) -> int:
        """Let a lease pass, in which only this store gives signs of life. Returns how many things it put in order."""
        await store.head()
        done = 0
        for _ in range(BEATS):
            self.clock.now += LEASE / BEATS
            done += await store.recover()
        return done

    @property
    def address(self) -> str:
        """What another process opens it by."""
        return _postgres() if self.kind == "postgres" else str(self.path)

    def runner(self) -> SqliteRunner | PostgresRunner:
        """Make what runs transactions there."""
        if self.kind == "sqlite":
            return SqliteRunner(self.path)
        from sqlalchemy import make_url

        return PostgresRunner(make_url(_postgres()).set(drivername="postgresql+asyncpg"))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        """Open a store, and close it."""
        store = self.make()
        try:
            yield store
        finally:
            await store.aclose()

    async def _empty(self) -> None:
        from sqlalchemy import text

        runner = self.runner()
        await runner.run(lambda connection: connection.execute(text("DROP SCHEMA public CASCADE")))
        await runner.run(lambda connection: connection.execute(text("CREATE SCHEMA public")))
        await runner.aclose()


async def explained(place: Place, work: Callable[[Connection], object]) -> str:
    """Return how the database carries out what some work reads."""
    runner = place.runner()
    try:
        return await runner.run(lambda connection: _explain(connection, work))
    finally:
        await runner.aclose()


def _explain(connection: Connection, work: Callable[[Connection], object]) -> str:
    statements: list[tuple[str, Any]] = []

    def seen(*call: Any) -> None:
        if call[2].startswith("SELECT"):
            statements.append(call[2:4])

    how = "EXPLAIN QUERY PLAN"
    if connection.dialect.name == "postgresql":
        # It reads so few rows without an index.
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        how = "EXPLAIN"
    event.listen(connection, "before_cursor_execute", seen)
    work(connection)
    event.remove(connection, "before_cursor_execute", seen)
    plans = [connection.exec_driver_sql(f"{how} {text}", values) for text, values in statements]
    return "\n".join(str(tuple(row)) for plan in plans for row in plan)


def record(step: str = "received", outcome: str = "", **more) -> Record:
    """Make a record."""
    method = "sampling/createMessage"
    return Record(at=1.5, ask="1", identity="command:x", method=method, step=step, outcome=outcome, **more)


def hold(id: str = "h", *, money: int = 10, tokens: int = 5, caps: dict[str, Cap] | None = None, sent=False) -> Hold:
    """Make a reservation."""
    accounts = caps or {"total": Cap(money=100)}
    return Hold(
        id=id,
        ask="1",
        identity="command:x",
        accounts=tuple(Account(key=key, cap=cap) for key, cap in accounts.items()),
        amount=Amount(money=money, tokens=tokens),
        sent=sent,
    )


async def ticket(store: Store, id: str = "r") -> Ticket:
    """Name the decision that a review has now."""
    row = await store.review(id)
    return Ticket(id=id, decided=None if row is None else row.decided)


def review(id: str = "r", *, host: str | None = None, fingerprint: str = "f", **more) -> ReviewRow:
    """Make a question."""
    more.setdefault("expires", 1_000_600.0)
    return ReviewRow(
        id=id,
        kind="request",
        fingerprint=fingerprint,
        group="g",
        identity="command:x",
        created=1_000_000.0,
        host=host,
        item='{"secret":1}',
        **more,
    )
