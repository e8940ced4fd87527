"""An answer while it comes: shown to whoever looks, and to nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from antiphon.host import Host, MemoryStore, Queue
from antiphon.host.pipeline import growth
from antiphon.host.providers.base import Completion, Growth, ProviderFailure, text_answer
from antiphon.host.review.partials import Partial, Watching, partials_in
from antiphon.host.review.review import Approve, digest
from antiphon.host.store.base import PartialRow
from tests.host.asks import origin, request
from tests.host.store.stores import Clock


class Streamed:
    """A provider whose answer comes when the test says so."""

    name = "streamed"
    tools = True
    personal = False

    def __init__(self) -> None:
        self.growth: Growth | None = None
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def complete(self, params, *, model=None):
        self.asked.set()
        return text_answer(await self.answer, "m")

    async def stream(self, params, growth, *, model=None, fallbacks=()):
        self.growth = growth
        growth.begin("m")
        return Completion(result=await self.complete(params), by=None)


class Seen(MemoryStore):
    """A store that says when what is shown has changed."""

    def __init__(self, **more) -> None:
        super().__init__(**more)
        self.changed = asyncio.Event()

    async def keep_partial(self, row: PartialRow) -> None:
        await super().keep_partial(row)
        self.changed.set()

    async def drop_partial(self, id: str) -> None:
        await super().drop_partial(id)
        self.changed.set()

    async def until(self, fits: Callable[[list[Partial]], bool]) -> list[Partial]:
        """Wait until what is shown fits."""
        while not fits(found := await partials_in(self)):
            self.changed.clear()
            await self.changed.wait()
        return found


async def approved(host: Host, store: MemoryStore) -> tuple[str, asyncio.Task]:
    """Let a server ask, and approve it. Returns the review, and what waits for the answer."""
    queue = Queue(store)
    asking = asyncio.create_task(host(request(), origin()))
    async for _ in queue.changes():
        for question in await queue.pending():
            await queue.decide(question.id, Approve(digest=digest(question.item.params)), hash=question.hash, by="me")
            return question.id, asking
    raise AssertionError


@pytest.fixture
async def provider() -> Streamed:
    """Make a provider in the loop of the test."""
    return Streamed()


@pytest.fixture
def store() -> Seen:
    """Make a store."""
    return Seen()


@pytest.fixture
def host(provider, store) -> Host:
    """Make a host whose requests are reviewed in its queue."""
    return Host(provider, store=store, reviewer=Queue(store))


async def test_whoever_looks_sees_the_answer_grow(host, provider, store):
    """With the review it is of, who answers and for whom; nothing of it is left once it is whole."""
    await Watching(store).look()
    review, asking = await approved(host, store)
    await provider.asked.wait()
    provider.growth.add("A warm sweater of fine wool, ")
    (partial,) = await store.until(bool)
    assert (partial.review, partial.model, partial.target, partial.call) == (
        review,
        "m",
        "python catalogue.py",
        "describe",
    )
    assert partial.text == "A warm "
    provider.growth.add("made in a small place near the lake.")
    (partial,) = await store.until(lambda found: "fine" in found[0].text)
    assert partial.text == "A warm sweater of fine wool, made in a small "
    provider.answer.set_result("A warm sweater.")
    assert (await asking).text == "A warm sweater."
    await store.until(lambda found: not found)


async def test_nobody_looks_and_nothing_is_told(host, provider, store):
    """The provider is asked as if it could not tell."""
    _, asking = await approved(host, store)
    await provider.asked.wait()
    assert provider.growth is None
    provider.answer.set_result("ok")
    await asking
    assert not store.changed.is_set()


async def test_what_no_person_let_pass_is_not_shown(provider, store):
    """Whoever answers without asking is not held up by looking whether anybody looks."""
    await Watching(store).look()
    host = Host(provider, store=store, review="never")
    asking = asyncio.create_task(host(request(), origin()))
    await provider.asked.wait()
    assert provider.growth is None
    provider.answer.set_result("ok")
    await asking


async def test_another_attempt_begins_anew(host, provider, store):
    """What a model wrote that failed then is no part of what the next one writes."""
    await Watching(store).look()
    _, asking = await approved(host, store)
    await provider.asked.wait()
    provider.growth.add("The first attempt, which is to fail soon ")
    await store.until(bool)
    provider.growth.begin("other")
    (partial,) = await store.until(lambda found: found[0].model == "other")
    assert partial.text == ""
    provider.answer.set_result("ok")
    await asking


async def test_a_failure_leaves_nothing(host, provider, store):
    """And neither does a server that gives up."""
    for end in (lambda asking: provider.answer.set_exception(ProviderFailure("timeout", "late")), asyncio.Task.cancel):
        await Watching(store).look()
        _, asking = await approved(host, store)
        await provider.asked.wait()
        provider.growth.add("Something that will never be finished, as it is ")
        await store.until(bool)
        end(asking)
        await asyncio.gather(asking, return_exceptions=True)
        await store.until(lambda found: not found)
        provider.asked.clear()
        provider.answer = asyncio.get_running_loop().create_future()


async def test_an_answer_that_comes_too_fast_is_seen_when_it_is_whole(host, provider, store):
    """Nobody reads as fast, and what waits is bounded."""
    await Watching(store).look()
    _, asking = await approved(host, store)
    await provider.asked.wait()
    for _ in range(growth.MAX_WAITING // 1_000 + 10):
        provider.growth.add("twenty characters.. " * 50)
    (partial,) = await store.until(lambda found: bool(found) and found[0].cut)
    assert partial.text == ""
    provider.answer.set_result("ok")
    await asking


async def test_a_store_that_fails_holds_nothing_up(host, provider, store, monkeypatch):
    """The answer goes its way; it is shown when it is whole."""
    await Watching(store).look()

    async def failing(row):
        store.changed.set()
        raise OSError

    monkeypatch.setattr(store, "keep_partial", failing)
    _, asking = await approved(host, store)
    await provider.asked.wait()
    store.changed.clear()
    provider.growth.add("Something that cannot be kept anywhere at all ")
    await store.changed.wait()
    provider.answer.set_result("ok")
    assert (await asking).text == "ok"


async def test_a_store_that_stands_still_holds_no_request_up(host, provider, store, monkeypatch):
    """Whether anybody looks is found out soon, or not at all."""

    async def standing():
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "watched", standing)
    monkeypatch.setattr(growth, "_LOOK", 0.0)
    _, asking = await approved(host, store)
    provider.answer.set_result("ok")
    assert (await asking).text == "ok"
    assert provider.growth is None


async def test_those_who_look_say_so_now_and_then():
    """Not with each look."""
    clock = Clock()
    said: list[float] = []

    class Store(MemoryStore):
        async def watch(self, until: float) -> None:
            said.append(until)

    watching = Watching(Store(), clock)
    for _ in range(30):
        await watching.look()
        clock.now += 1
    assert len(said) == 3
