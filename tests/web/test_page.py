"""The address that was printed, and what it opens."""

from __future__ import annotations

import re

import pytest

from antiphon.host import MemoryStore
from antiphon.web.page_guards import COOKIE
from antiphon.web.page_server import running_page
from tests.web.pages import desk, visitor


async def test_an_address_opens_the_page_once():
    """It becomes a cookie; a second browser is refused with words, the first one simply goes on."""
    async with desk() as page:
        address = page.running.address()
        async with visitor() as first, visitor() as second:
            opened = await first.get(address)
            assert (opened.status_code, opened.headers["Location"]) == (303, "/")
            assert (await first.get(f"{page.running.origin}/")).status_code == 200
            late = await second.get(address)
            assert (late.status_code, "was used already" in late.text) == (403, True)
            assert (await first.get(address)).status_code == 303


async def test_a_browser_gets_the_queue_with_the_answer_that_lets_it_in():
    """A redirect would cost a round trip; its connection is kept, and the token is spent as by any other."""
    async with desk() as page, visitor() as first, visitor() as second:
        await page.asked(text="PRIVATE")
        address, browses = page.running.address(), {"Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
        opened = await first.get(address, headers=browses)
        assert (opened.status_code, "PRIVATE" in opened.text) == (200, True)
        assert (opened.headers["Cache-Control"], "Connection" in opened.headers) == ("no-store", False)
        assert 'content="20;url=/"' in opened.text
        again, late = await first.get(address, headers=browses), await second.get(address, headers=browses)
        assert (again.status_code, again.headers["Location"], late.status_code) == (303, "/", 403)


@pytest.mark.parametrize(("method", "headers"), [("HEAD", {}), ("GET", {"Sec-Purpose": "prefetch;prerender"})])
async def test_what_looks_ahead_spends_no_token(method: str, headers: dict[str, str]):
    """A preview of the link and a browser that fetches in advance are not let in; the person still is."""
    async with desk() as page, visitor() as client:
        address = page.running.address()
        looked = await client.request(method, address, headers={"Sec-Fetch-Dest": "document", **headers})
        assert (looked.status_code, "set-cookie" in looked.headers) == (403, False)
        assert (await client.get(address)).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [{}, {"Sec-Fetch-Dest": "empty"}, {"Sec-Fetch-Dest": "iframe"}]
    + [{"Sec-Fetch-Dest": "document", "Sec-Fetch-Site": site} for site in ("cross-site", "same-site")],
)
async def test_whatever_else_fetches_the_address_is_not_shown_what_waits(headers: dict[str, str]):
    """A chat that draws a preview of a link has no use for the cookie, and gets nothing else."""
    async with desk() as page, visitor() as client:
        await page.asked(text="PRIVATE")
        opened = await client.get(page.running.address(), headers=headers)
        assert "PRIVATE" not in opened.text
        assert "csrf" not in opened.text


async def test_a_link_of_another_site_leads_in_by_a_page_of_ours():
    """A strict cookie does not travel with a redirect that another site began."""
    async with desk() as page, visitor() as client:
        opened = await client.get(page.running.address(), headers={"Sec-Fetch-Site": "cross-site"})
        assert (opened.status_code, 'http-equiv="refresh" content="0;url=/"' in opened.text) == (200, True)
        assert (await client.get(f"{page.running.origin}/")).status_code == 200
        own = await client.get(page.running.address(), headers={"Sec-Fetch-Site": "none"})
        assert own.status_code == 303


async def test_a_browser_that_was_not_let_in_is_told_what_to_do():
    """In its own language."""
    async with desk() as page, visitor(base_url=page.running.origin) as client:
        refused = await client.get("/", headers={"Accept-Language": "zh-CN"})
        assert (refused.status_code, refused.text) == (401, "请打开终端中显示的地址：此浏览器尚未获准进入。\n")


async def test_who_opens_an_address_and_is_not_let_in_sees_a_page():
    """With a title, a language and the look of the page; also where the address was used already."""
    async with desk() as page, visitor(base_url=page.running.origin) as client:
        used = page.running.address()
        async with visitor() as first:
            await first.get(used)
        for path, status, says in (("/", 401, "Open the address"), (used, 403, "used already")):
            refused = await client.get(path, headers={"Accept": "text/html", "Accept-Language": "en"})
            assert (refused.status_code, says in refused.text) == (status, True)
            assert '<html lang="en"' in refused.text
            assert "<title>Antiphon</title>" in refused.text
            assert (await client.get(re.findall(r'href="([^"]+page.css)"', refused.text)[0])).status_code == 200


async def test_it_proves_itself_to_whoever_has_its_key():
    """Without a session; the proof is for the host that was asked, and for one challenge."""
    async with desk() as page, visitor(base_url=page.running.origin) as stranger:
        host = page.running.origin.removeprefix("http://")
        proved = await stranger.get("/alive", params={"session": "1", "challenge": "abc"})
        assert proved.text == page.running.page.access.proof(1, f"{host} abc")
        assert "set-cookie" not in proved.headers
        for wrong in ("", "session=9", "session=x", f"session={'9' * 99}", f"session=1&challenge={'a' * 100}"):
            assert (await stranger.get(f"/alive?{wrong}")).status_code == 404


async def test_it_is_found_again_after_a_restart():
    """Under the same name and port, by the browser that was let in before."""
    store = MemoryStore()
    async with running_page(store) as first, visitor() as client:
        await client.get(first.address())
    async with running_page(store) as second:
        assert second.origin == first.origin
        async with visitor(cookies=client.cookies) as again:
            assert (await again.get(f"{second.origin}/")).status_code == 200


async def test_a_page_at_another_port_has_another_name():
    """Whoever holds the old port was perhaps sent its cookie: it opens nothing at the new one."""
    store = MemoryStore()
    async with running_page(store) as first, visitor() as client:
        await client.get(first.address())
        secret = client.cookies[COOKIE]
        async with running_page(store) as second:
            assert second.origin.partition(".")[0] != first.origin.partition(".")[0]
            refused = await client.get(f"{second.origin}/", headers={"Cookie": f"{COOKIE}={secret}"})
            assert refused.status_code == 401
    async with running_page(store) as one, running_page(store) as two:
        assert {one.origin, two.origin} == {first.origin, second.origin}


async def test_names_cannot_be_guessed():
    """128 bits, of the characters a host name may have."""
    names: set[str] = set()
    for _ in range(3):
        async with running_page(MemoryStore()) as running:
            names.add(running.origin.removeprefix("http://").partition(".localhost:")[0])
    assert len(names) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in names)


async def test_files_are_served_from_their_folder_only():
    """The template of a page is none of them."""
    async with desk() as page:
        assert (await page.get("/static/page.js")).headers["Content-Type"].startswith("text/javascript")
        for path in ("/static/../templates/base.html", "/static/%2e%2e/page.py", "/static/", "/static/none.js"):
            assert (await page.get(path)).status_code == 404
