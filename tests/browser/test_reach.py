"""The page for everybody: by keyboard alone, in Chinese, on a narrow screen, with a screen reader, in the dark."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from antiphon.host import Approve, Terms, digest
from antiphon.host.config.toml_files import load_config
from antiphon.host.review.question import Question
from antiphon.wire.elicitation import ElicitRequestParams
from tests.browser.pictures import CONFIG
from tests.browser.visits import ARMED, Visit, visit
from tests.host.asks import origin, request
from tests.web.pages import Desk, desk
from tests.web.signing import team
from tests.web.test_password_sign_in import PEOPLE, SECRET

pytestmark = pytest.mark.browser

HOME = Path(os.environ.get("ANTIPHON_BROWSER_DIR") or Path.home() / ".cache" / "antiphon-browser")
AXE = HOME / "node_modules" / "axe-core" / "axe.min.js"
PAGES = ["/history", "/grants", "/spending", "/settings"]
FORM = ElicitRequestParams.form(
    "Your details?",
    {
        "properties": {
            "name": {"type": "string", "title": "Name"},
            "age": {"type": "integer"},
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "likes": {"type": "array", "items": {"enum": ["tea", "coffee"]}},
            "agrees": {"type": "boolean"},
        },
        "required": ["name"],
    },
)


IN_SIGHT = """() => {
    const name = document.querySelector('.top nav [aria-current]').getBoundingClientRect();
    return name.left >= 0 && name.right <= innerWidth;
}"""
LANDMARKS = "header, nav, main, aside, section[aria-label], section[aria-labelledby], form[role=search], [role=region]"
NAMES = """all => all.map(one => {
    const named = document.getElementById(one.getAttribute('aria-labelledby') || '');
    return `${one.localName} ${one.getAttribute('aria-label') || named?.textContent || ''}`;
})"""


SMALL = """() => [...document.querySelectorAll("button, summary, select, input, textarea, a[href]")].filter((one) => {
    const { width, height } = one.getBoundingClientRect();
    const pressed = one.checkVisibility() && getComputedStyle(one).display !== "inline" && !one.matches(".skip");
    return pressed && Math.min(width, height) < 24;
}).map((one) => one.outerHTML.slice(0, 120))"""


async def happened(page: Desk) -> None:
    """Let something be in the record, among the grants and among the blocks."""
    question, task = await page.asked(text="Before")
    granted = Approve(digest=digest(question.item.params), scope="session", terms=Terms(uses=5))
    await page.queue.decide(question.id, granted, hash=question.hash, by="Ada")
    await task
    await page.queue.block("url:0123456789abcdef", "https://elsewhere.example/mcp", by="Ada")


# Drawn to its end: the fonts are there, nothing is being left, and no button waits to be armed.
SETTLED = """() => document.body.dataset.ready && document.fonts.status === "loaded"
    && !document.querySelector("#view [aria-busy], #view [inert], #view [data-arming][aria-disabled]")"""


async def faults(page: Page, settled: str = SETTLED) -> list[str]:
    """Run axe-core, and list its findings; and what is pressed and has less than 24 pixels (links in a text aside)."""
    await page.wait_for_function(settled)
    # The last argument of evaluate must not be returned: the library is an object that cannot be sent.
    await page.evaluate(f"{AXE.read_text()}; undefined")
    found = await page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then(found => found.violations)")
    small = await page.evaluate(SMALL)
    return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]] + small


@dataclass(frozen=True)
class Look:
    """How a view is looked at."""

    scheme: str
    width: int
    locale: str

    def visit(self, chromium: Browser, page: Desk) -> AbstractAsyncContextManager[Visit]:
        """Open the page in such a browser."""
        size = {"width": self.width, "height": 900}
        return visit(chromium, page, color_scheme=self.scheme, viewport=size, locale=self.locale)


LOOKS = [
    pytest.param(Look(scheme, width, locale), id=f"{scheme}-{width}-{locale}")
    for scheme in ["light", "dark"]
    for width in [390, 768, 1440]
    for locale in ["en-GB", "zh-CN"]
]


@asynccontextmanager
async def prepared(tmp_path: Path) -> AsyncIterator[tuple[Desk, Question]]:
    """Have a desk with a past, with models, and with a question and a form that wait."""
    file = tmp_path / "antiphon.toml"
    file.write_text(CONFIG)
    async with desk(config=load_config({}, file=file)) as page:
        await happened(page)
        question, _ = await page.asked(system_prompt="Be brief \u202e", max_tokens=9_000)
        page.tasks.append(asyncio.create_task(page.host.elicit(FORM, origin("f"))))
        yield page, question


@pytest.mark.parametrize("look", LOOKS[::3])
async def test_a_person_signs_in_with_a_password(chromium: Browser, look: Look, tmp_path: Path):
    """By keyboard, and the form has no fault, also after a wrong password; then the page is that person's."""
    (tmp_path / "people.toml").write_text(PEOPLE)
    async with team(passwords=str(tmp_path / "people.toml")) as made, look.visit(chromium, made) as seen:
        assert await faults(seen.page, "() => document.fonts.status === 'loaded'") == []
        for password in ("wrong", SECRET):
            await seen.page.fill("#name", "ann")
            await seen.page.fill("#password", password)
            await seen.key("Enter")
            if password == "wrong":
                await seen.page.wait_for_selector("[role=alert]")
                await seen.page.wait_for_function("() => document.activeElement.id === 'password'")
                assert await faults(seen.page, "() => document.fonts.status === 'loaded'") == []
        await seen.page.wait_for_selector("body[data-ready]")
        await seen.page.click("nav a[href='/settings']")
        await seen.page.wait_for_selector("text=Ann Lee")


@pytest.mark.parametrize("look", LOOKS)
async def test_axe_finds_no_fault_in_a_request(chromium: Browser, look: Look, tmp_path: Path):
    """The queue, a request, its edit and preview have none; light and dark, wide and narrow."""
    async with prepared(tmp_path) as (page, question), look.visit(chromium, page) as seen:
        await seen.count(2)
        if look.width >= 960:
            await seen.page.wait_for_selector(ARMED)
        assert await faults(seen.page) == []
        await seen.open(question.id)
        await seen.page.wait_for_selector("#detail .further summary", state="attached")
        landmarks = await seen.page.eval_on_selector_all(LANDMARKS, NAMES)
        assert len(set(landmarks)) == len(landmarks), landmarks
        for fold in await seen.page.query_selector_all("#detail details:not([open]) > summary"):
            await fold.click()
        assert await faults(seen.page) == []
        await seen.page.click("[data-edit]")
        await seen.page.fill("textarea[name=system]", "Be long")
        await seen.page.click("[data-preview] button.primary")
        await seen.page.wait_for_selector("#preview [data-arming]")
        assert await faults(seen.page) == []


@pytest.mark.parametrize("look", LOOKS)
async def test_axe_finds_no_fault_in_what_a_server_asks_a_person(chromium: Browser, look: Look, tmp_path: Path):
    """An address to open and a form have none."""
    async with prepared(tmp_path) as (page, _), look.visit(chromium, page) as seen:
        url = page.host.elicit(ElicitRequestParams.visit("Pay?", "https://pay.example"), origin("u"))
        page.tasks.append(asyncio.create_task(url))
        await seen.count(3)
        for summary in ["Pay?", "Your details"]:
            await seen.page.click(f"[data-row] >> text={summary}")
            await seen.page.wait_for_selector(f"#detail[data-kind=elicitation]:not([inert]) >> text={summary}")
            assert await faults(seen.page) == []
            await seen.page.click("nav [href='/']")


@pytest.mark.parametrize("look", LOOKS)
async def test_axe_finds_no_fault_in_the_other_views(chromium: Browser, look: Look, tmp_path: Path):
    """The past, what is allowed and spent, the models, the servers, the settings, and several at once have none."""
    async with prepared(tmp_path) as (page, question), look.visit(chromium, page) as seen:
        for path in [*PAGES, "/history/1", "/models", "/servers", f"/alike/{question.id}"]:
            await seen.page.goto(page.running.origin + path)
            assert await faults(seen.page) == [], path


async def test_everything_can_be_done_by_keyboard(chromium: Browser):
    """Tab and keys alone: choose, approve; the next is chosen by itself, and denied; help opens and closes."""
    async with desk() as page:
        first, approved = await page.asked(text="First")
        second, denied = await page.asked(text="Second")
        async with visit(chromium, page) as seen:
            keyboard = seen.page.keyboard
            await seen.count(2)
            await keyboard.press("?")
            await seen.page.wait_for_selector("dialog[open]")
            await keyboard.press("Escape")
            await seen.page.wait_for_selector(f"#detail[data-id='{first.id}']")
            await keyboard.press("j")
            await seen.page.wait_for_selector(f"#detail[data-id='{second.id}']")
            await keyboard.press("k")
            await seen.page.wait_for_selector(f"#detail[data-id='{first.id}'] .bar [data-arming]:not([aria-disabled])")
            await keyboard.press("a")
            await seen.page.wait_for_selector(f"#detail[data-id='{second.id}']")
            assert (await approved).text == "ok"
            await keyboard.press("m")
            assert await seen.page.evaluate("document.activeElement.id") == "model"
            await seen.page.wait_for_selector("#detail .deny button:not([aria-disabled])")
            await keyboard.press("d")
            await seen.count(0)
        await asyncio.wait([denied])
        assert denied.exception() is not None


async def test_keys_do_nothing_while_somebody_types(chromium: Browser):
    """An a in an answer is a letter."""
    async with desk() as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("w")
            await seen.page.keyboard.type("a d j k e ?")
            assert await seen.page.input_value("textarea[name=text]") == "a d j k e ?"
            assert not task.done()


async def test_the_page_speaks_chinese(chromium: Browser):
    """By the browser's wish at first; the choice in the settings holds from then on."""
    async with desk() as page:
        question, task = await page.asked()
        async with visit(chromium, page, locale="zh-CN") as seen:
            await seen.open(question.id)
            assert await seen.page.get_attribute("html", "lang") == "zh-Hans"
            assert "请求" in await seen.page.inner_text("#detail h1")
            await seen.page.click("text=设置")
            await seen.page.select_option("select[name=language]", "en")
            await seen.page.click("button >> text=保存")
            await seen.page.wait_for_selector("html[lang=en]")
            await seen.page.goto(f"{page.running.origin}/review/{question.id}")
            await seen.page.wait_for_selector("h1 >> text=asks")
            assert not task.done()


async def test_nothing_is_cut_off_at_320_pixels(chromium: Browser):
    """No sideways scrolling, on any view; what is tapped is 44 pixels high."""
    async with desk() as page:
        question, _ = await page.asked(text="w" * 3_000, system_prompt="Be brief")
        async with visit(chromium, page, viewport={"width": 320, "height": 640}, has_touch=True) as seen:
            await seen.open(question.id)
            for path in ["", *PAGES]:
                if path:
                    await seen.page.goto(page.running.origin + path)
                width = await seen.page.evaluate("document.documentElement.scrollWidth")
                assert width <= 320, path
                small = await seen.page.evaluate(
                    """() => [...document.querySelectorAll('button, .button, summary, select, nav a')]
                        .filter(each => each.offsetParent && each.getBoundingClientRect().height < 43.5)
                        .map(each => each.outerHTML.slice(0, 80))"""
                )
                assert small == [], path
                # The name of the view is in sight, though there is no room for the names of all.
                await seen.page.wait_for_function(IN_SIGHT)
            await seen.page.goto(f"{page.running.origin}/review/{question.id}")
            await seen.page.wait_for_selector("#detail .bar [data-arming]:not([aria-disabled])")
            await seen.page.tap("#detail .decide .primary")
            await seen.said("Approved")


async def test_a_form_is_filled_in(chromium: Browser):
    """A server asks a person; what does not fit is said, what fits is sent."""
    async with desk() as page:
        task = asyncio.create_task(page.host.elicit(FORM, origin()))
        page.tasks.append(task)
        async with visit(chromium, page) as seen:
            await seen.count(1)
            await seen.page.click("[data-row]")
            await seen.page.wait_for_selector("#detail .bar [data-arming]:not([aria-disabled])")
            await seen.page.click("#detail .bar .primary")
            assert await seen.page.evaluate("document.activeElement.name") == "field-0"
            await seen.page.fill("[name=field-0]", "Ada")
            await seen.page.fill("[name=field-1]", "36")
            await seen.page.select_option("[name=field-2]", "blue")
            await seen.page.check("[value=tea]")
            await seen.page.select_option("[name=field-4]", "true")
            await seen.page.click("#detail .bar .primary")
            await seen.said("Answered")
        answer = await task
        assert answer.content == {"name": "Ada", "age": 36, "colour": "blue", "likes": ["tea"], "agrees": True}


async def test_settings_are_kept(chromium: Browser):
    """Theme and name hold after a reload; the name is in the record."""
    async with desk() as page:
        question, task = await page.asked(request())
        async with visit(chromium, page) as seen:
            await seen.page.goto(f"{page.running.origin}/settings")
            await seen.page.select_option("select[name=theme]", "dark")
            await seen.page.fill("input[name=name]", "Ada 女士")
            await seen.page.click("text=Save")
            await seen.page.wait_for_selector("html[data-theme=dark]")
            await seen.page.goto(f"{page.running.origin}/review/{question.id}")
            await seen.page.wait_for_selector("#detail .bar [data-arming]:not([aria-disabled])")
            await seen.page.keyboard.press("a")
            await seen.said("Approved")
        await task
        assert [record.by for record in page.host.audit.records() if record.step == "review"] == ["Ada 女士"]
