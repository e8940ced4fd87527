"""Others on this machine: a listener on another port that the reviewer's browser visits, and what it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Download, Error

from antiphon.host import Approve, Queue, ReviewItem, open_store
from antiphon.web.page_guards import COOKIE
from antiphon.web.page_server import leading_to, running_page
from tests.browser.screen import FLAGS, browser
from tests.browser.visits import ARMED, WIDE, visit
from tests.host.asks import CHOICES, origin, request
from tests.web.pages import desk

pytestmark = pytest.mark.browser

PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<title>harmless</title>"


class Listener:
    """Somebody else's program on a port of this machine: it writes down what browsers send it."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.came = asyncio.Event()
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer with a harmless page."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode().lower())
        self.came.set()
        writer.write(PAGE)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def listening() -> AsyncIterator[Listener]:
    """Listen for a block."""
    made = Listener()
    server = await asyncio.start_server(made.take, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


async def test_another_port_is_sent_neither_session_nor_name(chromium: Browser):
    """Whatever name of this machine it is visited by, from a bookmark or from a link on the page itself."""
    async with desk() as page, visit(chromium, page) as seen, listening() as other:
        name = page.running.origin.removeprefix("http://").partition(".")[0]
        tab = await seen.page.context.new_page()
        for host in ("127.0.0.1", "localhost", "another.localhost"):
            await tab.goto(f"http://{host}:{other.port}/")
        link = f"const a = document.createElement('a'); a.href = 'http://127.0.0.1:{other.port}/'; a.click()"
        await tab.goto(f"{page.running.origin}/")
        async with tab.expect_navigation():
            await tab.evaluate(link)
        seen.watch.faults.clear()
        assert len([head for head in other.heads if head.startswith("get / ")]) == 4
        assert not [head for head in other.heads if COOKIE in head or name in head]


async def test_a_page_of_another_port_decides_nothing(chromium: Browser):
    """Neither under the plain name, where no cookie counts, nor under the page's own, had it leaked."""
    async with desk() as page, visit(chromium, page) as seen, listening() as other:
        question, task = await page.asked()
        tab = await seen.page.context.new_page()
        await tab.goto(f"http://127.0.0.1:{other.port}/")
        for origin in (page.running.plain, page.running.origin):
            await tab.evaluate(
                """async ([origin, id]) => {
                    const body = new URLSearchParams({ digest: "0", scope: "always" });
                    const options = { method: "POST", body, credentials: "include", mode: "no-cors" };
                    await fetch(`${origin}/review/${id}/approve`, options).catch(() => null);
                    await fetch(`${origin}/`, { credentials: "include" }).then(got => got.text())
                        .then(text => { window.stolen = text; }).catch(() => null);
                }""",
                [origin, question.id],
            )
            assert await tab.evaluate("window.stolen") is None
        seen.watch.faults.clear()
        assert (await page.queue.get(question.id)).state == "pending"
        assert not task.done()


async def test_a_browser_that_does_not_find_the_name_decides_by_script():
    """At 127.0.0.1 the session travels in a header: no cookie is set there, and a reload goes on."""
    without = [flag.replace(" , EXCLUDE *.localhost", "") for flag in FLAGS]
    async with browser(flags=without) as old, desk() as page, listening() as other:
        _, task = await page.asked()
        context = await old.new_context(viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        lost = await context.new_page()
        with pytest.raises(Error, match="ERR_NAME_NOT_RESOLVED"):
            await lost.goto(page.running.origin)
        await lost.close()
        await tab.goto(page.running.plain + page.running.address().removeprefix(page.running.origin))
        await tab.wait_for_selector(ARMED)
        await tab.reload()
        await tab.wait_for_selector(f"body[data-ready] {ARMED}")
        await tab.keyboard.press("a")
        assert (await task).text == "ok"
        assert await context.cookies() == []
        await tab.goto(f"http://127.0.0.1:{other.port}/")
        assert not [head for head in other.heads if "cookie" in head]
        await context.close()


async def test_where_files_come_by_script_a_failure_is_no_file(chromium: Browser):
    """A page that says what went wrong is not saved under the name of the file; the next time it comes."""
    async with desk() as page:
        context = await chromium.new_context(viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(page.running.plain + page.running.address().removeprefix(page.running.origin))
        await tab.wait_for_selector("body[data-ready]")
        await tab.click(".top nav a[href='/history']")
        files: list[Download] = []

        def note_file(file: Download) -> None:
            files.append(file)

        tab.on("download", note_file)
        await tab.route("**/audit.csv", lambda route: route.fulfill(status=503, body="The store does not respond"))
        await tab.click("a[href='/history/audit.csv']")
        await tab.wait_for_selector("#banner:not([hidden])")
        assert files == []
        await tab.unroute("**/audit.csv")
        async with tab.expect_download() as saved:
            await tab.click("a[href='/history/audit.csv']")
        assert (await saved.value).suggested_filename == "audit.csv"
        await context.close()


async def test_without_script_and_without_the_name_the_page_says_what_is_needed(chromium: Browser):
    """There it is JavaScript; under the page's own name nothing is needed."""
    async with desk() as page:
        context = await chromium.new_context(java_script_enabled=False, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(page.running.plain + page.running.address().removeprefix(page.running.origin))
        assert "JavaScript is needed under this address" in await tab.inner_text("body")
        await context.close()


async def test_the_page_decides_without_script(chromium: Browser):
    """Approve, edit with its preview, deny with a reason: each leads on to the next request."""
    async with desk() as page:
        asked = [await page.asked(text=text) for text in ("One", "Two", "Three")]
        context = await chromium.new_context(java_script_enabled=False, viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(page.running.address())
        await tab.click(f"[data-row='{asked[0][0].id}']")
        page.passes(1)
        await tab.click("#detail .decide .primary")
        assert "Approved" in await tab.inner_text("#said")
        assert (await asked[0][1]).text == "ok"
        assert await tab.get_attribute("#detail", "data-id") == asked[1][0].id
        await tab.click("#detail [data-edit]")
        await tab.fill("textarea[name=text-0-0]", "Two and a half")
        await tab.click("form[data-preview] button.primary")
        page.passes(1)
        await tab.click("#preview button.primary")
        assert (await asked[1][1]).text == "ok"
        await tab.click(".more > summary")
        await tab.click("summary[data-key=r]")
        await tab.fill("input[name=reason]", "not today")
        await tab.click("#detail button[name=reach] >> nth=0")
        await asyncio.wait([asked[2][1]])
        assert asked[2][1].exception().__notes__ == ["denied: not today"]
        assert await page.queue.pending() == []
        await context.close()


async def test_what_was_sent_a_moment_ago_is_not_approved_without_script_either(chromium: Browser):
    """The server keeps the time: a second click of a double click decides nothing."""
    async with desk() as page:
        question, task = await page.asked()
        context = await chromium.new_context(java_script_enabled=False, viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(page.running.address())
        page.running.page.site.clock = lambda: 1_000_000.0
        await tab.goto(f"{page.running.origin}/review/{question.id}")
        await tab.click("#detail .decide .primary")
        assert "only a moment ago" in await tab.inner_text("main .banner")
        assert not task.done()
        await context.close()


@asynccontextmanager
async def impostor(port: int) -> AsyncIterator[Listener]:
    """Take the port of a page that was stopped, and answer whatever is asked."""
    made = Listener()
    async with await asyncio.start_server(made.take, "127.0.0.1", port):
        yield made


async def test_a_tab_sends_nothing_to_whoever_took_the_port_of_its_page(chromium: Browser, tmp_path: Path):
    """It asks for a proof, without a cookie; when the page is back it goes on by itself, and decides."""
    store = open_store(tmp_path / "store.db")
    queue, params = Queue(store), request("Describe a mug.")
    item = ReviewItem(origin=origin(), params=params, received=params, provider="echo", choices=CHOICES, expires_in=600)
    async with running_page(store) as running:
        port = int(running.origin.rpartition(":")[2])
        context = await chromium.new_context(viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(running.address())
        await tab.wait_for_selector("body[data-ready] #queue")
    async with impostor(port) as other:
        await other.came.wait()
        other.came.clear()
        await tab.evaluate("document.querySelector('nav a[href=\"/history\"]').click()")
        await other.came.wait()
        await tab.wait_for_selector("#banner:not([hidden])")
    assert {head.split(" ")[1].partition("?")[0] for head in other.heads} == {"/alive"}
    assert not [head for head in other.heads if "cookie" in head]
    async with running_page(store, port=port):
        await tab.wait_for_selector("#banner", state="hidden")
        deciding = asyncio.create_task(queue.review(item))
        await tab.wait_for_selector(ARMED)
        await tab.keyboard.press("a")
        assert isinstance(await deciding, Approve)
    await context.close()
    await store.aclose()


@pytest.mark.parametrize("script", [True, False])
async def test_the_token_does_not_stay_in_the_way(chromium: Browser, script: bool):
    """The script takes it out of the address; without one, loading the page again leads to the queue's own address."""
    async with desk() as page:
        context = await chromium.new_context(java_script_enabled=script, viewport=WIDE, locale="en-GB")
        tab = await context.new_page()
        await tab.goto(page.running.address())
        await tab.wait_for_selector("#queue")
        if script:
            await tab.wait_for_selector("body[data-ready]", state="attached")
            assert tab.url == f"{page.running.origin}/"
        await tab.reload()
        await tab.wait_for_selector("#queue")
        assert tab.url == f"{page.running.origin}/"
        await context.close()


async def test_a_browser_that_is_started_with_a_file_gets_in(chromium: Browser, tmp_path: Path):
    """From a file the page is another site, whose redirects carry no cookie of ours: a page in between leads on."""
    file = tmp_path / "antiphon.html"
    async with desk() as page:
        for script in (True, False):
            context = await chromium.new_context(java_script_enabled=script, viewport=WIDE, locale="en-GB")
            tab = await context.new_page()
            await asyncio.to_thread(file.write_text, leading_to(page.running.address()))
            await tab.goto(file.as_uri())
            await tab.wait_for_url(f"{page.running.origin}/")
            await tab.wait_for_selector("#queue")
            await context.close()
