"""Answers that come late: somebody has gone on meanwhile, or typed more, and an older answer changes nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

import pytest
from playwright.async_api import Browser, Page, Request, Route

from tests.browser.visits import visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser


class Held:
    """Requests of one kind that wait at the door until they are let go."""

    def __init__(self, page: Page, kind: Callable[[Request], bool]) -> None:
        self.came = asyncio.Event()
        self.go = asyncio.Event()
        self._page = page
        self._kind = kind

    async def __aenter__(self) -> Self:
        await self._page.route("**/*", self._route)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.go.set()
        # Wait until each request has gone on: to unroute a held one would let it go on a second time.
        await self._page.unroute_all(behavior="wait")

    async def _route(self, route: Route) -> None:
        if self._kind(route.request):
            self.came.set()
            await self.go.wait()
        await route.continue_()


async def test_whoever_goes_on_before_the_decision_is_answered_stays_there(chromium: Browser):
    """The answer says what was done, and leads nowhere."""
    async with desk() as page, visit(chromium, page) as seen:
        first, _ = await page.asked(text="First")
        await page.asked(text="Second")
        third, _ = await page.asked(text="Third")
        await seen.open(first.id)
        async with Held(seen.page, lambda sent: sent.method == "POST") as held:
            await seen.key("d")
            await held.came.wait()
            await seen.page.click(f"[data-row='{third.id}']")
            await seen.page.wait_for_selector(f"#detail[data-id='{third.id}']:not([inert])")
            held.go.set()
            await seen.said("Denied")
            await seen.count(2)
        assert await seen.page.get_attribute("#detail", "data-id") == third.id


async def test_a_decision_on_its_way_is_seen_and_nothing_is_decided_against_it(chromium: Browser):
    """The request is paler and cannot be pressed; after a while the page says that it is being sent."""
    async with desk() as page, visit(chromium, page) as seen:
        question, _ = await page.asked()
        sent: list[str] = []
        seen.page.on("request", lambda each: sent.append(each.url) if each.method == "POST" else None)
        await seen.open(question.id)
        async with Held(seen.page, lambda each: each.method == "POST") as held:
            await seen.page.click("#detail .approve")
            await held.came.wait()
            await seen.page.wait_for_selector("#detail[inert][aria-busy=true]")
            await seen.said("Sending")
            await seen.key("d")
            await seen.page.click("#detail .deny button", force=True)
            held.go.set()
            await seen.said("Approved")
        assert [each.rsplit("/", 1)[1] for each in sent if "/review/" in each] == ["approve"]


async def test_a_decision_that_was_refused_can_be_made_again(chromium: Browser):
    """The request is as it was, and the button that was pressed by key has the focus again."""
    async with desk() as page, visit(chromium, page) as seen:
        question, _ = await page.asked()
        await seen.open(question.id)
        await seen.page.route("**/deny", lambda route: route.fulfill(status=409, json={"problem": "Not now"}))
        await seen.page.focus("#detail .deny button")
        await seen.key("Enter")
        await seen.page.wait_for_selector("#detail .problem >> text=Not now")
        await seen.page.wait_for_selector("#detail:not([inert]):not([aria-busy])")
        assert await seen.page.evaluate("document.activeElement.closest('.deny') !== null")
        await seen.page.unroute_all()
        await seen.key("Enter")
        await seen.said("Denied")


async def test_a_form_to_edit_that_comes_late_takes_no_other_place(chromium: Browser):
    """Whoever went on to another request reads that one."""
    async with desk() as page, visit(chromium, page) as seen:
        first, _ = await page.asked(text="First")
        second, _ = await page.asked(text="Second")
        await seen.open(first.id)
        async with Held(seen.page, lambda sent: sent.url.endswith("/edit")) as held:
            await seen.key("e")
            await held.came.wait()
            await seen.page.click(f"[data-row='{second.id}']")
            await seen.page.wait_for_selector(f"#detail[data-id='{second.id}']:not([inert])")
            async with seen.page.expect_response("**/edit"):
                held.go.set()
            await seen.page.evaluate("new Promise(requestAnimationFrame)")
        assert await seen.page.get_attribute("#detail", "data-id") == second.id


async def test_of_two_drafts_the_last_is_kept(chromium: Browser):
    """The second is sent when the first has arrived, and at once when the place is left."""
    async with desk() as page, visit(chromium, page) as seen:
        first, _ = await page.asked(text="First")
        second, _ = await page.asked(text="Second")
        await seen.open(first.id)
        await seen.key("e")
        async with Held(seen.page, lambda sent: sent.url.endswith("/draft")) as held:
            await seen.page.fill("textarea[name=text-0-0]", "One")
            await held.came.wait()
            await seen.page.fill("textarea[name=text-0-0]", "One and a half")
            await seen.page.click(f"[data-row='{second.id}']")
            await seen.page.wait_for_selector(f"#detail[data-id='{second.id}']:not([inert])")
            held.go.set()
            await seen.page.click(f"[data-row='{first.id}']")
            await seen.page.wait_for_selector(f"#detail[data-id='{first.id}']:not([inert])")
            await seen.key("e")
            await seen.page.wait_for_selector("[data-editing]")
        assert await seen.page.input_value("textarea[name=text-0-0]") == "One and a half"


async def test_a_draft_is_there_though_another_was_typed_since(chromium: Browser):
    """On a slow link both are on their way: what is gone back to waits for its own."""
    async with desk() as page, visit(chromium, page) as seen:
        first, _ = await page.asked(text="First")
        second, _ = await page.asked(text="Second")
        await page.asked(text="Third")
        await seen.count(3)
        async with Held(seen.page, lambda sent: sent.url.endswith("/draft")) as held:
            for question in (first, second):
                await seen.open(question.id)
                await seen.key("w")
                await seen.page.fill("#detail [name=text]", f"About {question.id}")
            async with Held(seen.page, lambda sent: sent.url.endswith(f"/review/{first.id}")) as asked:
                asked.go.set()
                await seen.page.click(f"[data-row='{first.id}']")
                await seen.page.evaluate("new Promise(done => setTimeout(done, 300))")
                assert not asked.came.is_set()
                held.go.set()
                await seen.page.wait_for_selector(f"#detail[data-id='{first.id}']:not([inert])")
        assert await seen.page.input_value("#detail [name=text]") == f"About {first.id}"


async def test_news_lead_nobody_away_from_what_they_have_chosen(chromium: Browser):
    """The first that waits is shown by itself only while nothing else is on its way."""
    async with desk() as page, visit(chromium, page) as seen:
        async with Held(seen.page, lambda sent: sent.headers.get("x-part") == "detail") as held:
            await page.asked(text="First")
            await held.came.wait()
            chosen, _ = await page.asked(text="Second")
            await seen.count(2)
            await seen.page.click(f"[data-row='{chosen.id}']")
            await page.asked(text="Third")
            await seen.count(3)
            held.go.set()
            await seen.page.wait_for_selector("#detail[data-id]:not([inert])")
        assert await seen.page.get_attribute("#detail", "data-id") == chosen.id
