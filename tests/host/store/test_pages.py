"""Where pages were served and who was let in, kept by every kind of store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.host.store.base import BrowserRow, PageRow, Store
from tests.host.store.stores import KINDS, Place


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Open a store of each kind."""
    async with Place(request.param, tmp_path) as place, place.open() as store:
        yield store


def browser(number: int, page: str = "one") -> BrowserRow:
    """Make a browser."""
    return BrowserRow(digest=f"{page}-{number}", page=page, number=number, opened=float(number))


async def test_the_page_that_was_served_last_comes_first(store: Store):
    """Served again, it moves to the front, and is there once."""
    for name, used in (("one", 1.0), ("two", 2.0), ("one", 3.0)):
        await store.keep_page(PageRow(name=name, port=8000, used=used), most=5)
    assert [(row.name, row.used) for row in await store.pages()] == [("one", 3.0), ("two", 2.0)]


async def test_a_page_that_is_forgotten_takes_its_browsers_along(store: Store):
    """Those of other pages stay."""
    await store.keep_page(PageRow(name="one", port=8000, used=1.0), most=2)
    await store.keep_browser(browser(1), most=5)
    await store.keep_page(PageRow(name="two", port=8001, used=2.0), most=2)
    await store.keep_browser(browser(1, "two"), most=5)
    await store.keep_page(PageRow(name="three", port=8002, used=3.0), most=2)
    assert [row.name for row in await store.pages()] == ["three", "two"]
    assert (await store.browsers("one"), await store.browsers("two")) == ([], [browser(1, "two")])


async def test_a_page_that_is_served_again_keeps_its_browsers(store: Store):
    """A restart lets nobody out."""
    await store.keep_page(PageRow(name="one", port=8000, used=1.0), most=2)
    await store.keep_browser(browser(1), most=5)
    await store.keep_page(PageRow(name="one", port=8000, used=2.0), most=2)
    assert await store.browsers("one") == [browser(1)]


async def test_the_oldest_browsers_go_first(store: Store):
    """Of one page so many, in their order."""
    await store.keep_page(PageRow(name="one", port=8000, used=1.0), most=2)
    for number in (1, 2, 3):
        await store.keep_browser(browser(number), most=2)
    assert await store.browsers("one") == [browser(2), browser(3)]
