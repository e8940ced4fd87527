"""A host with a page of its own: it is opened once, with the first question, and ends with the host."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest

from antiphon.errors import ConfigError, Rejected
from antiphon.host import Host, MemoryStore, NoReviewer, Queue, Scripted
from antiphon.host.review.notify import Notices
from antiphon.host.review.question import AnyItem
from antiphon.machine.public_names import describe_install
from antiphon.web.page_reviewer import PageReviewer, ask_on_page, load_opener
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.envelope import to_wire
from antiphon.wire.origin import Origin
from tests.host.asks import approve, origin, request
from tests.support.without_page import hide_page_packages
from tests.web.pages import visitor

FORM = ElicitRequestParams.form("Who?", {"properties": {"name": {"type": "string"}}})


class Pages:
    """An opener that counts."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.opened = self.closed = 0
        self._fault = fault

    @asynccontextmanager
    async def __call__(self, store, **more) -> AsyncIterator[None]:
        self.opened += 1
        if self._fault is not None:
            raise self._fault
        try:
            yield
        finally:
            self.closed += 1


async def decided(queue: Queue, wanted: int = 1) -> None:
    """Approve questions, or accept forms, as soon as so many wait."""
    async for _ in queue.changes():
        pending = await queue.pending()
        if len(pending) < wanted:
            continue
        for question in pending:
            form = question.kind == "elicitation"
            decision = ElicitResult(action="accept", content={"name": "Ada"}) if form else approve(question.item)
            await queue.decide(question.id, decision, hash=question.hash)
        return


async def test_it_is_opened_once_with_the_first_question():
    """Not before, and not again for those that come meanwhile or later."""
    store, pages = MemoryStore(), Pages()
    reviewer = PageReviewer(store, pages)
    host = Host(Scripted(["ok"] * 5), reviewer=reviewer, store=store)
    assert (reviewer.available, pages.opened) == (True, 0)
    deciding = asyncio.create_task(decided(Queue(store), 3))
    answers = await asyncio.gather(*(host(request(f"{n}"), origin(str(n))) for n in range(3)))
    await deciding
    assert [answer.text for answer in answers] == ["ok"] * 3
    deciding = asyncio.create_task(decided(Queue(store)))
    assert (await host.elicit(FORM, origin("4"))).content == {"name": "Ada"}
    await deciding
    assert (pages.opened, pages.closed) == (1, 0)
    await reviewer.aclose()
    await reviewer.aclose()
    assert pages.closed == 1


async def test_a_page_that_cannot_be_opened_is_our_own_failure():
    """The server hears nothing of why; the next question tries again."""
    pages = Pages(ConfigError("the port is taken"))
    store = MemoryStore()
    reviewer = PageReviewer(store, pages)
    with pytest.raises(NoReviewer, match=r"the page cannot be opened: the port is taken"):
        await reviewer.review(None)
    with pytest.raises(NoReviewer, match="cannot be opened"):
        await reviewer.review(None)
    assert pages.opened == 2


async def test_a_question_ends_with_a_page_that_is_closed_before_it_is_open():
    """Whoever asks is told, and does not wait for ever."""
    opening = asyncio.Event()

    @asynccontextmanager
    async def opener(store, **more) -> AsyncIterator[None]:
        opening.set()
        await asyncio.Event().wait()
        yield

    reviewer = PageReviewer(MemoryStore(), opener)
    asked = asyncio.create_task(reviewer.review(None))
    await opening.wait()
    await reviewer.aclose()
    with pytest.raises(NoReviewer, match="the page was closed"):
        await asked


def test_each_event_loop_has_its_own():
    """A program that runs one loop after another gets a page in each, and none is left open."""
    store, pages = MemoryStore(), Pages()
    reviewer = PageReviewer(store, pages)
    host = Host(Scripted(["ok"] * 5), reviewer=reviewer, store=store)

    async def once(ask: Origin) -> str:
        deciding = asyncio.create_task(decided(Queue(store)))
        answer = await host(request(), ask)
        await deciding
        return answer.text

    assert [asyncio.run(once(origin(str(n)))) for n in range(2)] == ["ok", "ok"]
    assert (pages.opened, pages.closed) == (2, 2)


async def test_a_host_opens_the_real_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """``Host(reviewer=ask_on_page)``: the address is printed, opens the page, and is gone after ``aclose``."""
    monkeypatch.setenv("BROWSER", "")
    host = Host(Scripted(["ok"]), reviewer=ask_on_page)
    asked = asyncio.create_task(host(request(), origin()))
    queue = Queue(host.store)
    async for _ in queue.changes():
        if await queue.pending():
            break
    address = capsys.readouterr().err.split()[2]
    async with visitor(follow_redirects=True) as client:
        assert "Waiting: 1" in (await client.get(address)).text
        await decided(queue)
        assert (await asked).text == "ok"
        await host.aclose()
        with pytest.raises(httpx.ConnectError):
            await client.get(address)


class Told(Notices):
    """Takes what people are told of."""

    def __init__(self) -> None:
        super().__init__(())
        self.ids: asyncio.Queue[str] = asyncio.Queue()
        self.is_closed = False

    def __call__(self, id: str, item: AnyItem) -> None:
        self.ids.put_nowait(id)

    async def aclose(self) -> None:
        self.is_closed = True


async def test_a_page_tells_of_its_questions():
    """``notify`` hears that something waits, and ends with the page."""
    store, told = MemoryStore(), Told()
    reviewer = PageReviewer(store, Pages(), notify=told)
    asked = asyncio.create_task(Host(Scripted(["ok"]), reviewer=reviewer, store=store)(request(), origin()))
    id = await told.ids.get()
    assert [each.id for each in await Queue(store).pending()] == [id]
    await decided(Queue(store))
    assert (await asked).text == "ok"
    await reviewer.aclose()
    assert told.is_closed


def test_the_time_to_undo_is_bounded():
    """It is the page's own; a host has one for its terminal only."""
    with pytest.raises(ConfigError, match="undo is 0 to 60 seconds"):
        Host(reviewer=partial(ask_on_page, undo=61))
    with pytest.raises(ConfigError, match="give it to ask_on_page"):
        Host(reviewer=ask_on_page, undo=3)


async def test_a_host_without_a_page_has_nothing_to_close():
    """``aclose`` may always be called, and the host answers after it as before."""
    host = Host(Scripted(["ok", "again"]), review="never")
    await host.aclose()
    assert (await host(request(), origin())).text == "ok"
    await host.aclose()
    assert (await host(request(), origin())).text == "again"


def test_missing_packages_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch):
    """Before anything is asked."""
    hide_page_packages(monkeypatch)
    with pytest.raises(
        ConfigError, match=rf"the review page needs more packages .*{re.escape(describe_install('host'))}"
    ):
        load_opener()
    with pytest.raises(ConfigError, match="needs more packages"):
        Host(reviewer=ask_on_page)


async def test_a_failure_of_the_page_reaches_no_server():
    """It is a refusal without its text."""
    store = MemoryStore()
    host = Host(Scripted(["ok"]), reviewer=PageReviewer(store, Pages(OSError("/secret/path"))), store=store)
    with pytest.raises(Rejected) as failed:
        await host(request(), origin())
    told = to_wire(failed.value)
    assert (told.code, told.message, told.data) == (-1, "User rejected sampling request", {"reason": "no-reviewer"})
