"""A page that stays open: many requests, a restarted server, a new one, and addresses that are of no use to others."""

from __future__ import annotations

import asyncio
from statistics import median

import pytest
from playwright.async_api import Browser, Route

from antiphon.host import Approve, MemoryStore, Queue, ReviewItem, open_store
from antiphon.web.page_server import running_page
from tests.browser.screen import Watch
from tests.browser.visits import ARMED, WIDE, fetched, visit
from tests.host.asks import CHOICES, origin, request
from tests.web.pages import desk

pytestmark = pytest.mark.browser

# The time, and how much of the queue was changed: attributes, and elements that came or went (clocks are texts).
PAINTED = """id => new Promise(done => {
    const begun = performance.now();
    let changes = 0;
    const isElement = (node) => node.nodeType === Node.ELEMENT_NODE;
    const queue = new MutationObserver((all) => {
        for (const { type, addedNodes, removedNodes } of all)
            changes += type === 'attributes' ? 1 : [...addedNodes, ...removedNodes].filter(isElement).length;
    });
    queue.observe(document.getElementById('queue'), { subtree: true, attributes: true, childList: true });
    const look = () => document.querySelector(`#detail[data-id='${id}']`)
        ? requestAnimationFrame(() => setTimeout(() => done([performance.now() - begun, changes])))
        : requestAnimationFrame(look);
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'j', bubbles: true }));
    look();
})"""


def item(number: int) -> ReviewItem:
    """One of many."""
    params = request(f"Describe product {number} in two sentences. " * 5, system_prompt="You write for a shop.")
    who = origin(str(number), call=f"call-{number // 4}")
    return ReviewItem(origin=who, params=params, received=params, provider="echo", choices=CHOICES, expires_in=600)


async def test_five_hundred_requests_do_not_lag(chromium: Browser):
    """From the key to the painted request two rows are changed, with 500 in the queue. The times are printed."""
    async with desk() as page, visit(chromium, page) as seen:
        waiting = [asyncio.create_task(page.queue.review(item(at))) for at in range(500)]
        await seen.count(500)
        ids = await seen.page.eval_on_selector_all("[data-row]", "rows => rows.map(row => row.dataset.row)")
        await seen.page.wait_for_selector(ARMED)
        # The first is shown already.
        painted = [await seen.page.evaluate(PAINTED, id) for id in ids[1:21]]
        times = [each for each, _ in painted]
        print(f"input to paint with 500 pending: median {median(times):.0f} ms, worst {max(times):.0f} ms")
        assert max(changes for _, changes in painted) <= 2
        arrivals: list[float] = []
        for number in range(5):
            begun = asyncio.get_running_loop().time()
            waiting.append(asyncio.create_task(page.queue.review(item(1_000 + number))))
            await seen.count(501 + number)
            arrivals.append(1000 * (asyncio.get_running_loop().time() - begun))
        print(f"arrival to visible with 500 pending: median {median(arrivals):.0f} ms, worst {max(arrivals):.0f} ms")
        decided: list[float] = []
        for _ in range(5):
            before = await seen.page.get_attribute("#detail", "data-id")
            await seen.page.wait_for_selector(ARMED)
            begun = asyncio.get_running_loop().time()
            await seen.page.keyboard.press("d")
            await seen.page.wait_for_selector(f"#detail[data-id]:not([data-id='{before}']):not([inert])")
            decided.append(1000 * (asyncio.get_running_loop().time() - begun))
        print(f"decision to next with 500 pending: median {median(decided):.0f} ms, worst {max(decided):.0f} ms")
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_what_arrives_while_somebody_moves_on_is_shown(chromium: Browser):
    """The queue that was fetched for the place before is not shown, and nothing is forgotten by that."""
    async with desk() as page, visit(chromium, page) as seen:
        await page.asked(text="First")
        second, _ = await page.asked(text="Second")
        await seen.count(2)
        await seen.page.wait_for_selector("#detail[data-id]")
        fetched, go_on = asyncio.Event(), asyncio.Event()

        async def held(route: Route) -> None:
            if route.request.headers.get("x-part") == "queue" and not fetched.is_set():
                fetched.set()
                await go_on.wait()
            await route.continue_()

        await seen.page.route("**/*", held)
        await page.asked(text="Third")
        await fetched.wait()
        await seen.open(second.id)
        go_on.set()
        await seen.count(3)


@pytest.mark.parametrize("slow", ["the decision", "the next place"])
async def test_what_was_just_decided_here_is_not_shown_as_settled_elsewhere(chromium: Browser, slow: str):
    """The queue hears of a decision while the page that made it is still under way: its own word stays."""
    async with desk() as page, visit(chromium, page) as seen:
        question, task = await page.asked()
        await seen.open(question.id)
        refreshed, parts = asyncio.Event(), set[str]()

        async def held(route: Route) -> None:
            if route.request.url.endswith(("/live", "/outcomes", ".svg")):
                return await route.continue_()
            part = "decision" if route.request.method == "POST" else route.request.headers.get("x-part", "page")
            parts.add(part)
            answer = await fetched(route)
            if part == "queue":
                refreshed.set()
            elif part == ("decision" if slow == "the decision" else "page"):
                await refreshed.wait()
                # Once the queue is drawn anew, the page has asked for whatever it wanted because of what it heard.
                await seen.count(0)
                await seen.page.evaluate("new Promise(requestAnimationFrame)")
            return await route.fulfill(response=answer)

        await seen.page.route("**/*", held)
        await seen.page.click("#detail .decide .primary")
        assert (await task).text == "ok"
        await seen.page.wait_for_selector("#detail[data-id]", state="detached")
        assert await seen.page.text_content("#said") == "Describe a sweater Approved."
        assert parts == {"decision", "queue", "page"}


async def test_an_open_page_comes_back_after_the_server_was_away(chromium: Browser):
    """The connection is lost, and said to be; then it is back by itself, with what arrived meanwhile."""
    store = MemoryStore()
    queue = Queue(store)
    async with running_page(store) as running:
        context = await chromium.new_context(viewport=WIDE, locale="en-GB")
        watch = Watch(context, running.origin)
        page = await context.new_page()
        await page.goto(running.address())
        await page.wait_for_selector("body[data-ready] #queue[data-pending='0']")
    await page.wait_for_selector("#banner >> text=connection is lost")
    waiting = asyncio.create_task(queue.review(item(1)))
    async with running_page(store):
        await page.wait_for_selector("#queue[data-pending='1']", timeout=30_000)
        await page.wait_for_selector("#banner", state="hidden")
        waiting.cancel()
        await page.wait_for_selector("#queue[data-pending='0']")
        await context.close()
    assert watch.faults == []
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_new_process_is_found_by_the_page_that_is_open(chromium: Browser, tmp_path):
    """Name, port and session are kept with the queue: the open page goes on, and decides."""
    first = open_store(tmp_path / "host.db")
    async with running_page(first) as running:
        context = await chromium.new_context(viewport=WIDE, locale="en-GB")
        page = await context.new_page()
        await page.goto(running.address())
        await page.wait_for_selector("body[data-ready] #queue[data-pending='0']")
    await first.aclose()
    await page.wait_for_selector("#banner >> text=connection is lost")
    store = open_store(tmp_path / "host.db")
    waiting = asyncio.create_task(Queue(store).review(item(1)))
    async with running_page(store):
        await page.wait_for_selector("#queue[data-pending='1']", timeout=30_000)
        await page.wait_for_selector("#banner", state="hidden")
        await page.wait_for_selector(ARMED)
        await page.keyboard.press("a")
        await page.wait_for_selector("#queue[data-pending='0']")
        await context.close()
        assert isinstance(await waiting, Approve)
    await store.aclose()


async def test_where_the_page_cannot_be_found_again_it_says_how(chromium: Browser):
    """Its place was taken meanwhile by a page with another name: the old tab names the way back."""
    store = MemoryStore()
    async with running_page(store) as running:
        port = int(running.origin.rpartition(":")[2])
        context = await chromium.new_context(viewport=WIDE, locale="en-GB")
        page = await context.new_page()
        await page.goto(running.plain + running.address().removeprefix(running.origin))
        await page.wait_for_selector("body[data-ready] #queue[data-pending='0']")
    async with running_page(MemoryStore(), port=port):
        await page.wait_for_selector("#banner >> text=not let in any more", timeout=30_000)
        await context.close()


async def test_a_page_that_stops_before_its_script_has_come_says_so(chromium: Browser):
    """Under a name where the script brings the page, it can be drawn already and hear of nothing."""
    async with running_page(MemoryStore()) as running:
        context = await chromium.new_context(viewport=WIDE, locale="en-GB")
        page = await context.new_page()
        await page.route("**/page.js", lambda route: route.abort())
        await page.goto(running.plain + running.address().removeprefix(running.origin))
        await page.wait_for_selector("#banner >> text=connection is lost")
        assert await page.get_attribute("body", "data-ready") is None
        await context.close()


async def test_the_page_cannot_be_framed(chromium: Browser):
    """Another page of this machine shows nothing of it in a frame."""
    async with desk() as page, visit(chromium, page) as seen:
        other = await seen.page.context.new_page()
        # The browser says itself that it refused.
        async with other.expect_console_message(lambda said: "frame-ancestors" in said.text):
            await other.set_content(f"<iframe src='{page.running.origin}/'></iframe>")
        framed = [await frame.content() for frame in other.frames[1:]]
        assert framed and not any('id="view"' in content for content in framed)
        seen.watch.faults.clear()


async def test_something_new_appears_by_itself(chromium: Browser):
    """A request that arrives while the queue is open is there without a reload."""
    async with desk() as page, visit(chromium, page) as seen:
        await seen.count(0)
        await page.asked()
        await seen.count(1)
        assert await seen.page.inner_text("#count") == "1"
