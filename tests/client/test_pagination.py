"""Iteration over pages, also those of a server that means harm."""

from __future__ import annotations

import pytest

from antiphon.client import known_tools as pages
from antiphon.client.known_tools import iterate_pages
from antiphon.errors import MethodNotFound, RemoteProtocolError
from antiphon.wire.tools import ListToolsResult, Tool


class Source:
    """A list in pages of two, that counts how often it is asked."""

    def __init__(self, count: int) -> None:
        self.names = [f"t{number}" for number in range(count)]
        self.fetched = 0

    async def fetch(self, cursor: str | None) -> tuple[ListToolsResult, int]:
        self.fetched += 1
        start = int(cursor or 0)
        after = str(start + 2) if start + 2 < len(self.names) else None
        tools = [Tool(name=name, input_schema={"type": "object"}) for name in self.names[start : start + 2]]
        return ListToolsResult(tools=tools, next_cursor=after), 100


async def test_every_item_comes_once_and_in_order() -> None:
    """Over all pages."""
    source = Source(5)
    found = [tool.name async for tool in iterate_pages(source.fetch, lambda page: page.tools)]
    assert found == source.names
    assert source.fetched == 3


async def test_a_page_is_fetched_when_it_is_reached() -> None:
    """Whoever stops early asks for no more."""
    source = Source(100)
    async for _ in iterate_pages(source.fetch, lambda page: page.tools):
        break
    assert source.fetched == 1


async def test_a_repeated_cursor_ends_the_iteration() -> None:
    """A list without an end is an error, not a hang."""

    async def endless(_cursor: str | None) -> tuple[ListToolsResult, int]:
        return ListToolsResult(tools=[], next_cursor="again"), 100

    with pytest.raises(RemoteProtocolError, match="repeats the cursor 'again'"):
        _ = [tool async for tool in iterate_pages(endless, lambda page: page.tools)]


async def test_the_number_of_pages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """New cursors for ever are no better."""
    monkeypatch.setattr(pages, "MAX_PAGES", 3)
    with pytest.raises(RemoteProtocolError, match="more than 3 pages"):
        _ = [tool async for tool in iterate_pages(Source(100).fetch, lambda page: page.tools)]


async def test_the_bytes_of_all_pages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few pages of megabytes are no better than many."""
    monkeypatch.setattr(pages, "MAX_BYTES", 250)
    with pytest.raises(RemoteProtocolError, match="more than 250 bytes"):
        _ = [tool async for tool in iterate_pages(Source(100).fetch, lambda page: page.tools)]


async def test_a_server_that_does_not_know_a_list_has_an_empty_one() -> None:
    """Only a server's own answer counts, and only to the first page."""

    async def refuse(_cursor: str | None) -> tuple[ListToolsResult, int]:
        error = MethodNotFound("no")
        error.remote = is_remote
        raise error

    is_remote = True
    assert [tool async for tool in iterate_pages(refuse, lambda page: page.tools)] == []
    is_remote = False
    with pytest.raises(MethodNotFound):
        _ = [tool async for tool in iterate_pages(refuse, lambda page: page.tools)]
