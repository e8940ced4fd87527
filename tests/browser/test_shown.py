"""What is decided is what is shown: on a slow link, in two tabs, in forms and for addresses."""

from __future__ import annotations

import asyncio
import re

import msgspec
import pytest
from playwright.async_api import Browser, Route

from antiphon.errors import Rejected
from antiphon.host.checks.risk import Risk
from antiphon.host.review.review import hash_of
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.envelope import encode_value
from tests.browser.visits import ARMED, Visit, visit
from tests.host.asks import origin
from tests.web.pages import Desk, desk

pytestmark = pytest.mark.browser

DEAD_NO_MORE = "() => performance.now() - document.querySelector('#detail .bar .primary').dataset.since > 500"
"""The moment is over in which every button is dead: what keeps it dead now is something else."""

DRAFTS = ElicitRequestParams.form(
    "Delete 3 old drafts?",
    {
        "properties": {
            "sure": {"type": "boolean", "title": "Sure"},
            "which": {"type": "string", "title": "Which", "enum": ["all", "old"]},
            "mail": {"type": "string", "title": "Mail", "format": "email"},
            "many": {"type": "integer", "title": "Many", "minimum": 1, "maximum": 9},
            "keep": {"type": "boolean", "title": "Keep", "default": True},
        },
        "required": ["sure", "which", "many"],
    },
)


async def elicited(page: Desk, params: ElicitRequestParams) -> tuple[str, asyncio.Task[object]]:
    """Let a server ask the person."""
    task = asyncio.create_task(page.host.elicit(params, origin("f")))
    page.tasks.append(task)
    return (await page.arrived(set())).id, task


async def shown(seen: Visit, id: str) -> None:
    """Wait until a question is drawn."""
    await seen.page.wait_for_selector(f"#detail[data-id='{id}']:not([inert])")


async def test_on_a_slow_link_keys_decide_nothing_until_the_request_is_drawn(chromium: Browser):
    """The row is highlighted at once; the old request cannot be decided any more, by key or by mouse."""
    async with desk() as page:
        first, one = await page.asked(text="First")
        async with visit(chromium, page) as seen:
            await seen.open(first.id)
            go_on = asyncio.Event()

            async def slow(route: Route) -> None:
                if f"/review/{first.id}" not in route.request.url and route.request.headers.get("x-part") == "detail":
                    await go_on.wait()
                await route.continue_()

            # Before there is a second one: it is fetched ahead over the slow link.
            await seen.page.route("**/*", slow)
            second, two = await page.asked(text="Second")
            await page.asked(text="Third")
            await seen.count(3)
            await seen.page.keyboard.press("j")
            await seen.page.wait_for_selector(f"[data-row='{second.id}'][aria-current]")
            assert await seen.page.get_attribute("#detail", "aria-busy") == "true"
            for key in ("a", "d"):
                await seen.page.keyboard.press(key)
            await seen.page.evaluate("document.querySelector('#detail .decide .primary').click()")
            assert [question.state for question in await page.queue.pending()] == ["pending"] * 3
            assert not one.done()
            go_on.set()
            await shown(seen, second.id)
            await seen.page.wait_for_selector(ARMED)
            await seen.page.keyboard.press("a")
            assert (await two).text == "ok"
        assert not one.done()


async def test_a_request_that_cannot_be_loaded_leaves_the_old_one_alive(chromium: Browser):
    """Its row is marked again, and it can be decided."""
    async with desk() as page:
        first, one = await page.asked(text="First")
        async with visit(chromium, page) as seen:
            await seen.open(first.id)
            others = re.compile(rf"/review/(?!{first.id})\w+$")
            await seen.page.route(others, lambda route: route.abort())
            await page.asked(text="Second")
            await seen.count(2)
            await seen.page.keyboard.press("j")
            await seen.page.wait_for_selector("#banner >> text=connection is lost")
            await shown(seen, first.id)
            assert await seen.page.get_attribute(f"[data-row='{first.id}']", "aria-current") == "true"
            await seen.page.keyboard.press("a")
            assert (await one).text == "ok"


async def test_a_decision_about_something_else_is_refused_and_said(chromium: Browser):
    """What the page would send about another version of the request decides nothing."""
    async with desk() as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.eval_on_selector_all(
                "#detail input[name=hash]", "all => all.forEach(one => { one.value = '0'.repeat(64); })"
            )
            await seen.page.click("#detail .decide button.danger")
            await seen.page.wait_for_selector(".problem >> text=not what is kept any more")
        assert not task.done()


async def test_nothing_is_chosen_for_a_person(chromium: Browser):
    """A required yes or no, a required choice: both are unanswered, and the key for approval sends nothing."""
    async with desk() as page:
        id, task = await elicited(page, DRAFTS)
        async with visit(chromium, page) as seen:
            await shown(seen, id)
            await seen.page.wait_for_selector(ARMED)
            assert await seen.page.input_value("[name=field-0]") == ""
            assert await seen.page.input_value("[name=field-1]") == ""
            assert await seen.page.input_value("[name=field-4]") == ""
            assert "The server suggests: yes" in await seen.page.inner_text("#told-4")
            await seen.page.keyboard.press("a")
            await seen.page.wait_for_selector("[name=field-0]:focus")
            assert not task.done()


async def test_what_does_not_fit_is_said_beside_its_field(chromium: Browser):
    """Bounds and kinds are shown and checked there, and the first field that does not fit has the focus."""
    async with desk() as page:
        id, task = await elicited(page, DRAFTS)
        async with visit(chromium, page) as seen:
            await shown(seen, id)
            await seen.page.wait_for_selector(ARMED)
            assert await seen.page.get_attribute("[name=field-2]", "inputmode") == "email"
            assert await seen.page.get_attribute("[name=field-3]", "type") == "number"
            assert "at least 1" in await seen.page.inner_text("#told-3")
            await seen.page.select_option("[name=field-0]", "false")
            await seen.page.select_option("[name=field-1]", "old")
            await seen.page.fill("[name=field-3]", "12")
            await seen.page.click("#detail .bar .primary")
            assert await seen.page.inner_text(".field:has([name=field-3]) .fault") != ""
            assert await seen.page.evaluate("document.activeElement.name") == "field-3"
            assert "at least 1, at most 9" in await seen.page.inner_text(".field:has([name=field-3]) .fault")
            await seen.page.fill("[name=field-3]", "3")
            await seen.page.keyboard.press("Control+Enter")
            answer = await task
        assert answer.content == {"sure": False, "which": "old", "many": 3}


async def test_an_address_is_accepted_only_when_it_was_seen_to_its_end(chromium: Browser):
    """Its host is set apart, and the button is dead until the last character was on the screen."""
    url = "https://pay.example.com/" + "a" * 6_000
    async with desk() as page:
        id, task = await elicited(page, ElicitRequestParams.visit("Pay?", url))
        async with visit(chromium, page, viewport={"width": 390, "height": 700}) as seen:
            await seen.page.click(f"[data-row='{id}']")
            await shown(seen, id)
            assert await seen.page.inner_text(".host") == "pay.example.com"
            assert await seen.page.inner_text(".whole code") == url
            await seen.page.wait_for_function(DEAD_NO_MORE)
            await seen.page.evaluate("document.querySelector('#detail .bar .primary').click()")
            assert not task.done()
            await seen.page.locator("#address-end").scroll_into_view_if_needed()
            await seen.page.wait_for_selector(ARMED)
            await seen.page.click("#detail .bar .primary")
            assert (await task).action == "accept"


@pytest.mark.parametrize(("button", "asks"), [("Stop the whole call", "call"), ("Block the server", "server")])
async def test_a_form_stops_its_call_and_blocks_its_server(chromium: Browser, button: str, asks: str):
    """With the same buttons as a request."""
    async with desk() as page:
        id, task = await elicited(page, DRAFTS)
        async with visit(chromium, page) as seen:
            await shown(seen, id)
            await seen.page.keyboard.press("r")
            await seen.page.click(f"button >> text={button}")
            await seen.page.click("#sure .danger")
            await seen.said("Denied")
        await asyncio.wait([task])
        blocked = await page.store.blocks()
        assert len(blocked) == (1 if asks == "server" else 0)


async def test_blocking_a_server_takes_away_what_already_waits_from_it(chromium: Browser):
    """At once, on the page as well."""
    async with desk() as page:
        first, one = await page.asked(text="First")
        _, two = await page.asked(text="Second")
        async with visit(chromium, page) as seen:
            await seen.open(first.id)
            await seen.page.keyboard.press("r")
            await seen.page.click("button >> text=Block the server")
            await seen.page.click("#sure .danger")
            await seen.count(0)
        for task in (one, two):
            with pytest.raises(Rejected):
                await task


async def test_a_tab_that_shows_what_it_was_before_decides_nothing(chromium: Browser):
    """The question is asked again with another cost: the tab that missed it is refused, and shows what is now."""
    async with desk() as page, visit(chromium, page) as ada, visit(chromium, page) as bob:
        question, task = await page.asked()
        await ada.open(question.id)
        await bob.open(question.id)
        # Bob's connection stands still: he hears of nothing.
        await bob.page.route("**/live", lambda route: route.abort())
        await bob.page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
        await bob.page.wait_for_selector("#banner:not([hidden])")
        store, row = page.store, await page.store.review(question.id)
        item = msgspec.structs.replace(question.item, risks=(Risk(kind="size", level="warning", text="other"),))
        changed = msgspec.structs.replace(row, item=encode_value(item).decode(), hash=hash_of(item))
        store._keep(changed)
        await ada.page.wait_for_selector("#detail .risks >> text=other")
        await ada.said("The request has changed")
        await bob.key("a")
        await bob.said("The request has changed")
        await bob.page.wait_for_selector("#detail .risks >> text=other")
        assert not task.done()
        await ada.page.wait_for_selector(ARMED)
        await ada.key("a")
        assert (await task).text == "ok"
