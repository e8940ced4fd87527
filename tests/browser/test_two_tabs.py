"""Several tabs and people at one queue: each race ends in one decision, and every tab says whose it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Request, expect

from antiphon.errors import Rejected
from antiphon.host import Queue, open_store
from antiphon.host.review.review import Approve, Deny
from antiphon.web.page_server import running_page
from antiphon.wire.elicitation import ElicitRequestParams
from tests.browser.test_living import item
from tests.browser.test_overtaken import Held
from tests.browser.test_several import BUTTON, described, opened
from tests.browser.visits import ARMED, WIDE, Visit, visit
from tests.host.asks import origin
from tests.web.pages import Desk, desk

pytestmark = pytest.mark.browser

WHO = ElicitRequestParams.form("Who?", {"properties": {"name": {"type": "string"}}, "required": ["name"]})


@asynccontextmanager
async def beside(chromium: Browser, page: Desk, seen: Visit, *, same: bool) -> AsyncIterator[Visit]:
    """Open a second tab, of the same browser or of another person's."""
    if not same:
        async with visit(chromium, page) as other:
            yield other
        return
    tab = await seen.page.context.new_page()
    await tab.goto(page.running.origin)
    yield Visit(tab, seen.watch)
    await tab.unroute_all(behavior="ignoreErrors")


def posts(sent: Request) -> bool:
    """Return whether a request would change something."""
    return sent.method == "POST"


def banner(seen: Visit) -> object:
    """Return the place where a request says that it is over."""
    return expect(seen.page.locator("#detail .banner"))


async def steps(page: Desk) -> list[str]:
    """Return what the record has of decisions."""
    return [entry.record.outcome for entry in await page.store.entries() if entry.record.step == "review"]


@pytest.mark.parametrize("same", [True, False], ids=["one browser", "two people"])
@pytest.mark.parametrize("keys", ["ad", "da"])
async def test_of_two_decisions_at_once_the_first_stands(chromium: Browser, keys: str, same: bool):
    """Both are on their way at the same time: the second decides nothing, and its tab says who has decided."""
    async with desk() as page, visit(chromium, page) as one, beside(chromium, page, one, same=same) as two:
        question, task = await page.asked()
        await one.open(question.id)
        await two.open(question.id)
        async with Held(one.page, posts) as first, Held(two.page, posts) as second:
            await one.key(keys[0])
            await two.key(keys[1])
            await first.came.wait()
            await second.came.wait()
            async with one.page.expect_response(lambda answer: answer.request.method == "POST"):
                first.go.set()
            async with two.page.expect_response(lambda answer: answer.request.method == "POST") as late:
                second.go.set()
            assert (await late.value).status == 409
        await banner(two).to_contain_text("By you, in this browser." if same else "By page 2.")
        assert await two.page.locator("#detail form[action*='/review/']").count() == 0
        if keys[0] == "a":
            assert (await task).text == "ok"
        else:
            with pytest.raises(Rejected):
                await task
        assert await steps(page) == ["approve" if keys[0] == "a" else "deny"]


async def test_a_decision_is_not_taken_back_by_whoever_made_an_older_one(chromium: Browser):
    """One takes back too late: another has taken it back meanwhile, and denied. The denial stands."""
    async with desk(undo=60) as page, visit(chromium, page) as ada, visit(chromium, page) as bob:
        question, task = await page.asked()
        await ada.open(question.id)
        await bob.open(question.id)
        await ada.key("a")
        await ada.page.wait_for_selector("#undo")
        await banner(bob).to_have_text(
            "Approved. It takes effect in a moment; until then it can be taken back. By page 2."
        )
        async with Held(ada.page, posts) as held:
            await ada.key("u")
            await held.came.wait()
            await bob.key("u")
            await bob.said("Taken back")
            await bob.page.wait_for_selector(ARMED)
            await bob.key("d")
            await bob.said("Denied")
            with pytest.raises(Rejected):
                await task
            async with ada.page.expect_response("**/undo") as late:
                held.go.set()
            assert (await (await late.value).json())["problem"] == "Too late to take it back."
        await expect(ada.page.locator("#outcomes")).to_be_hidden()
        assert await steps(page) == ["undone:approve", "deny"]


async def test_what_is_taken_back_as_it_takes_effect_was_sent(chromium: Browser):
    """The time was over while the wish was on its way: the page says so, and what was approved stays approved."""
    async with desk(undo=10) as page, visit(chromium, page) as seen:
        question, task = await page.asked()
        await seen.open(question.id)
        await seen.key("a")
        await seen.page.wait_for_selector("#undo form")
        async with Held(seen.page, lambda sent: sent.url.endswith("/undo")) as held:
            await seen.key("u")
            await held.came.wait()
            assert (await task).text == "ok"
            held.go.set()
            await seen.page.wait_for_selector("#outcomes .problem >> text=Too late to take it back.")
        await seen.became("Approved.")
        assert await steps(page) == ["approve"]


async def test_what_went_wrong_with_taking_back_is_said_until_it_works(chromium: Browser):
    """The list is renewed meanwhile, because something else was asked."""
    async with desk(undo=60) as page, visit(chromium, page) as seen:
        question, task = await page.asked()
        await seen.open(question.id)
        await seen.key("a")
        await seen.page.wait_for_selector("#undo form")
        failed = {"status": 503, "content_type": "application/json", "body": '{"problem": "Not now."}'}
        await seen.page.route("**/undo*", lambda route: route.fulfill(**failed))
        await seen.key("u")
        await seen.page.wait_for_selector("#outcomes .problem >> text=Not now.")
        async with seen.page.expect_response("**/outcomes"):
            await page.asked()
        await seen.page.wait_for_selector("#outcomes li > .problem:not([role]) >> text=Not now.")
        await seen.page.unroute("**/undo*")
        await seen.key("u")
        await seen.said("Taken back: it is waiting again.")
        await seen.page.wait_for_selector("#outcomes .problem >> text=Not now.", state="hidden")
        assert not task.done()


async def test_what_is_taken_back_twice_is_taken_back_once(chromium: Browser):
    """By a key that is pressed twice, and in another tab at the same moment: all say that the request waits again."""
    async with desk(undo=60) as page, visit(chromium, page) as one, beside(chromium, page, one, same=True) as two:
        question, task = await page.asked()
        await one.open(question.id)
        await one.key("a")
        for tab in (one, two):
            await tab.page.wait_for_selector("#undo form")
        async with Held(one.page, posts) as first, Held(two.page, posts) as second:
            for tab, held in ((one, first), (two, second)):
                await tab.key("u")
                await held.came.wait()
            await one.page.click("#undo button")
            first.go.set()
            await one.said("Taken back: it is waiting again.")
            second.go.set()
            await two.said("Taken back: it is waiting again.")
        for tab in (one, two):
            await tab.page.wait_for_selector(f"#detail[data-id='{question.id}'][data-state=pending]")
        assert await steps(page) == ["undone:approve"]
        assert not task.done()


async def test_the_way_back_leads_to_what_was_decided(chromium: Browser):
    """After a decision the browser's own button shows it as decided, by whom, and with its undo alone."""
    async with desk(undo=60) as page, visit(chromium, page) as seen:
        first, task = await page.asked(text="First")
        second, _ = await page.asked(text="Second")
        await seen.open(first.id)
        await seen.key("a")
        await seen.page.wait_for_selector(f"#detail[data-id='{second.id}']:not([inert])")
        await seen.page.go_back()
        await seen.page.wait_for_selector(f"#detail[data-id='{first.id}'][data-state=held]")
        await banner(seen).to_contain_text("Approved. It takes effect in a moment")
        await banner(seen).to_contain_text("By you, in this browser.")
        assert await seen.page.locator("#detail form[action*='/review/']").count() == 0
        await seen.key("a")
        assert (await page.queue.get(first.id)).state == "held"
        assert (await page.queue.get(second.id)).state == "pending"
        await seen.page.click("#detail form[action^='/undo'] button")
        await seen.page.wait_for_selector(f"#detail[data-id='{first.id}'][data-state=pending]")
        assert not task.done()


async def test_a_page_that_is_served_again_shows_what_was_decided_meanwhile(chromium: Browser, tmp_path: Path):
    """Its tab stayed open over the restart: keys decide nothing while it is away, nor what another has decided."""
    store = open_store(tmp_path / "host.db")
    waiting = asyncio.create_task(Queue(store).review(item(1)))
    context = await chromium.new_context(viewport=WIDE, locale="en-GB")
    page = await context.new_page()
    async with running_page(store) as running:
        await page.goto(running.address())
        await page.wait_for_selector(ARMED)
    await page.wait_for_selector("#banner >> text=connection is lost")
    await page.keyboard.press("a")
    [question] = await Queue(store).pending()
    assert question.state == "pending"
    await Queue(store).decide(question.id, Deny(), hash=question.hash, by="Bob")
    assert isinstance(await waiting, Deny)
    async with running_page(store):
        await expect(page.locator("#detail .banner")).to_contain_text("Denied. By Bob.")
        await page.keyboard.press("a")
        assert (await Queue(store).get(question.id)).by == "Bob"
        await context.close()
    await store.aclose()


async def test_what_is_not_there_any_more_is_left_out_of_several(chromium: Browser):
    """One of three that are ticked is withdrawn: it is marked, the button counts the others, and they are approved."""
    async with desk() as page, visit(chromium, page) as seen:
        alike = await described(page, 3)
        await opened(seen, alike[0][0])
        await seen.page.click("[data-tick-seen]")
        await expect(seen.page.locator(BUTTON)).to_contain_text("Approve 3")
        alike[0][1].cancel()
        await seen.page.wait_for_selector("fieldset.gone >> text=it is left out")
        await expect(seen.page.locator(BUTTON)).to_contain_text("Approve 2")
        await seen.page.click("[data-tick-seen]")
        await expect(seen.page.locator(BUTTON)).to_contain_text("Approve 2")
        await seen.page.click(BUTTON)
        await seen.said("together")
        await asyncio.gather(*(task for _, task in alike[1:]))
        assert await steps(page) == ["approve", "approve"]


async def test_of_several_nothing_is_approved_where_one_went_at_that_moment(chromium: Browser):
    """Another tab denies one while all are on their way: the page says so, leaves it out, and sends the others."""
    async with desk() as page, visit(chromium, page) as seen:
        alike = await described(page, 3)
        await opened(seen, alike[0][0])
        await seen.page.click("[data-tick-seen]")
        async with Held(seen.page, posts) as held:
            await seen.page.click(BUTTON)
            await held.came.wait()
            other = await page.queue.get(alike[1][0])
            await page.queue.decide(other.id, Deny(), hash=other.hash, by="Bob")
            held.go.set()
            await seen.page.wait_for_selector(".problem >> text=Nothing was approved.")
        await expect(seen.page.locator(BUTTON)).to_contain_text("Approve 2")
        with pytest.raises(Rejected):
            await alike[1][1]
        assert not alike[0][1].done() and not alike[2][1].done()
        await seen.page.click(BUTTON)
        await asyncio.gather(alike[0][1], alike[2][1])
        assert await steps(page) == ["deny", "approve", "approve"]


async def test_a_second_press_decides_nothing(chromium: Browser):
    """A double click, and a click while Enter is on its way: one request is sent, and the next one still waits."""
    async with desk() as page, visit(chromium, page) as seen:
        asked = [await page.asked(text=text) for text in ("First", "Second", "Third")]
        sent: list[str] = []
        seen.page.on("request", lambda each: sent.append(each.url) if posts(each) else None)
        await seen.open(asked[0][0].id)
        await seen.page.dblclick("#detail .approve")
        await asked[0][1]
        await seen.open(asked[1][0].id)
        async with Held(seen.page, posts) as held:
            await seen.page.focus("#detail .approve")
            await seen.key("Enter")
            await held.came.wait()
            await seen.page.click("#detail .approve", force=True)
            await seen.key("a")
            held.go.set()
            await asked[1][1]
        await seen.count(1)
        assert [url.rpartition("/review/")[2] for url in sent] == [f"{each.id}/approve" for each, _ in asked[:2]]
        assert not asked[2][1].done()


async def test_a_form_in_two_tabs_is_sent_once(chromium: Browser):
    """The other tab shows that it was answered; taken back, both have the form again, with what was typed last."""
    async with desk(undo=60) as page, visit(chromium, page) as one, beside(chromium, page, one, same=True) as two:
        task = asyncio.create_task(page.host.elicit(WHO, origin("f")))
        page.tasks.append(task)
        question = await page.arrived(set())
        for tab, name in ((one, "Ann"), (two, "Bea")):
            await tab.page.wait_for_selector(ARMED)
            async with tab.page.expect_response("**/draft"):
                await tab.page.fill("[name=field-0]", name)
        await one.key("Control+Enter")
        await banner(two).to_contain_text("Filled in. It takes effect in a moment")
        await two.key("Control+Enter")
        held = await page.queue.get(question.id)
        assert held.decision.content == {"name": "Ann"}
        await two.key("u")
        await two.said("Taken back")
        for tab in (one, two):
            await tab.page.wait_for_selector(f"#detail[data-id='{question.id}'][data-state=pending]:not([inert])")
        assert await two.page.input_value("[name=field-0]") == "Bea"
        await two.page.wait_for_selector(ARMED)
        await two.page.focus("[name=field-0]")
        await two.key("Control+Enter")
        await two.said("Answered")
        assert (await page.queue.get(question.id)).decision.content == {"name": "Bea"}
        assert not task.done()


async def test_an_edit_stays_while_others_arrive_and_is_kept_when_another_tab_decides(chromium: Browser):
    """What is typed is not drawn over by news; decided elsewhere the tab says so, and taken back the draft is there."""
    async with desk(undo=60) as page, visit(chromium, page) as one, beside(chromium, page, one, same=True) as two:
        question, task = await page.asked(text="Describe a sweater")
        await one.open(question.id)
        await one.key("e")
        await one.page.wait_for_selector("[data-editing]")
        async with one.page.expect_response("**/draft"):
            await one.page.fill("textarea[name=text-0-0]", "Describe a scarf")
        await page.asked(text="Another")
        await one.count(2)
        await two.count(2)
        assert await one.page.input_value("[data-editing] textarea[name=text-0-0]") == "Describe a scarf"
        await two.open(question.id)
        await two.key("a")
        await banner(one).to_contain_text("Approved. It takes effect in a moment")
        await one.key("u")
        await one.said("Taken back")
        await one.page.wait_for_selector(f"#detail[data-id='{question.id}'][data-state=pending]:not([inert])")
        await one.key("e")
        await one.page.wait_for_selector("[data-editing]")
        assert await one.page.input_value("textarea[name=text-0-0]") == "Describe a scarf"
        assert isinstance((await page.queue.get(question.id)).decision, Approve | None)
        assert not task.done()


async def test_a_tab_from_before_its_browser_was_let_in_anew_says_so(chromium: Browser):
    """Its form carries the token of a session that is over: nothing is decided, and nobody is told of a failure."""
    async with desk() as page, visit(chromium, page) as one:
        question, _ = await page.asked()
        await one.open(question.id)
        two = await one.page.context.new_page()
        await two.goto(page.running.address())
        await two.wait_for_selector(ARMED)
        await one.page.bring_to_front()
        await one.key("a")
        await expect(one.page.locator("#banner")).to_contain_text("Reload this tab")
        assert await one.page.locator("#detail .problem:visible").count() == 0
        assert await steps(page) == []
        await one.page.reload()
        await one.page.wait_for_selector(ARMED)
        await one.key("a")
        await one.said("Approved")
