"""Two people at two pages of two processes with one store: what the one decides, the other sees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from playwright.async_api import Browser

from antiphon.errors import Rejected
from antiphon.host import open_store
from antiphon.host.store import Store
from tests.browser.visits import visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser


@asynccontextmanager
async def opened(file: Path) -> AsyncIterator[Store]:
    """Open the store, as each process does by itself."""
    store = open_store(file)
    try:
        yield store
    finally:
        await store.aclose()


async def test_what_is_decided_on_one_page_goes_from_the_other(chromium: Browser, tmp_path: Path):
    """It comes on both by itself, and the page that has it open says who has decided."""
    file = tmp_path / "host.db"
    async with (
        opened(file) as mine, opened(file) as yours,
        desk(store=mine) as here, desk(store=yours) as there,
        visit(chromium, here) as ada, visit(chromium, there) as bob,
    ):  # fmt: skip
        await ada.count(0)
        await bob.count(0)
        question, task = await here.asked()
        await ada.count(1)
        await bob.count(1)
        await ada.open(question.id)
        await bob.open(question.id)
        await bob.key("d")
        await bob.said("Denied")
        await ada.count(0)
        with pytest.raises(Rejected):
            await task
        await ada.page.wait_for_selector("#detail .banner")
        assert "By page" in await ada.page.inner_text("#detail .banner")


async def test_a_page_says_that_who_asked_is_gone(chromium: Browser, tmp_path: Path):
    """In the row, and in the question if it is open; it can still be decided."""
    file = tmp_path / "host.db"
    async with opened(file) as store, desk(store=store) as page, visit(chromium, page) as seen:
        first, _ = await page.asked()
        row = await store.review(first.id)
        assert row is not None
        async with opened(file) as other:
            await other.put_review(msgspec.structs.replace(row, id="left", fingerprint="left", host=other.host))
            await seen.count(2)
            await seen.open("left")
            assert await seen.page.locator("#detail .banner").count() == 0
        await store.recover()
        await seen.page.wait_for_selector("[data-row='left']:has-text('nobody waits now')")
        await seen.page.wait_for_selector("#detail[data-id='left'] .banner:has-text('Nobody waits for it now')")
        assert "nobody waits now" not in await seen.page.inner_text(f"[data-row='{first.id}']")
        await seen.open("left")
        await seen.key("d")
        await seen.said("Denied")
        await seen.count(1)
