"""What a server of PostgreSQL says by itself, over a connection that may be lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from sqlalchemy import Connection, func, make_url, select, text

from antiphon.sql import notices as module
from antiphon.sql.notices import ChannelNotices
from antiphon.sql.runner import PostgresRunner
from tests.support.postgres import shared_postgres

pytestmark = pytest.mark.postgres

CHANNEL = "test_channel"
LOST = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"


@asynccontextmanager
async def hearing(notices: ChannelNotices) -> AsyncGenerator[asyncio.Queue[str | None]]:
    """Hear what is said, in the order in which it comes."""
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    running = asyncio.create_task(notices.hear(heard.put_nowait))
    try:
        yield heard
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.fixture
async def runner() -> AsyncGenerator[PostgresRunner]:
    """Connect to the server of this process."""
    runner = PostgresRunner(make_url(shared_postgres()).set(drivername="postgresql+asyncpg"))
    yield runner
    await runner.aclose()


def saying(notice: str) -> Any:
    """Say something in a transaction."""

    def say(connection: Connection) -> None:
        connection.execute(select(func.pg_notify(CHANNEL, notice)))

    return say


async def test_what_is_said_is_heard_and_a_lost_connection_is_made_again(runner: PostgresRunner) -> None:
    """Whoever hears is told when notices may have been missed: at the loss, and when it hears again."""
    notices = runner.notices(CHANNEL)
    async with asyncio.timeout(60), hearing(notices) as heard:
        assert await heard.get() is None
        assert notices.are_heard
        await runner.run(saying("one"))
        assert await heard.get() == "one"
        await runner.run(lambda connection: connection.execute(text(LOST)))
        assert [await heard.get(), await heard.get()] == [None, None]
        assert notices.are_heard
        await runner.run(saying("two"))
        assert await heard.get() == "two"
    assert not notices.are_heard


async def test_a_closed_runner_listens_no_more(runner: PostgresRunner) -> None:
    """Not even if whoever hears has not been cancelled."""
    notices = runner.notices(CHANNEL)
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    running = asyncio.create_task(notices.hear(heard.put_nowait))
    async with asyncio.timeout(60):
        assert await heard.get() is None
        await runner.aclose()
        await running
    assert not notices.are_heard


async def test_a_connection_through_which_nothing_comes_is_not_relied_upon(
    runner: PostgresRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that lends connections for single transactions accepts ``LISTEN``, and passes no notice on."""
    monkeypatch.setattr(module, "_PROOF_WITHIN", 0.05)
    monkeypatch.setattr(module, "_AGAIN", 0.01)
    tries = asyncio.Semaphore(0)

    async def say_nothing(_: object) -> None:
        tries.release()

    notices = ChannelNotices(runner.notices(CHANNEL)._options, CHANNEL, say_nothing)
    async with asyncio.timeout(60), hearing(notices) as heard:
        for _ in range(3):
            await tries.acquire()
            assert not notices.are_heard
        assert heard.empty()
