"""What a client gets for a request: results, tool results that say no, and protocol errors, never mixed."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from antiphon import Client, Context, Rejected, Server, ToolError
from antiphon.errors import CallTimeout, InternalError, InvalidParams, InvalidRequest, MissingCapability, PeerError
from antiphon.server.rate_limits import Rate
from antiphon.testing import Script
from tests.support.raw_client import raw_client, text

ALL_REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
ERAS = ["2025-11-25", "2026-07-28"]


def shop(**options: Any) -> Server:
    """Make a server whose tools go wrong."""
    server = Server("shop", **options)

    @server.tool
    async def count(number: int) -> str:
        return str(number)

    @server.tool
    async def refuse() -> str:
        raise ToolError("out of stock")

    @server.tool
    async def crash() -> str:
        raise ValueError("password=hunter2")

    @server.tool
    async def protest() -> str:
        raise PeerError("not you", code=-7, data={"why": "x"})

    @server.tool
    async def relay(ctx: Context) -> str:
        return (await ctx.sample("?")).text

    return server


@pytest.mark.parametrize("revision", ERAS)
async def test_a_function_that_leaves_ends_its_own_call_only(revision: str) -> None:
    """A parser of a command line that it uses calls ``sys.exit``; the server goes on."""
    server = Server("one")

    async def leave() -> str:
        sys.exit(2)

    def interrupt() -> str:
        raise KeyboardInterrupt

    for function in (leave, interrupt):
        server.tool(function)
        server.prompt(function)
        server.resource(f"one://{function.__name__}")(function)
    server.tool(name="inline", inline=True)(lambda: sys.exit(3))
    async with Client(server, revision=revision) as client:
        for name in ("leave", "interrupt", "inline"):
            assert (await client.call_tool(name)).text == f"{name} failed: RuntimeError"
        for name in ("leave", "interrupt"):
            with pytest.raises(InternalError):
                await client.get_prompt(name)
            with pytest.raises(InternalError):
                await client.read_resource(f"one://{name}")
        await client.ping()


@pytest.mark.parametrize("revision", ALL_REVISIONS)
async def test_an_unknown_tool_is_a_protocol_error(revision: str) -> None:
    """In every revision."""
    async with Client(shop(), revision=revision) as client:
        with pytest.raises(InvalidParams, match="Unknown tool: nope"):
            await client.call_tool("nope")


@pytest.mark.parametrize("revision", ALL_REVISIONS)
async def test_bad_arguments_are_a_result_since_2025_11_25(revision: str) -> None:
    """So that a model can correct itself; before, they were a protocol error."""
    async with Client(shop(), revision=revision) as client:
        if revision >= "2025-11-25":
            result = await client.call_tool("count", {"number": "three"})
            assert result.is_error
            assert "number" in result.text
        else:
            with pytest.raises(InvalidParams, match="number"):
                await client.call_tool("count", {"number": "three"})


@pytest.mark.parametrize("revision", ERAS)
async def test_a_tool_error_is_a_result(revision: str) -> None:
    """With its text as it is."""
    async with Client(shop(), revision=revision) as client:
        result = await client.call_tool("refuse")
    assert (result.is_error, result.text) == (True, "out of stock")


async def test_an_unexpected_exception_tells_only_its_type() -> None:
    """The text stays in the server's log."""
    async with Client(shop()) as client:
        result = await client.call_tool("crash")
    assert (result.is_error, result.text) == (True, "crash failed: ValueError")


async def test_a_server_under_development_may_tell_all() -> None:
    """If it says so."""
    async with Client(shop(error_details=True)) as client:
        result = await client.call_tool("crash")
    assert result.text == "crash failed: ValueError: password=hunter2"


@pytest.mark.parametrize("revision", ERAS)
async def test_an_author_may_raise_a_protocol_error(revision: str) -> None:
    """Code and data as given."""
    async with Client(shop(), revision=revision) as client:
        with pytest.raises(PeerError, match="not you") as caught:
            await client.call_tool("protest")
    assert (caught.value.code, caught.value.data) == (-7, {"why": "x"})


async def test_an_error_of_the_clients_is_not_sent_back_as_ours() -> None:
    """It becomes a result that says what happened."""
    script = Script([Rejected("User rejected sampling request", data={"reason": "user"})])
    async with Client(shop(), sampling=script, revision="2025-11-25") as client:
        result = await client.call_tool("relay")
    assert (result.is_error, result.text) == (True, "User rejected sampling request")


async def test_an_error_of_the_clients_in_a_prompt_is_internal() -> None:
    """A prompt has no other plane."""
    server = Server("s")

    @server.prompt
    async def brief(ctx: Context) -> str:
        return (await ctx.sample("?")).text

    script = Script([Rejected("no", data={"reason": "secret"})])
    async with Client(server, sampling=script, revision="2025-11-25") as client:
        with pytest.raises(PeerError) as caught:
            await client.get_prompt("brief")
    assert (caught.value.code, caught.value.data) == (-32603, None)


@pytest.mark.parametrize("requires", [None, "sampling"])
async def test_a_missing_capability_is_told_in_the_words_of_the_era(requires: Any) -> None:
    """Modern: -32021 with what is missing. Legacy has no such code: a result that says so."""
    server = shop()
    server.tools.remove("relay")

    @server.tool(**({"requires": requires} if requires else {}))
    async def relay(ctx: Context) -> str:
        return (await ctx.sample("?")).text

    async with Client(server, revision="2026-07-28") as client:
        with pytest.raises(MissingCapability) as caught:
            await client.call_tool("relay")
        assert caught.value.code == -32021
        assert caught.value.data == {"requiredCapabilities": {"sampling": {}}}
    async with Client(server, revision="2025-11-25") as client:
        result = await client.call_tool("relay")
    assert result.is_error
    assert "sampling" in result.text


async def test_a_tool_that_requires_more_than_is_offered_does_not_begin() -> None:
    """Nor one that might not have asked."""
    server, ran = Server("s"), list[str]()

    @server.tool(requires="elicitation")
    async def form() -> str:
        ran.append("form")
        return "x"

    async with raw_client(server) as client:
        error = await client.error("tools/call", name="form", arguments={}, capabilities={"sampling": {}})
        assert ran == []
        assert text(await client.call("form")) == "x"
    assert error["data"] == {"requiredCapabilities": {"elicitation": {}}}


@pytest.mark.parametrize("wants_context", [False, True])
async def test_a_tool_may_have_a_deadline(wants_context: bool) -> None:
    """Past it, the result says so, and the handler was cancelled."""
    server, ended = Server("s"), list[str]()

    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return ""

    if wants_context:

        @server.tool(timeout=0.02)
        async def slow(ctx: Context) -> str:
            return await wait()
    else:
        server.tool(name="slow", timeout=0.02)(wait)

    async with Client(server) as client:
        result = await client.call_tool("slow")
    assert (result.is_error, result.text) == (True, "slow did not finish within 0.02 s")
    assert ended == ["cancelled"]


async def test_a_timeout_of_the_tools_own_is_not_its_deadline() -> None:
    """It is an exception like any other."""
    server = Server("s")

    @server.tool(timeout=5)
    async def slow() -> str:
        raise TimeoutError("database")

    async with Client(server) as client:
        assert (await client.call_tool("slow")).text == "slow failed: TimeoutError"


async def test_calls_over_the_rate_wait_their_turn() -> None:
    """As long as the wait is bearable."""
    loop = asyncio.get_running_loop()
    async with Client(shop(tool_rate=Rate(per_second=50, burst=1, patience=1))) as client:
        began = loop.time()
        results = [await client.call_tool("count", {"number": number}) for number in range(3)]
    assert [result.text for result in results] == ["0", "1", "2"]
    assert loop.time() - began >= 0.035


@pytest.mark.parametrize("revision", ERAS)
async def test_calls_far_over_the_rate_are_refused(revision: str) -> None:
    """With the time after which to try again."""
    server = shop(tool_rate=Rate(per_second=0.01, burst=2, patience=1))
    async with Client(server, revision=revision) as client:
        for _ in range(2):
            await client.call_tool("count", {"number": 1})
        with pytest.raises(InvalidRequest, match="Too many tool calls") as caught:
            await client.call_tool("count", {"number": 1})
        assert caught.value.data["retryAfter"] > 50
    async with Client(server, revision=revision) as other:
        assert (await other.call_tool("count", {"number": 1})).text == "1"


async def test_a_server_may_have_no_rate() -> None:
    """For a benchmark, say."""
    async with Client(shop(tool_rate=None)) as client:
        results = await asyncio.gather(*(client.call_tool("count", {"number": n}) for n in range(100)))
    assert len(results) == 100


async def test_a_function_that_is_not_async_runs_in_a_thread() -> None:
    """The loop goes on meanwhile: two of them may wait for each other."""
    server, meeting = Server("s"), threading.Barrier(2, timeout=60)

    @server.tool
    def meet() -> str:
        meeting.wait()
        return threading.current_thread().name

    @server.tool(inline=True)
    def here() -> str:
        return threading.current_thread().name

    async with Client(server) as client:
        first, second = await asyncio.gather(client.call_tool("meet"), client.call_tool("meet"))
        assert first.text != second.text
        assert (await client.call_tool("here")).text == threading.main_thread().name


async def test_an_unknown_prompt_is_named() -> None:
    """It is -32602."""
    server = Server("s")
    server.prompt(name="p")(lambda: "x")
    async with Client(server) as client:
        with pytest.raises(InvalidParams, match="Unknown prompt: q"):
            await client.get_prompt("q")


@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
async def test_a_resource_that_is_not_there_has_the_code_of_its_revision(revision: str, code: int) -> None:
    """And its URI in both."""
    server = Server("s")
    server.resource("s://hat")(lambda: "x")
    async with raw_client(server) as client:
        if revision == "2025-11-25":
            await client.handshake()
            error = (await client.reply(client.request("resources/read", uri="s://cap")))["error"]
        else:
            error = await client.error("resources/read", uri="s://cap")
    assert (error["code"], error["data"]) == (code, {"uri": "s://cap"})


@pytest.mark.parametrize("method", ["logging/setLevel", "ping", "resources/subscribe", "initialize"])
async def test_what_the_newest_revision_has_dropped_is_not_served_there(method: str) -> None:
    """It is -32601."""
    server = Server("s")
    server.resource("s://hat")(lambda: "x")
    async with raw_client(server) as client:
        error = await client.error(method, level="info", uri="s://hat")
    assert error["code"] == -32601


async def test_a_call_past_its_deadline_here_is_cancelled_there() -> None:
    """Both sides of a client's timeout."""
    server, ended = Server("s"), asyncio.Event()

    @server.tool
    async def hang() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async with Client(server) as client:
        with pytest.raises(CallTimeout):
            await client.call_tool("hang", timeout=0.02)
        async with asyncio.timeout(30):
            await ended.wait()
    assert ended.is_set()


async def in_group(error: Exception) -> None:
    """Fail in a task of a group."""

    async def fail() -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        group.create_task(fail())


@pytest.mark.parametrize("revision", ERAS)
async def test_an_error_in_a_task_group_is_told_as_itself(revision: str) -> None:
    """The group has one error in it, since its other tasks are cancelled."""
    server = Server("shop")

    @server.tool
    async def refuse() -> None:
        await in_group(ToolError("out of stock"))

    @server.tool
    async def protest(ctx: Context) -> None:
        await in_group(PeerError("not you", code=-7))

    @server.prompt
    async def praise(ctx: Context) -> str:
        await in_group(PeerError("not you", code=-7))
        return ""

    async with Client(server, revision=revision) as client:
        assert (await client.call_tool("refuse")).text == "out of stock"
        with pytest.raises(PeerError, match="not you"):
            await client.call_tool("protest")
        with pytest.raises(PeerError, match="not you"):
            await client.get_prompt("praise")


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("key", [5, ""])
async def test_a_key_is_text(revision: str, key: Any) -> None:
    """An answer under any other would be asked for until the client gives up."""
    server = Server("shop")

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.sample("?", key=key)).text

    async with Client(server, sampling=Script(["x"]), revision=revision) as client:
        assert (
            f"key= of sampling/createMessage must be a text that is not empty, got {key!r}"
            in (await client.call_tool("ask")).text
        )


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("size", [10, 100_000])
async def test_a_wish_for_a_task_is_seen_beside_arguments_of_any_size(size: int, *, is_last: bool) -> None:
    """Before them or behind them; a server without tasks loads what serves them to find out."""
    server = shop()
    arguments = {"number": 1, "more": "y" * size}
    wished: dict[str, Any] = {"arguments": arguments, "task": {}} if is_last else {"task": {}, "arguments": arguments}
    async with raw_client(server) as raw:
        await raw.handshake()
        await raw.reply(raw.request("tools/call", name="count", **wished))
    assert "tasks" in vars(server._service)


async def test_large_arguments_are_not_searched_for_the_wish_for_a_task() -> None:
    """Nor copied for it: the wish is a member beside them."""
    server = shop()
    arguments = {"number": 1, "more": {"task": "y" * 100_000}}
    async with raw_client(server) as raw:
        await raw.handshake()
        await raw.reply(raw.request("tools/call", name="count", arguments=arguments))
    assert "tasks" not in vars(server._service)
