"""A person's own requests, as a page remembers them."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from antiphon.host import MemoryStore
from antiphon.host.config import Config
from antiphon.host.model_catalogue import Model, ModelPrice
from antiphon.host.own_request import OwnAnswer
from antiphon.web.site import MAX_KEPT, MAX_RUNNING, ConfiguredAsker, OwnRequest, OwnRequests
from antiphon.wire.sampling import text_answer
from tests.host.asks import request


async def answering(wait: asyncio.Event | None = None) -> OwnAnswer:
    """Answer, at once or when the test says so."""
    if wait is not None:
        await wait.wait()
    return OwnAnswer(ask="1", result=text_answer("ok", "m"), model="m")


async def test_the_oldest_answers_are_forgotten():
    """What is still being answered is not."""
    own, wait = OwnRequests(None, None), asyncio.Event()
    own.start(OwnRequest("waits", 1, request(), "m"), answering(wait))
    for number in range(MAX_KEPT + 5):
        one = OwnRequest(f"n{number}", 1, request(), "m")
        own.start(one, answering())
        await one.task
    kept = [number for number in range(MAX_KEPT + 5) if own.get(f"n{number}") is not None]
    assert len(kept) == MAX_KEPT - 1
    assert kept[-1] == MAX_KEPT + 4
    assert own.get("waits") is not None
    await own.aclose()


async def test_only_so_many_are_answered_at_once():
    """And none of them after the page has closed."""
    own, wait = OwnRequests(None, None), asyncio.Event()
    started = [OwnRequest(str(number), 1, request(), "m") for number in range(MAX_RUNNING)]
    for one in started:
        assert not own.full
        own.start(one, answering(wait))
    assert own.full
    await asyncio.sleep(0)
    await own.aclose()
    assert all(one.is_over and one.task.cancelled() for one in started)
    assert not own.full


async def test_an_unexpected_failure_is_told_by_its_kind_alone():
    """Its text may hold anything."""

    async def failing() -> OwnAnswer:
        raise KeyError("sk-secret")

    own, one = OwnRequests(None, None), OwnRequest("a", 1, request(), "m")
    own.start(one, failing())
    await one.task
    assert "KeyError" in str(one.failure)
    assert "sk-secret" not in str(one.failure)


async def test_the_configured_host_is_opened_when_it_is_first_asked():
    """Over the store of the page, with nobody to review."""
    store = MemoryStore()
    mine = Model(
        name="mine",
        provider="echo",
        model="echo",
        context=100_000,
        price=ModelPrice(input=Decimal(0), output=Decimal(0)),
    )
    asker = ConfiguredAsker(Config(models=(mine,), order=("mine",)), store)
    assert asker._host is None
    assert [each.model for each in await asker.offers(request(), "command:x")] == ["mine"]
    done = await asker.complete(request(), identity="command:x", by="Ann")
    assert done.result.text == "[echo] Describe a sweater"
    assert (await store.head()).seq > 0
    await asker.aclose()
