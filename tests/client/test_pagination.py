"""Iteration over pages, also those of a server that means harm."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon import Client
from antiphon.client import known_tools as pages
from antiphon.client.known_tools import iterate_pages
from antiphon.errors import MethodNotFound, RemoteProtocolError
from antiphon.gateway import Gateway
from antiphon.testing import Recorder
from antiphon.wire.tools import ListToolsResult, Tool
from tests.support.raw_server import RawServer


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


async def test_a_repeated_cursor_ends_the_list(caplog: pytest.LogCaptureFixture) -> None:
    """It is no hang; and what was listed before is kept, since such servers exist."""

    async def endless(_cursor: str | None) -> tuple[ListToolsResult, int]:
        return ListToolsResult(tools=[Tool(name="t", input_schema={})], next_cursor="again"), 100

    assert [tool.name async for tool in iterate_pages(endless, lambda page: page.tools)] == ["t", "t"]
    assert "repeats the cursor 'again'" in caplog.text


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


def paged(revision: str, *pages: tuple[str, str | None], ttl: int = 0) -> RawServer:
    """Make a server with these pages of one tool each: the cursor a page is asked for by, and the next one.

    The first page is asked for by no cursor, which is not the same as an empty one.
    """
    asked_by = dict(zip([None, *(after for _, after in pages)], pages, strict=False))

    def reply(message: dict[str, Any]) -> dict[str, Any]:
        name, after = asked_by[message["params"].get("cursor")]
        members: dict[str, Any] = {"tools": [{"name": name, "inputSchema": {"type": "object"}}]}
        if revision == "2026-07-28":
            members |= {"resultType": "complete", "ttlMs": ttl, "cacheScope": "private"}
        return members if after is None else {**members, "nextCursor": after}

    server = RawServer(tools_list=reply)
    if revision != "2026-07-28":
        error = {"code": -32601, "message": "no"}
        server.replies["server/discover"] = lambda message: server.send({"id": message["id"], "error": error})
    return server


async def test_tools_of_a_server_that_repeats_a_cursor_can_be_called_behind_a_gateway() -> None:
    """Each is listed once, as it was described last."""
    descriptions = iter(range(10))

    def listed(_message: dict[str, Any]) -> dict[str, Any]:
        said = [{"name": name, "inputSchema": {"type": "object"}, "new": next(descriptions)} for name in "ab"]
        return {"tools": said, "nextCursor": "2", "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    done = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}
    server: Any = RawServer(tools_list=listed, tools_call=lambda _: done)
    recorder = Recorder()
    async with Client(Gateway({"raw": server}, None, asks="relay", names="none").server, wrap=recorder) as client:
        assert [tool.name async for tool in client.tools()] == ["a", "b"]
        assert (await client.call_tool("b")).content[0].text == "done"
    (listed_tools,) = (said["tools"] for one in recorder.messages if "tools" in (said := one.body or {}))
    assert [tool["new"] for tool in listed_tools] == [2, 3]


@pytest.mark.parametrize("ttl", [0, 60_000])
async def test_an_empty_cursor_is_one_from_2026_07_28_on(ttl: int) -> None:
    """It "MUST NOT be treated as the end of results", and its page is not the first one, though that may be kept."""
    server = paged("2026-07-28", ("a", ""), ("b", "more"), ("c", None), ttl=ttl)
    async with Client(server, revision="2026-07-28") as client:
        for _ in range(2):
            assert [tool.name async for tool in client.tools()] == ["a", "b", "c"]


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_an_empty_cursor_is_the_end_of_a_list_before_that(revision: str, behind: bool) -> None:
    """Servers that write members without a value mean no more by it; asked again, they begin the list anew."""
    target: Any = paged(revision, ("a", "more"), ("b", ""), ("a", ""))
    if behind:
        target = Gateway({"raw": target}, None, asks="relay", names="none").server
    async with Client(target, revision=revision) as client:
        assert [tool.name async for tool in client.tools()] == ["a", "b"]
