"""What is to be seen of a request: media, raw data, what was changed; and who is told that it is there."""

from __future__ import annotations

import base64
import struct
import time
import zlib

import pytest
from playwright.async_api import Browser

from antiphon.wire.content import AudioContent, ImageContent, TextContent
from antiphon.wire.origin import OriginTask
from antiphon.wire.sampling import SamplingMessage
from tests.browser.minute import make_chunk
from tests.browser.pictures import picture
from tests.browser.test_reach import faults
from tests.browser.visits import visit
from tests.host.asks import origin, says
from tests.web.pages import desk

pytestmark = pytest.mark.browser

RECORDED = """
window.notices = [];
window.Notification = class {
    static permission = "granted";
    static requestPermission = async () => "granted";
    constructor(title, options) { window.notices.push([title, options.body]); }
};
Object.defineProperty(document, "hidden", { get: () => true });
"""


def sound() -> AudioContent:
    """Make a tenth of a second of silence."""
    samples = bytes(1600)
    head = b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt "
    head += struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16) + b"data" + struct.pack("<I", len(samples))
    return AudioContent(data=base64.b64encode(head + samples).decode(), mime_type="audio/wav")


def draw(width: int, height: int) -> ImageContent:
    """Draw a picture of one colour."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(width)) * height)
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        make_chunk(*part) for part in ((b"IHDR", head), (b"IDAT", rows), (b"IEND", b""))
    )
    return ImageContent(data=base64.b64encode(data).decode(), mime_type="image/png")


async def test_pictures_are_seen_and_sounds_are_heard(chromium: Browser):
    """Both come from the page itself, as what their content is."""
    message = SamplingMessage(role="user", content=[TextContent(text="What is it?"), picture(), sound()])
    async with desk() as page:
        question, _ = await page.asked(messages=[message])
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.locator(".turn .part > img").scroll_into_view_if_needed()
            await seen.page.wait_for_function("() => document.querySelector('.turn img').naturalWidth === 240")
            seconds = await seen.page.eval_on_selector(
                ".turn audio",
                """audio => new Promise(done => {
                    audio.addEventListener('loadedmetadata', () => done(audio.duration));
                    audio.preload = 'metadata';
                    audio.load();
                })""",
            )
            assert seconds == pytest.approx(0.1)


async def test_a_picture_that_is_drawn_small_is_looked_at_in_its_own_size(chromium: Browser):
    """A server's picture may be so large that what is written in it cannot be read, or so thin that nobody sees it."""
    sizes = ((9_000, 1), (3_000, 3_000))
    async with desk() as page, visit(chromium, page) as seen:
        pictures = [draw(*size) for size in sizes]
        question, _ = await page.asked(messages=[SamplingMessage(role="user", content=pictures)])
        await seen.open(question.id)
        for at, (width, height) in enumerate(sizes):
            part = seen.page.locator(".turn .part").nth(at)
            place = await part.locator("> img").bounding_box()
            assert place is not None
            assert min(place["width"], place["height"]) >= 8
            await part.locator("summary").click()
            await part.locator(".own img").evaluate("picture => picture.decode()")
            whole = await part.locator(".own img").bounding_box()
            assert whole is not None
            assert whole["width"] >= width
            assert whole["height"] >= height
        assert await seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_the_raw_data_and_every_change_of_ours_are_there(chromium: Browser):
    """What the host took out is a removed line; the raw data are what will be sent."""
    async with desk() as page:
        question, _ = await page.asked(messages=[says("Hello")], include_context="allServers")
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            assert "includeContext: allServers" in await seen.page.inner_text(".diff .removed")
            await seen.page.click("text=Raw JSON")
            raw = await seen.page.inner_text(".raw pre")
            assert '"Hello"' in raw
            assert "includeContext" not in raw


async def test_a_hidden_page_notifies_without_a_word_of_the_request(chromium: Browser):
    """Only where the person asked for it on this page."""
    async with desk() as page, visit(chromium, page) as seen:
        await seen.page.add_init_script(RECORDED)
        await seen.page.goto(f"{page.running.origin}/settings")
        await page.asked(text="Before")
        await seen.page.wait_for_selector("#count >> text=1")
        assert await seen.page.evaluate("notices") == []
        await seen.page.check("#notify")
        await page.asked(text="SECRET")
        await seen.page.wait_for_selector("#count >> text=2")
        assert await seen.page.evaluate("notices") == [["Antiphon", "A server asks for something."]]


async def test_the_task_that_asks_is_seen_on_a_narrow_screen(chromium: Browser):
    """Its age and what it has cost, beside who asks; nothing is pushed out of sight by what the server says of it."""
    async with desk() as page:
        task = OriginTask(name="t", ask="a", started=time.time() - 10_810, says="x" * 200)
        question, _ = await page.asked(who=origin(task=task))
        async with visit(chromium, page, viewport={"width": 320, "height": 640}) as seen:
            await seen.page.wait_for_selector("body[data-ready] [data-row]")
            await seen.open(question.id)
            await seen.page.wait_for_selector("#detail .task >> text=task, started 3 h ago · its first ask")
            assert await seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert await faults(seen.page) == []


@pytest.mark.parametrize(("width", "shown"), [(1280, True), (600, False)])
async def test_the_first_request_shows_itself_where_there_is_room(chromium: Browser, width: int, shown: bool):
    """Beside the queue; on a narrow screen the queue comes first."""
    async with desk() as page:
        question, _ = await page.asked()
        async with visit(chromium, page, viewport={"width": width, "height": 800}) as seen:
            await seen.page.wait_for_selector("body[data-ready] [data-row]")
            if shown:
                await seen.page.wait_for_selector(f"#detail[data-id='{question.id}']")
            assert await seen.page.locator("#detail[data-id]").count() == int(shown)


async def test_the_page_is_entered_from_a_link_elsewhere(chromium: Browser):
    """From a terminal that is itself a page: a strict cookie does not travel with a redirect of another site's."""
    async with desk() as page, visit(chromium, page) as seen:
        fresh = await chromium.new_context()
        other = await fresh.new_page()
        await other.route(
            "http://elsewhere.example/",
            lambda route: route.fulfill(content_type="text/html", body=f"<a href='{page.running.address()}'>open</a>"),
        )
        await other.goto("http://elsewhere.example/")
        await other.click("a")
        await other.wait_for_selector("#queue")
        await fresh.close()
        await seen.count(0)


async def test_the_next_risk_is_marked_in_its_text(chromium: Browser):
    """A secret as well as what cannot be seen, one after the other, then from the first again."""
    async with desk() as page, visit(chromium, page) as seen:
        question, _ = await page.asked(text="the key is AKIAIOSFODNN7EXAMPLE and a mark\u202e")
        await seen.open(question.id)
        found = []
        for _ in range(3):
            await seen.key("n")
            found.append(await seen.page.inner_text("#detail .at"))
        assert found == ["AKIAIOSFODNN7EXAMPLE", "\u27e6U+202E\u27e7", "AKIAIOSFODNN7EXAMPLE"]
