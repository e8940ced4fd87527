"""The address that was printed, and what it opens."""

from __future__ import annotations

import httpx

from antiphon.host import MemoryStore
from antiphon.web.page import ReviewPage
from tests.web.pages import desk


async def test_an_address_opens_the_page_once():
    """It becomes a cookie; a second browser is refused with words, the first one simply goes on."""
    async with desk() as page:
        address = page.running.address()
        async with httpx.AsyncClient() as first, httpx.AsyncClient() as second:
            opened = await first.get(address)
            assert (opened.status_code, opened.headers["Location"]) == (303, "/")
            assert (await first.get(f"{page.running.origin}/")).status_code == 200
            late = await second.get(address)
            assert (late.status_code, "was used already" in late.text) == (403, True)
            assert (await first.get(address)).status_code == 303


async def test_a_link_of_another_site_leads_in_by_a_page_of_ours():
    """A strict cookie does not travel with a redirect that another site began."""
    async with desk() as page, httpx.AsyncClient() as client:
        opened = await client.get(page.running.address(), headers={"Sec-Fetch-Site": "cross-site"})
        assert (opened.status_code, 'http-equiv="refresh" content="0;url=/"' in opened.text) == (200, True)
        assert (await client.get(f"{page.running.origin}/")).status_code == 200
        own = await client.get(page.running.address(), headers={"Sec-Fetch-Site": "none"})
        assert own.status_code == 303


async def test_a_browser_that_was_not_let_in_is_told_what_to_do():
    """In its own language."""
    async with desk() as page, httpx.AsyncClient(base_url=page.running.origin) as client:
        refused = await client.get("/", headers={"Accept-Language": "zh-CN"})
        assert (refused.status_code, refused.text) == (401, "请打开终端中显示的地址：此浏览器尚未获准进入。\n")


def test_pages_on_different_ports_have_different_cookies():
    """Browsers do not tell the ports of one host apart."""
    cookies = {ReviewPage(MemoryStore(), hosts=[f"127.0.0.1:{port}"]).cookie for port in (1, 2)}
    assert len(cookies) == 2


async def test_files_are_served_from_their_folder_only():
    """The template of a page is none of them."""
    async with desk() as page:
        assert (await page.get("/static/page.js")).headers["Content-Type"].startswith("text/javascript")
        for path in ("/static/../templates/base.html", "/static/%2e%2e/page.py", "/static/", "/static/none.js"):
            assert (await page.get(path)).status_code == 404
