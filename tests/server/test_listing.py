"""Lists, page by page."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from antiphon import Client, InvalidParams, Server
from antiphon.server import listing as pages
from antiphon.server.features.tools import Requirement
from tests.support.raw_client import RawClient, raw_client

METHODS = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
]


def many(count: int, **options: Any) -> Server:
    """Make a server with so many of everything."""
    server = Server("many", **options)
    for number in range(count):
        server.tool(name=f"t{number}")(lambda: "x")
        server.prompt(name=f"t{number}")(lambda: "x")
        server.resource(f"t:{number}")(lambda: "x")
        server.resource(f"t:{number}/{{gap}}")(lambda gap: gap)
    return server


async def page(client: RawClient, method: str = "tools/list", **params: Any) -> dict[str, Any]:
    """Fetch one page."""
    return (await client.reply(client.modern(method, **params)))["result"]


@pytest.mark.parametrize(("method", "member", "key"), METHODS)
async def test_a_list_is_cut_into_pages(method: str, member: str, key: str) -> None:
    """Each in order, the last without a cursor."""
    async with raw_client(many(5, page_size=2)) as client:
        found: list[str] = []
        result = await page(client, method)
        found += [entry[key] for entry in result[member]]
        sizes = [len(result[member])]
        while "nextCursor" in result:
            result = await page(client, method, cursor=result["nextCursor"])
            found += [entry[key] for entry in result[member]]
            sizes.append(len(result[member]))
    assert sizes == [2, 2, 1]
    assert len(set(found)) == 5


@pytest.mark.parametrize(("method", "member", "key"), METHODS)
async def test_a_list_fits_one_page_by_default(method: str, member: str, key: str) -> None:
    """Nobody needs a cursor for fifty tools."""
    async with raw_client(many(50)) as client:
        result = await page(client, method)
    assert len(result[member]) == 50
    assert "nextCursor" not in result


async def test_an_empty_cursor_is_none() -> None:
    """Clients whose language has no missing text write one."""
    async with raw_client(many(3, page_size=2)) as client:
        assert await page(client, "tools/list", cursor="") == await page(client, "tools/list")


@pytest.mark.parametrize("cursor", ["made up", "r.1", "t.ffffffff", "t." + "0" * 1_000])
async def test_a_made_up_cursor_is_refused(cursor: str) -> None:
    """It is -32602."""
    async with raw_client(many(3, page_size=2)) as client:
        error = await client.error("tools/list", cursor=cursor)
    assert (error["code"], error["message"]) == (-32602, "Invalid cursor")


async def test_a_page_is_encoded_once() -> None:
    """Until the list changes."""
    server = many(3)
    async with raw_client(server) as client:
        first = await page(client)
        kept = dict(server._service._handlers["tools/list"].__self__._pages)
        await page(client)
        assert server._service._handlers["tools/list"].__self__._pages == kept
        assert all(server._service._handlers["tools/list"].__self__._pages[key] is kept[key] for key in kept)
        server.tools.remove("t1")
        second = await page(client)
    assert [tool["name"] for tool in first["tools"]] == ["t0", "t1", "t2"]
    assert [tool["name"] for tool in second["tools"]] == ["t0", "t2"]


async def test_a_cursor_survives_changes() -> None:
    """Nothing that stays is skipped or repeated."""
    server = many(5, page_size=2)
    async with raw_client(server) as client:
        first = await page(client)
        server.tools.remove("t0")
        server.tools.remove("t3")
        second = await page(client, cursor=first["nextCursor"])
    assert [tool["name"] for tool in second["tools"]] == ["t2", "t4"]


async def test_pages_of_two_revisions_are_kept_apart() -> None:
    """An older client sees nothing newer."""
    server = Server("s")
    server.tool(name="t", title="Title")(lambda: "x")
    for revision, title in [("2026-07-28", "Title"), ("2024-11-05", None), ("2026-07-28", "Title")]:
        async with Client(server, revision=revision) as client:
            assert (await client.list_tools()).tools[0].title == title


async def test_pages_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that walks with a page size of one fills no memory."""
    monkeypatch.setattr(pages, "_MAX_KEPT", 3)
    server = many(10, page_size=1)
    async with Client(server) as client:
        assert len([tool async for tool in client.tools()]) == 10
        with pytest.raises(InvalidParams):
            await client.list_tools("nonsense")
    assert len(server._service._handlers["tools/list"].__self__._pages) <= 3


def demanding(**options: Any) -> Server:
    """Make a server whose tools require this and that."""
    server = Server("demanding", **options)
    server.tool(name="plain")(lambda: "x")
    for needed in get_args(Requirement):
        server.tool(name=needed, requires=needed)(lambda: "x")
    return server


LISTED = [
    ({}, ["plain"]),
    ({"sampling": {}}, ["plain", "sampling"]),
    ({"sampling": {"tools": {}}}, ["plain", "sampling", "sampling.tools"]),
    ({"sampling": {"context": {}}}, ["plain", "sampling", "sampling.context"]),
    ({"elicitation": {"url": {}}, "roots": {}}, ["plain", "elicitation", "elicitation.url", "roots"]),
]


@pytest.mark.parametrize(("capabilities", "names"), LISTED)
async def test_a_legacy_client_is_not_shown_what_it_cannot_serve(capabilities: Any, names: list[str]) -> None:
    """What it would only fail to use."""
    async with raw_client(demanding()) as client:
        await client.handshake(capabilities=capabilities)
        listed = (await client.reply(client.request("tools/list")))["result"]["tools"]
    assert [tool["name"] for tool in listed] == names


@pytest.mark.parametrize(("capabilities", "_names"), LISTED)
async def test_modern_lists_do_not_vary(capabilities: Any, _names: list[str]) -> None:
    """2026-07-28 server/tools: a list must not vary by connection; calling such a tool says what is missing."""
    async with raw_client(demanding()) as client:
        listed = (await page(client, capabilities=capabilities))["tools"]
        assert len(listed) == 1 + len(get_args(Requirement))
        error = await client.error("tools/call", name="sampling.tools", arguments={}, capabilities={"sampling": {}})
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"sampling": {"tools": {}}}})


async def test_pages_of_two_clients_are_kept_apart() -> None:
    """One cannot see the other's list, and hidden tools leave the cursor right."""
    server = demanding(page_size=2)
    names: list[list[str]] = []
    for capabilities in ({}, {"sampling": {}}, {}):
        async with raw_client(server) as client:
            await client.handshake(capabilities=capabilities)
            names.append([])
            cursor: dict[str, Any] = {}
            while cursor is not None:
                result = (await client.reply(client.request("tools/list", **cursor)))["result"]
                names[-1] += [tool["name"] for tool in result["tools"]]
                cursor = {"cursor": result["nextCursor"]} if "nextCursor" in result else None
    assert names == [["plain"], ["plain", "sampling"], ["plain"]]


async def test_a_server_with_a_model_of_its_own_hides_less() -> None:
    """What it can do without the client."""

    async def own(_params: Any) -> str:
        return "x"

    async with raw_client(demanding(sampling_fallback=own)) as client:
        await client.handshake(capabilities={})
        listed = (await client.reply(client.request("tools/list")))["result"]["tools"]
    assert [tool["name"] for tool in listed] == ["plain", "sampling", "sampling.tools"]
