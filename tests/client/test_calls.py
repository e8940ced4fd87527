"""Calls of a client: what comes back, what the server may ask meanwhile, and how much."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from antiphon import CallTimeout, Client, Context, Server
from antiphon.client.rounds import RoundLimits
from antiphon.errors import RemoteProtocolError, ResourceNotFound
from antiphon.wire.origin import Origin
from tests.support.raw_server import RawServer

ERAS = ["2025-11-25", "2026-07-28"]
DONE = {"content": [{"type": "text", "text": "done"}]}


async def yes(_params: Any, _origin: Origin) -> str:
    """Answer anything."""
    return "yes"


# --- results -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("bad", [{"content": 3}, {"content": [{"type": "text"}]}, {"isError": "yes", "content": []}])
async def test_a_result_that_cannot_be_read_is_the_servers_fault(bad: Any, revision: str) -> None:
    """The error names the method; the connection goes on."""
    server = RawServer(tools_call=lambda _: bad)
    async with Client(server, revision=revision) as client:
        with pytest.raises(RemoteProtocolError, match="answer to tools/call cannot be read"):
            await client.call_tool("t")
        server.replies["tools/call"] = lambda _: DONE
        assert (await client.call_tool("t")).text == "done"


async def test_an_unknown_result_type_is_invalid() -> None:
    """2026-07-28 basic; a call and a list alike."""
    odd = {"resultType": "odd"}
    server = RawServer(tools_call=lambda _: {**odd, **DONE}, tools_list=lambda _: {**odd, "tools": []})
    async with Client(server, revision="2026-07-28") as client:
        with pytest.raises(RemoteProtocolError, match="unknown resultType 'odd'"):
            await client.call_tool("t")
        with pytest.raises(RemoteProtocolError, match="unknown resultType 'odd'"):
            await client.list_tools()


@pytest.mark.parametrize("kind", [{}, {"resultType": "complete"}])
async def test_an_absent_result_type_is_complete(kind: Any) -> None:
    """2026-07-28 basic."""
    async with Client(RawServer(tools_call=lambda _: {**kind, **DONE}), revision="2026-07-28") as client:
        assert (await client.call_tool("t")).text == "done"


async def test_a_list_has_no_rounds() -> None:
    """A server that asks for input there breaks the rules."""
    server = RawServer(tools_list=lambda _: {"resultType": "input_required", "tools": [], "requestState": "s"})
    async with Client(server, revision="2026-07-28") as client:
        with pytest.raises(RemoteProtocolError, match="tools/list"):
            await client.list_tools()


async def test_an_unknown_result_type_means_nothing_before() -> None:
    """It is a member like any other that we do not know."""
    async with Client(RawServer(tools_call=lambda _: {"resultType": "odd", **DONE}), revision="2025-11-25") as client:
        assert (await client.call_tool("t")).text == "done"


@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32002), ("2025-11-25", -32602), ("2026-07-28", -32602)])
async def test_not_found_is_one_exception(revision: str, code: int) -> None:
    """By whichever code a server of the revision, or of the next, says it."""
    server = RawServer(resources_read=lambda _: None)

    def refuse(message: dict[str, Any]) -> None:
        data = {"uri": message["params"]["uri"]}
        server.send({"id": message["id"], "error": {"code": code, "message": "Resource not found", "data": data}})

    server.replies["resources/read"] = refuse
    async with Client(server, revision=revision) as client:
        with pytest.raises(ResourceNotFound) as caught:
            await client.read_resource("s://x")
    assert caught.value.data == {"uri": "s://x"}


# --- what the server asks meanwhile --------------------------------------------------------------------------------


async def test_with_several_calls_open_nobody_knows_whose_an_ask_is() -> None:
    """The protocol does not say it, so the origin does not pretend."""
    origins: list[Origin] = []

    async def answer(_params: Any, origin: Origin) -> str:
        origins.append(origin)
        return "yes"

    server = RawServer(tools_call=lambda _: None)
    async with Client(server, sampling=answer, revision="2025-11-25") as client:
        first = asyncio.create_task(client.call_tool("one"))
        await server.request("tools/call")
        server.sample("a")
        await server.answer("a")
        second = asyncio.create_task(client.call_tool("two"))
        while len([one for one in server.received if one.get("method") == "tools/call"]) < 2:
            server.news.clear()
            await server.news.wait()
        server.sample("b")
        await server.answer("b")
        for message in [one for one in server.received if one.get("method") == "tools/call"]:
            server.send({"id": message["id"], "result": DONE})
        await asyncio.gather(first, second)
    assert origins[0].call is not None
    assert origins[0].call.name == "one"
    assert origins[1].call is None


async def test_asks_of_several_calls_are_counted_together() -> None:
    """Two calls may have twice the asks of one; beyond that all of them are given up."""
    server = RawServer(tools_call=lambda _: None)
    limits = RoundLimits(asks=2)
    async with Client(server, sampling=yes, revision="2025-11-25", limits=limits) as client:
        calls = [asyncio.create_task(client.call_tool(name)) for name in ("one", "two")]
        await server.request("tools/call")
        for number in range(5):
            server.sample(number)
        answers = [await server.answer(number) for number in range(5)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert ["result" in one for one in answers] == [True] * 4 + [False]
    assert answers[4]["error"]["code"] == -32600
    assert all(isinstance(one, RemoteProtocolError) and "more than 2 answers" in str(one) for one in outcomes)


async def test_the_count_begins_anew_with_the_next_call() -> None:
    """It is the call that may cost so much, not the connection."""
    server = Server("s")

    @server.tool
    async def ask(times: int, ctx: Context) -> str:
        for _ in range(times):
            await ctx.sample("?")
        return "done"

    async with Client(server, sampling=yes, revision="2025-11-25", limits=RoundLimits(asks=3)) as client:
        for _ in range(3):
            assert (await client.call_tool("ask", {"times": 3})).text == "done"


async def test_roots_may_be_asked_for_at_any_time() -> None:
    """Outside of calls too, and as often as a server likes."""
    server = RawServer()
    async with Client(server, roots=["file:///a"], revision="2025-11-25", limits=RoundLimits(asks=3)) as client:
        for number in range(10):
            server.ask(number, "roots/list")
            assert (await server.answer(number))["result"]["roots"][0]["uri"] == "file:///a"
        await client.ping()


async def test_a_stray_ask_is_refused() -> None:
    """Sampling belongs to a request of ours."""
    server = RawServer()
    async with Client(server, sampling=yes, revision="2025-11-25"):
        server.sample("stray")
        assert (await server.answer("stray"))["error"]["code"] == -32602


async def test_an_ask_during_a_list_is_answered() -> None:
    """Any request of ours will do; it belongs to no call."""
    origins: list[Origin] = []

    async def answer(_params: Any, origin: Origin) -> str:
        origins.append(origin)
        return "yes"

    server = RawServer(tools_list=lambda _: None)
    async with Client(server, sampling=answer, revision="2025-11-25") as client:
        listing = asyncio.create_task(client.list_tools())
        id = (await server.request("tools/list"))["id"]
        server.sample("a")
        assert "result" in await server.answer("a")
        server.send({"id": id, "result": {"tools": []}})
        await listing
    assert origins[0].call is None


async def test_every_ask_has_a_name_of_its_own() -> None:
    """So that an audit can tell them apart."""
    ids: list[str] = []

    async def answer(_params: Any, origin: Origin) -> str:
        ids.append(origin.id)
        return "yes"

    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        await asyncio.gather(*(ctx.sample(str(number)) for number in range(5)))
        return "done"

    for revision in ERAS:
        async with Client(server, sampling=answer, revision=revision) as client:
            await client.call_tool("ask")
    assert len(set(ids)) == 10


# --- time and progress ---------------------------------------------------------------------------------------------


async def test_the_rounds_of_a_call_share_its_deadline() -> None:
    """A server cannot win time by asking."""
    count = 0

    def forever(message: dict[str, Any]) -> dict[str, Any]:
        nonlocal count
        count += 1
        return {"resultType": "input_required", "requestState": "s" * count}

    server = RawServer(tools_call=forever)
    async with Client(server, revision="2026-07-28", limits=RoundLimits(rounds=1_000_000)) as client:
        with pytest.raises(CallTimeout, match=r"tools/call was not answered within 0\.05 s"):
            await client.call_tool("t", timeout=0.05)


def stepping() -> Server:
    """Make a server that reports progress."""
    server = Server("s")

    @server.tool
    async def steps(ctx: Context) -> str:
        await ctx.progress(1, 2, "half")
        await ctx.progress(2, 2)
        return "done"

    return server


@pytest.mark.parametrize("revision", ERAS)
async def test_progress_may_be_told_to_a_coroutine_function(revision: str) -> None:
    """Or to a plain one; each gets progress, total and message."""
    plain: list[Any] = []
    awaited: list[Any] = []
    told = asyncio.Event()

    async def tell(*report: Any) -> None:
        awaited.append(report)
        if len(awaited) == 2:
            told.set()

    async with Client(stepping(), revision=revision) as client:
        await client.call_tool("steps", progress=lambda *report: plain.append(report))
        await client.call_tool("steps", progress=tell)
        async with asyncio.timeout(5):
            await told.wait()
    assert plain == [(1, 2, "half"), (2, 2, None)]
    assert sorted(awaited) == sorted(plain)


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_a_progress_callback_that_fails_is_logged(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """The call and the connection go on."""

    def plain(*_: Any) -> None:
        raise ValueError("my mistake")

    async def coroutine(*_: Any) -> None:
        raise ValueError("my mistake")

    async with Client(stepping()) as client:
        with caplog.at_level(logging.ERROR):
            result = await client.call_tool("steps", progress=plain if kind == "plain" else coroutine)
            await client.ping()
    assert result.text == "done"
    assert any("callback" in record.message for record in caplog.records)


async def test_meta_of_the_callers_travels_with_the_call() -> None:
    """Beside what the session writes."""
    seen: list[Any] = []
    server = Server("s")

    @server.tool
    async def read(ctx: Context) -> str:
        seen.append(ctx.request.meta)
        return "x"

    for revision in ERAS:
        async with Client(server, revision=revision) as client:
            await client.call_tool("read", meta={"example.org/trace": "t1"})
    assert [meta["example.org/trace"] for meta in seen] == ["t1", "t1"]
