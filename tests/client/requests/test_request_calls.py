"""Calls of a client: what comes back, what the server may ask meanwhile, and how much."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from antiphon import CallTimeout, Client, Context, Server
from antiphon.channel import Channel
from antiphon.client.rounds.loop import RoundLimits
from antiphon.errors import Rejected, RemoteProtocolError, ResourceNotFound
from antiphon.machine.call_time import CURRENT, TimeLeft, count_time
from antiphon.wire.lossless import Received
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolRequestParams
from tests.support.raw_server import RawServer

ERAS = ["2025-11-25", "2026-07-28"]
DONE = {"content": [{"type": "text", "text": "done"}]}
ODD = b"9" * 5_000
"""A number of more digits than are read."""


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


async def test_a_call_that_asks_too_much_beside_another_costs_only_what_both_may() -> None:
    """A long call does not gain by the short ones that come and go beside it."""
    server = RawServer(tools_call=lambda _: None, prompts_get=lambda _: {"messages": []})
    async with Client(server, sampling=yes, revision="2025-11-25", limits=RoundLimits(asks=2)) as client:
        long = asyncio.create_task(client.call_tool("t"))
        await server.request("tools/call")
        for _ in range(10):
            await client.get_prompt("p")
        for number in range(3):
            server.sample(number)
        answers = [await server.answer(number) for number in range(3)]
        with pytest.raises(RemoteProtocolError, match="more than 2 answers"):
            await long
    assert ["result" in one for one in answers] == [True, True, False]


async def test_an_ask_whose_call_cannot_be_described_takes_no_turn() -> None:
    """A client behind a proxy may call with what no decoder reads; the asks of others go on."""

    class Loose(RawServer):
        async def _read(self, channel: Channel) -> None:
            while frames := await channel.receive():
                for frame in frames:
                    self._take(msgspec.json.decode(bytes(frame).replace(ODD, b"0")))
                self.news.set()

    server = Loose(tools_call=lambda _: None)
    params = CallToolRequestParams(name="t", arguments=msgspec.Raw(b'{"a":%s}' % ODD))
    async with Client(server, sampling=yes, revision="2025-11-25", limits=RoundLimits(at_once=1)) as client:
        call = asyncio.create_task(client.forward("tools/call", params, Received.of(params)))
        id = (await server.request("tools/call"))["id"]
        server.sample(1)
        assert (await server.answer(1))["error"]["code"] == -32602
        server.send({"id": id, "result": DONE})
        await call
        server.received.clear()
        other = asyncio.create_task(client.call_tool("t"))
        id = (await server.request("tools/call"))["id"]
        server.sample(2)
        assert "result" in await server.answer(2)
        server.send({"id": id, "result": DONE})
        await other


async def test_an_ask_of_no_call_has_no_call_s_time() -> None:
    """The connection may have been opened within a call, whose time ends; the task that reads outlives it."""
    times: list[TimeLeft | None] = []

    async def answer(_params: Any, _origin: Origin) -> str:
        times.append(CURRENT.get())
        return "yes"

    server = RawServer(tools_call=lambda _: None)
    client = Client(server, sampling=answer, revision="2025-11-25")
    with count_time(TimeLeft(0.1)):
        await client.connect()
    calls = [asyncio.create_task(client.call_tool(name)) for name in ("one", "two")]
    while len(asked := [one for one in server.received if one.get("method") == "tools/call"]) < 2:
        server.news.clear()
        await server.news.wait()
    server.sample(1)
    await server.answer(1)
    for message in asked:
        server.send({"id": message["id"], "result": DONE})
    await asyncio.gather(*calls)
    await client.close()
    assert times == [None]


async def test_asks_during_a_list_are_bounded_and_counted_anew() -> None:
    """There is no call they could belong to."""
    server = RawServer(tools_list=lambda _: None)
    async with Client(server, sampling=yes, revision="2025-11-25", limits=RoundLimits(asks=2)) as client:
        for turn in range(3):
            listing = asyncio.create_task(client.list_tools())
            id = (await server.request("tools/list"))["id"]
            server.received.clear()
            for number in range(2):
                server.sample(f"{turn}-{number}")
                assert "result" in await server.answer(f"{turn}-{number}")
            if turn < 2:
                server.send({"id": id, "result": {"tools": []}})
                await listing
        server.sample("last")
        assert "error" in await server.answer("last")
        with pytest.raises(RemoteProtocolError, match="more than 2 answers"):
            await listing


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


# --- answerers that call back --------------------------------------------------------------------------------------


def nesting() -> Server:
    """Make a server with a tool that asks twenty times at once, and one that asks once."""
    server = Server("nesting")

    @server.tool
    async def many(ctx: Context) -> str:
        replies = await asyncio.gather(*(ctx.sample(f"outer {number}") for number in range(20)))
        return " ".join(reply.text for reply in replies)

    @server.tool
    async def one(text: str, ctx: Context) -> str:
        return (await ctx.sample(f"inner {text}")).text

    return server


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("at_once", [1, 8])
async def test_answerers_may_call_the_server_that_asks(revision: str, at_once: int) -> None:
    """Twenty at once, each of which makes a call that asks in turn: nobody waits for himself."""
    client: Client

    async def answer(params: Any, _origin: Origin) -> str:
        kind, _, number = params.messages[0].text.partition(" ")
        return number if kind == "inner" else (await client.call_tool("one", {"text": number})).text

    limits = RoundLimits(at_once=at_once)
    async with Client(nesting(), sampling=answer, revision=revision, limits=limits) as client, asyncio.timeout(30):
        assert (await client.call_tool("many")).text == " ".join(map(str, range(20)))


@pytest.mark.parametrize("revision", ERAS)
async def test_answerers_of_two_clients_may_call_each_others_servers(revision: str) -> None:
    """Round in a circle, with one turn each."""
    clients: list[Client] = []

    def answerer(other: int) -> Any:
        async def answer(params: Any, _origin: Origin) -> str:
            kind, _, number = params.messages[0].text.partition(" ")
            depth = kind.count("inner")
            if depth and int(number) > 3:
                return number
            return (await clients[other].call_tool("one", {"text": str(int(number) + 1)})).text

        return answer

    limits = RoundLimits(at_once=1)
    async with (
        Client(nesting(), sampling=answerer(1), revision=revision, limits=limits) as first,
        Client(nesting(), sampling=answerer(0), revision=revision, limits=limits) as second,
        asyncio.timeout(30),
    ):
        clients += [first, second]
        assert (await first.call_tool("one", {"text": "0"})).text == "4"


# --- a look at each round ------------------------------------------------------------------------------------------


async def test_each_round_can_be_looked_at() -> None:
    """By a function or a coroutine function; the call goes on if it does not mind."""
    seen: list[Any] = []

    async def look(pending: Any) -> None:
        seen.append((pending.number, [ask.params.messages[0].text for ask in pending.asks.values()]))

    for hook in (look, lambda pending: seen.append((pending.number, list(pending.asks)))):
        server = Server("s")

        @server.tool
        async def twice(ctx: Context) -> str:
            await ctx.sample("first", key="a")
            return (await ctx.sample("second", key="b")).text

        async with Client(server, sampling=yes, revision="2026-07-28", on_round=hook) as client:
            assert (await client.call_tool("twice")).text == "yes"
    assert seen == [(1, ["first"]), (2, ["second"]), (1, ["a"]), (2, ["b"])]


async def test_a_look_may_end_the_call() -> None:
    """Nothing is answered; its error is the caller's."""
    asked: list[Any] = []

    async def answer(params: Any, _origin: Origin) -> str:
        asked.append(params)
        return "yes"

    def refuse(pending: Any) -> None:
        raise PermissionError(f"not {list(pending.asks)}")

    async with Client(nesting(), sampling=answer, revision="2026-07-28", on_round=refuse) as client:
        with pytest.raises(PermissionError, match="sampling-1"):
            await client.call_tool("one", {"text": "x"})
    assert asked == []


async def test_where_there_are_no_rounds_there_is_nothing_to_look_at() -> None:
    """Asks that come as requests go straight to their answerer."""

    def refuse(_pending: Any) -> None:
        raise AssertionError

    async with Client(nesting(), sampling=yes, revision="2025-11-25", on_round=refuse) as client:
        assert (await client.call_tool("one", {"text": "x"})).text == "yes"


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
        async with asyncio.timeout(30):
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


@pytest.mark.parametrize("revision", ERAS)
async def test_an_answerer_may_have_a_time_limit_of_its_own(revision: str) -> None:
    """Human time is free, but need not be without end: then it is a refusal."""

    async def never(_params: Any, _origin: Origin) -> str:
        await asyncio.Event().wait()
        return "never"

    server = Server("s")
    heard: list[Any] = []

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            return (await ctx.sample("?")).text
        except Rejected as error:
            heard.append(error.data)
            return "rejected"

    async with Client(server, sampling=never, revision=revision, answer_timeout=0.01) as client:
        if revision == "2025-11-25":
            assert (await client.call_tool("ask")).text == "rejected"
            assert heard == [{"reason": "expired"}]
        else:
            with pytest.raises(Rejected) as caught:
                await client.call_tool("ask")
            assert caught.value.data == {"reason": "expired"}


@pytest.mark.parametrize("revision", ERAS)
async def test_answers_given_at_once_stop_no_clock(revision: str) -> None:
    """A server that asks and asks, and is refused at once, wins no time by it."""

    async def refuse(_params: Any, _origin: Origin) -> Any:
        return None

    server = Server("s")

    @server.tool
    async def pester(ctx: Context) -> str:
        while True:
            await ctx.elicit("?", str)
            await asyncio.sleep(0.01)

    limits = RoundLimits(rounds=10_000, asks=10_000)
    async with Client(server, elicitation=refuse, revision=revision, limits=limits) as client:
        async with asyncio.timeout(30):
            with pytest.raises(CallTimeout):
                await client.call_tool("pester", timeout=0.1)
