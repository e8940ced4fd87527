"""A file of SQLite that others write: it is looked at as long as somebody wants to hear of it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import pytest

from antiphon.sql import notices as module
from antiphon.sql.notices import WatchedFile

STATEMENT = "SELECT number FROM numbers"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file as another process would."""
    with closing(sqlite3.connect(tmp_path / "a file?#.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE numbers (number)")
        connection.execute("CREATE TABLE others (number)")
        connection.execute("INSERT INTO numbers VALUES (1)")
        yield connection


@asynccontextmanager
async def hearing(watched: WatchedFile) -> AsyncGenerator[asyncio.Queue[str | None]]:
    """Hear what is told."""
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    running = asyncio.create_task(watched.hear(heard.put_nowait))
    try:
        async with asyncio.timeout(60):
            yield heard
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def threads() -> set[threading.Thread]:
    """Return the threads that look; those of other tests may still be ending."""
    return {thread for thread in threading.enumerate() if thread.name == "antiphon-store-watch"}


async def test_a_change_of_what_is_read_is_told(other: sqlite3.Connection, tmp_path: Path):
    """Once for each look that finds one; what else is written into the file is not told."""
    watched = WatchedFile(tmp_path / "a file?#.db", STATEMENT)
    before = threads()
    async with hearing(watched) as heard:
        assert await heard.get() is None
        assert watched.are_heard
        looking = threads() - before
        assert len(looking) == 1
        other.execute("INSERT INTO others VALUES (1)")
        other.execute("UPDATE numbers SET number = 2")
        assert await heard.get() is None
        assert heard.empty()
    assert not watched.are_heard
    for thread in looking:
        thread.join(60)
        assert not thread.is_alive()


async def test_a_file_that_cannot_be_read_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """It is not made, nobody relies on it meanwhile, and the log says so once."""
    monkeypatch.setattr(module, "_AGAIN", 0.01)
    tried, hear_once = asyncio.Semaphore(0), WatchedFile._hear_once

    async def hear(watched: WatchedFile, told: module.Told) -> None:
        tried.release()
        await hear_once(watched, told)

    monkeypatch.setattr(WatchedFile, "_hear_once", hear)
    watched = WatchedFile(tmp_path / "late.db", STATEMENT)
    async with hearing(watched) as heard:
        for _ in range(4):
            await tried.acquire()
        assert len(caplog.records) == 1
        assert heard.empty()
        assert not watched.are_heard
        assert not (tmp_path / "late.db").exists()
        with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as connection:
            connection.execute("CREATE TABLE numbers (number)")
            connection.execute("INSERT INTO numbers VALUES (1)")
        (tmp_path / "new.db").rename(tmp_path / "late.db")
        assert await heard.get() is None
        assert watched.are_heard


async def test_a_file_that_cannot_be_read_any_more_is_told(
    other: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whoever relied on it looks by themselves until it can be read again."""
    monkeypatch.setattr(module, "_AGAIN", 600.0)
    watched = WatchedFile(tmp_path / "a file?#.db", STATEMENT)
    async with hearing(watched) as heard:
        await heard.get()
        other.execute("DROP TABLE numbers")
        assert await heard.get() is None
        assert not watched.are_heard
