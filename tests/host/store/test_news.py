"""Hearing of changes: whoever makes them, only of what was asked for, and no longer than somebody waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from antiphon.host.store import news as module
from antiphon.host.store.base import Decided, Store
from antiphon.host.store.news import Listening, News
from tests.host.store.stores import DURABLE, Place, review

LONG = 600.0
"""Seconds that no test takes: whoever waits for so long is woken, or the test fails."""


@pytest.fixture(params=DURABLE)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind that several processes share."""
    async with Place(request.param, tmp_path) as place, asyncio.timeout(60):
        yield place


class Silent:
    """A database that says nothing but what a test says for it."""

    def __init__(self) -> None:
        self.are_heard = False
        self.begun = asyncio.Semaphore(0)
        self.ended = asyncio.Semaphore(0)

    async def hear(self, told: Callable[[str | None], None]) -> None:
        """Say once that it is heard."""
        self.are_heard = True
        self.begun.release()
        try:
            told(None)
            await asyncio.Event().wait()
        finally:
            self.are_heard = False
            self.ended.release()


async def heard(store: Store, listening: Listening) -> None:
    """Wait until the changes of other processes are heard of."""
    while not store.news.are_heard:
        await listening.wait(LONG)


async def test_what_another_process_changes_is_heard(place: Place):
    """A new question, and then a decision about it, without a look at the store in between."""
    async with place.open() as here, place.open() as there:
        with here.news.listening() as listening:
            await heard(here, listening)
            for change in (
                there.put_review(review(host=there.host)),
                there.decide([Decided(id="r", decision="1")]),
                there.close_review("r", "done", keep_item=False),
            ):
                before = await here.reviews_version()
                listening.told.clear()
                await change
                await listening.told.wait()
                assert await here.reviews_version() != before


async def test_what_the_same_process_changes_is_heard_at_once(place: Place):
    """Before the database has said it: the wait is over when the change is."""
    async with place.open() as store:
        changed: list[str | None] = []
        with store.news.listening() as every, store.news.listening(changed.append):
            await heard(store, every)
            changed.clear()
            await store.put_review(review(host=store.host))
            await store.decide([Decided(id="r", decision="1")])
            assert every.told.is_set()
            assert changed.count("r") >= 2


async def test_notices_name_the_question():
    """A listener learns the id of each changed question, or that it may be any."""
    news, changed = News(), list[str | None]()
    with news.listening() as every, news.listening(changed.append):
        news.tell("a")
        assert every.told.is_set()
        news.tell()
        assert changed == ["a", None]


async def test_a_change_between_two_waits_is_not_missed():
    """Whoever reads the store meanwhile waits no more after it; the next wait is a new one."""
    news = News()
    with news.listening() as listening:
        news.tell("a")
        await listening.wait(LONG)
        assert not listening.told.is_set()
    news.tell("a")
    assert not listening.told.is_set()


async def test_the_database_is_listened_to_while_somebody_waits(monkeypatch: pytest.MonkeyPatch):
    """Not before, not for long afterwards, and again for the next one."""
    monkeypatch.setattr(module, "REST", 0.01)
    source = Silent()
    news = News(source)
    async with asyncio.timeout(60):
        with news.listening() as listening:
            assert not source.are_heard
            for _ in range(2):
                await listening.wait(LONG)
                assert source.are_heard
                await source.ended.acquire()
                assert not news.are_heard
        await news.aclose()


async def test_one_who_waits_keeps_it_listening(monkeypatch: pytest.MonkeyPatch):
    """However long that takes; and what is closed listens no more."""
    monkeypatch.setattr(module, "REST", 0.001)
    source = Silent()
    news = News(source)
    async with asyncio.timeout(60):
        with news.listening() as listening:
            await listening.wait(LONG)
            await listening.wait(0.2)
            assert source.are_heard
            await news.aclose()
            assert not source.are_heard
            await listening.wait(0.001)
            assert not source.are_heard


async def test_a_store_that_cannot_be_opened_is_not_listened_to():
    """Whoever waits has waited as long as they wanted, and looks at the store, which says what is wrong."""
    source = Silent()

    async def fail() -> None:
        raise OSError

    news = News(source, fail)
    with news.listening() as listening:
        await listening.wait(0.01)
    assert not news.are_heard
    await news.aclose()
