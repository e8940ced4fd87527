"""The site that ``make site`` builds, clicked through in Chromium: read, searched, on a phone, without our faults."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser, expect

from tests.browser.test_reach import AXE

pytestmark = pytest.mark.browser

SITE = Path(__file__).parents[2] / "build" / "site"
READ = ["", "tutorial/1-first-server/", "how-to/gateway/", "reference/antiphon/antiphon.Server/", "zh/"]
"""Pages of each kind."""
THEME = ["color-contrast", "landmark-unique", "link-in-text-block", "scrollable-region-focusable"]
"""Rules of axe that the theme breaks: its colours of code and links, its buttons to copy, its frames of tables."""
LEFT = [*THEME, "empty-table-header"]
"""And one that our tables break: nothing stands above a column of names."""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Serve the built site on this machine; yields its address."""
    assert (SITE / "index.html").exists(), "make site builds it"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    serving.join()
    server.server_close()


async def test_a_reader_finds_the_way(chromium: Browser, site: str):
    """From the home page to the tutorial, and by the search to a class, whose members have their types."""
    page = await chromium.new_page()
    await page.goto(site)
    await page.get_by_role("link", name="Tutorial", exact=True).first.click()
    await page.get_by_role("link", name="A first server").first.click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("first server")
    await page.get_by_role("textbox", name="Search").click()
    await page.keyboard.type("PendingRound")
    await page.locator("a.md-search-result__link", has_text="PendingRound").first.click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("PendingRound")
    await page.goto(f"{site}reference/antiphon/antiphon.Client/")
    await expect(page.locator(".md-content")).to_contain_text("call_tool")
    await page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_are_read_on_a_phone(chromium: Browser, site: str, scheme: Literal["light", "dark"]):
    """Nothing is wider than 360 px, nothing is loaded from elsewhere, and axe finds no fault in what is ours."""
    context = await chromium.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = await context.new_page()
    elsewhere: list[str] = []
    page.on("request", lambda request: elsewhere.append(request.url) if not request.url.startswith(site) else None)
    for path in READ:
        await page.goto(site + path)
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"{path}: {width} px"
        await page.add_script_tag(path=AXE)
        asked = {"rules": {name: {"enabled": False} for name in LEFT}, "resultTypes": ["violations"]}
        found = await page.evaluate("asked => axe.run('.md-content', asked)", asked)
        faults = [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]
        assert faults == [], f"{path}: {faults}"
    assert [url for url in elsewhere if not url.startswith(("data:", "blob:"))] == []
    await context.close()
