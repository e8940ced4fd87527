"""The page by keyboard: the order of what is reached, panels that open, send and close, and tables that scroll."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Page

from antiphon.errors import Rejected
from antiphon.host.config.toml_files import load_config
from tests.browser.pictures import CONFIG
from tests.browser.visits import Visit, visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser

FOCUSED = """() => {
    const at = document.activeElement;
    const places = { '#detail': 'detail', '#queue': 'queue', 'header': 'head', 'body': 'end' };
    return places[Object.keys(places).find(name => at.closest(name))];
}"""


async def reached(page: Page, most: int = 60) -> list[str]:
    """Press Tab until the end of the page, and name the parts that had the focus, in order."""
    order: list[str] = []
    for _ in range(most):
        await page.keyboard.press("Tab")
        place = await page.evaluate(FOCUSED)
        if place == "end":
            break
        if not order or order[-1] != place:
            order.append(place)
    return order


async def armed(seen: Visit, id: str) -> None:
    """Wait until a request can be decided."""
    await seen.page.wait_for_selector(f"#detail[data-id='{id}'] .decide [data-arming]:not([aria-disabled])")


async def test_the_request_is_reached_before_the_queue(chromium: Browser):
    """From the beginning of the page, whatever stands left on the screen."""
    async with desk() as page, visit(chromium, page) as seen:
        question, _ = await page.asked()
        await page.asked(text="Another")
        await seen.page.goto(f"{page.running.origin}/review/{question.id}")
        await seen.page.wait_for_selector("body[data-ready]")
        assert await reached(seen.page) == ["head", "detail", "queue"]


async def test_the_first_link_leads_to_the_request(chromium: Browser):
    """Past head and navigation, without a new look at the server; on a view without a request, to its content."""
    async with desk() as page, visit(chromium, page) as seen:
        question, _ = await page.asked()
        await seen.page.goto(f"{page.running.origin}/review/{question.id}")
        await seen.page.wait_for_selector("body[data-ready]")
        asked_again: list[str] = []
        seen.page.on("request", lambda request: asked_again.append(request.url) if "/review/" in request.url else None)
        await seen.key("Tab")
        assert await seen.page.evaluate("document.activeElement.textContent") == "Skip to the request"
        await seen.key("Enter")
        await seen.key("Tab")
        assert await seen.page.evaluate(FOCUSED) == "detail"
        assert asked_again == []
        await seen.page.goto(f"{page.running.origin}/grants")
        await seen.page.wait_for_selector("body[data-ready]")
        await seen.key("Tab")
        assert await seen.page.evaluate("document.activeElement.textContent") == "Skip to the content"


@pytest.mark.parametrize(("key", "fold"), [("r", "reason"), ("w", "answer"), ("g", "grant")])
async def test_a_panel_is_closed_by_escape(chromium: Browser, key: str, fold: str):
    """Its key opens it and takes the focus there; Escape gives the focus back, and nothing is sent."""
    async with desk() as page, visit(chromium, page) as seen:
        question, task = await page.asked()
        await seen.page.goto(f"{page.running.origin}/review/{question.id}")
        await armed(seen, question.id)
        await seen.key(key)
        assert await seen.page.evaluate("document.activeElement.closest('details').dataset.fold") == fold
        await seen.key("Escape")
        assert await seen.page.locator(f"details[data-fold={fold}][open]").count() == 0
        assert await seen.page.evaluate("document.activeElement.matches('summary')")
        assert not task.done()


async def test_what_is_typed_in_a_panel_is_sent_by_control_and_enter(chromium: Browser):
    """An answer of several lines, where Enter is a line; and a reason."""
    async with desk() as page, visit(chromium, page) as seen:
        first, answered = await page.asked(text="First")
        second, denied = await page.asked(text="Second")
        await seen.page.goto(f"{page.running.origin}/review/{first.id}")
        await armed(seen, first.id)
        await seen.key("w")
        await seen.page.keyboard.type("One")
        await seen.key("Enter")
        await seen.page.keyboard.type("Two")
        await seen.page.wait_for_function(
            "() => performance.now() - document.querySelector('[data-fold=answer] button').dataset.since > 500"
        )
        await seen.key("Control+Enter")
        assert (await answered).text.splitlines()[-1] == "Two"
        await armed(seen, second.id)
        await seen.key("r")
        await seen.page.keyboard.type("not today")
        await seen.key("Control+Enter")
        await seen.said("Denied")
        with pytest.raises(Rejected) as refused:
            await denied
        assert refused.value.__notes__ == ["denied: not today"]


async def test_a_request_is_edited_and_approved_in_three_keys(chromium: Browser):
    """The prompt has the focus; what will be sent is shown before it is sent."""
    async with desk() as page, visit(chromium, page) as seen:
        question, answered = await page.asked(text="First")
        await seen.page.goto(f"{page.running.origin}/review/{question.id}")
        await armed(seen, question.id)
        await seen.key("e")
        await seen.page.wait_for_selector("textarea[name='text-0-0']:focus")
        await seen.page.keyboard.type("Kindly: ")
        await seen.key("Control+Enter")
        await seen.page.wait_for_selector("#preview button:not([aria-disabled])")
        await seen.key("Control+Enter")
        await answered
        assert page.host.provider.requests[0].messages[0].content.text == "Kindly: First"


async def test_the_form_that_edits_is_left_by_escape(chromium: Browser):
    """The request is shown again, as it is; what was typed is kept."""
    async with desk() as page, visit(chromium, page) as seen:
        question, task = await page.asked()
        await seen.page.goto(f"{page.running.origin}/review/{question.id}")
        await armed(seen, question.id)
        await seen.key("e")
        await seen.page.wait_for_selector("[data-editing]")
        await seen.page.fill("textarea[name=text-0-0]", "Something else")
        await seen.key("Escape")
        await armed(seen, question.id)
        await seen.key("e")
        await seen.page.wait_for_selector("[data-editing]")
        assert await seen.page.input_value("textarea[name=text-0-0]") == "Something else"
        assert not task.done()


@pytest.mark.parametrize("path", ["/models", "/servers", "/spending"])
async def test_a_wide_table_is_scrolled_by_keyboard(chromium: Browser, path: str, tmp_path):
    """It takes the focus, says what it is, and moves by the arrow keys."""
    file = tmp_path / "antiphon.toml"
    file.write_text(CONFIG)
    options = {"viewport": {"width": 320, "height": 640}}
    async with desk(config=load_config({}, file=file)) as page, visit(chromium, page, **options) as seen:
        await seen.page.goto(page.running.origin + path)
        table = seen.page.locator(".wide[tabindex='0'][role=region]").last
        assert await table.evaluate("place => Boolean(place.ariaLabel || place.getAttribute('aria-labelledby'))")
        await table.focus()
        for _ in range(3):
            await seen.key("ArrowRight")
        await seen.page.wait_for_function(
            "() => document.activeElement.scrollLeft > 0 || document.activeElement.scrollWidth <= 320"
        )
