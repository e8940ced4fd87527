"""Asking again from the history, over real HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import pytest

from antiphon.errors import Rejected
from antiphon.host import Host, Scripted, digest
from antiphon.host.store.ask_rows import Sought
from antiphon.web import ask_on_page, page_reviewer
from antiphon.wire.tools import Tool
from tests.host.asks import origin, request
from tests.web.pages import Desk, desk


async def answered(page: Desk, **more) -> int:
    """Let a server ask and be answered. Returns the number of the record."""
    question, task = await page.asked(**more)
    await page.post(f"/review/{question.id}/approve", {"digest": digest(question.item.params)})
    await task
    await page.store.gather()
    return (await page.store.asks(Sought(limit=1))).rows[0].seq


async def form_of(page: Desk, seq: int) -> dict[str, str]:
    """Open the form, and fill in what it needs."""
    shown = (await page.get(f"/history/{seq}/again")).text
    found = re.search(r'name="id" value="(\w+)"', shown)
    assert found, shown
    texts = dict.fromkeys(re.findall(r'<textarea name="([^"]+)"', shown), "Describe a hat")
    return {"id": found[1], "max_tokens": "50", "model": "scripted", **texts}


async def finished(page: Desk, id: str) -> str:
    """Wait for the answer. Returns what is shown then."""
    while not (await page.get(f"/asked/{id}/done")).json()["done"]:
        pass
    return (await page.get(f"/asked/{id}")).text


async def test_a_kept_request_is_edited_and_asked_again():
    """The answer is shown with model, cost and time, and has a record of its own; the server hears nothing."""
    provider = Scripted(["first", "second"])
    async with desk(provider=provider, keep_content=True, asks=True) as page:
        seq = await answered(page)
        assert f'href="/history/{seq}/again"' in (await page.get(f"/history/{seq}")).text
        form = await form_of(page, seq)
        sent = await page.post(f"/history/{seq}/again", form)
        assert sent.json() == {"done": "Sent."}
        shown = await finished(page, form["id"])
        assert "second" in shown
        assert "The answer goes to nobody else." in shown
        assert [each.messages[0].text for each in provider.requests] == ["Describe a sweater", "Describe a hat"]
        assert provider.requests[1].max_tokens == 50
        record = re.search(r'href="(/history/\d+)" data-go>Record', shown)
        assert record
        own = (await page.get(record[1])).text
        assert "asked on the review page by page 1" in " ".join(re.sub(r"<[^>]*>", " ", own).split())
        assert "your own request" in own


async def test_a_long_answer_is_shown_piece_by_piece():
    """As a long text of any question is."""
    async with desk(provider=Scripted(["first", "long " * 20_000]), keep_content=True, asks=True) as page:
        seq = await answered(page)
        form = await form_of(page, seq)
        await page.post(f"/history/{seq}/again", form)
        shown = await finished(page, form["id"])
        more = re.search(rf'href="(/asked/{form["id"]}/text/[^"]+)"', shown)
        assert more
        assert "long long" in (await page.get(more[1].replace("&amp;", "&"))).text
        assert (await page.get("/asked/none/text/answer-0-0")).status_code == 404


async def test_the_same_form_sent_twice_asks_once():
    """A double click costs nothing."""
    provider = Scripted(["first", "second", "third"])
    async with desk(provider=provider, keep_content=True, asks=True) as page:
        seq = await answered(page)
        form = await form_of(page, seq)
        for _ in range(2):
            await page.post(f"/history/{seq}/again", form)
        await finished(page, form["id"])
        assert len(provider.requests) == 2


async def test_a_form_without_script_leads_to_the_answer():
    """By a redirect, as all do."""
    async with desk(keep_content=True, asks=True) as page:
        seq = await answered(page)
        form = await form_of(page, seq)
        sent = await page.post(f"/history/{seq}/again", form, Accept="text/html")
        assert (sent.status_code, sent.headers["location"]) == (303, f"/asked/{form['id']}?said=done.asked")


async def test_what_was_not_kept_cannot_be_asked_again():
    """The record says why, and the address leads nowhere."""
    async with desk(asks=True) as page:
        seq = await answered(page)
        shown = (await page.get(f"/history/{seq}")).text
        assert "disabled" in shown
        assert "The contents were not kept, so there is nothing to ask." in shown
        assert (await page.get(f"/history/{seq}/again")).status_code == 404
        refused = await page.post(f"/history/{seq}/again", {"id": "a1", "max_tokens": "1"})
        assert refused.status_code == 404


async def test_a_page_without_a_host_says_so():
    """Nobody there could answer."""
    async with desk(keep_content=True) as page:
        seq = await answered(page)
        assert "This page knows no models." in (await page.get(f"/history/{seq}")).text
        assert (await page.get(f"/history/{seq}/again")).status_code == 404


async def test_more_than_was_asked_for_is_refused():
    """As for any edit; so is an id that no form of ours has."""
    async with desk(keep_content=True, asks=True) as page:
        seq = await answered(page)
        form = await form_of(page, seq)
        assert (await page.post(f"/history/{seq}/again", form | {"max_tokens": "5000"})).status_code == 422
        assert (await page.post(f"/history/{seq}/again", form | {"id": "../x"})).status_code == 422
        assert (await page.get("/asked/none")).status_code == 404
        assert (await page.post("/asked/none/stop")).status_code == 404


async def test_a_failure_is_told_and_can_be_tried_again():
    """In our own words."""
    async with desk(provider=Scripted(["first", RuntimeError("sk-secret")]), keep_content=True, asks=True) as page:
        seq = await answered(page)
        form = await form_of(page, seq)
        await page.post(f"/history/{seq}/again", form)
        shown = await finished(page, form["id"])
        assert "There is no answer." in shown
        assert "sk-secret" not in shown
        assert f'href="/history/{seq}/again"' in shown


async def test_a_refusal_without_a_reason_is_told():
    """A host may be anybody's code."""

    class Refusing:
        async def offers(self, params: object, identity: str) -> tuple[()]:
            return ()

        async def complete(self, messages: object, **asked: object) -> NoReturn:
            raise Rejected("not today")

    async with desk(keep_content=True, asks=True) as page:
        seq = await answered(page)
        form = await form_of(page, seq)
        page.running.page.site.own.asker = Refusing()
        await page.post(f"/history/{seq}/again", form)
        assert "not today" in await finished(page, form["id"])


async def test_an_answer_that_takes_long_can_be_stopped():
    """What it may have cost is charged, as of any that is given up."""

    class Slow(Scripted):
        begun = asyncio.Event()

        async def complete(self, params, *, model=None):
            if self.requests:
                self.begun.set()
                await asyncio.Event().wait()
            return await super().complete(params, model=model)

    async with desk(provider=Slow(["first"]), keep_content=True, asks=True) as page:
        seq = await answered(page)
        form = await form_of(page, seq)
        await page.post(f"/history/{seq}/again", form)
        await Slow.begun.wait()
        assert f'data-asked="{form["id"]}"' in (await page.get(f"/asked/{form['id']}")).text
        await page.post(f"/asked/{form['id']}/stop")
        assert "You stopped waiting." in await finished(page, form["id"])
        await page.store.gather()
        assert (await page.store.asks(Sought(limit=1))).rows[0].ending == "withdrawn"


async def test_tools_can_be_left_out():
    """Those that are not ticked are not offered to the model."""
    tools = [Tool(name="find", input_schema={}), Tool(name="order", input_schema={})]
    provider = Scripted(["first", "second"])
    async with desk(provider=provider, keep_content=True, asks=True) as page:
        seq = await answered(page, params=request(tools=tools))
        form = await form_of(page, seq)
        await page.post(f"/history/{seq}/again", form | {"tool-1": "1"})
        await finished(page, form["id"])
        assert [tool.name for tool in provider.requests[1].tools] == ["order"]


async def test_the_page_of_a_host_asks_that_host(monkeypatch: pytest.MonkeyPatch):
    """A host with a page answers by itself, within its own limits and budgets."""
    opened: asyncio.Future[tuple[object, object]] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def opener(store: object, *, asker: object, **more: object) -> AsyncIterator[None]:
        opened.set_result((store, asker))
        yield

    monkeypatch.setattr(page_reviewer, "load_opener", lambda: opener)
    host = Host(Scripted(["ok"]), reviewer=ask_on_page)
    asked = asyncio.create_task(host(request(), origin()))
    assert await opened == (host.store, host)
    asked.cancel()
    await host.aclose()
