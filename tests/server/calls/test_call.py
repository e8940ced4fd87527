"""One run of a handler: asks tied to its request, and a deadline that a person's time does not touch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import Raw

from antiphon import Client, Context, Server, ToolError
from antiphon.errors import (
    CallTimeout,
    ElicitationUnavailable,
    InvalidParams,
    LocalProtocolError,
    MissingCapability,
    NotInRevision,
    Rejected,
    RemoteProtocolError,
    SamplingUnavailable,
)
from antiphon.server.calls.call import CLOCK, read_answer, read_given, read_reply, standing_still, within
from antiphon.testing import Recorder, Script
from antiphon.wire.methods import METHODS
from antiphon.wire.sampling import CreateMessageResult
from antiphon.wire.tools import Tool
from tests.support.linked import Clock, settle
from tests.support.raw_client import raw_client, said, text

ERAS = ["2025-11-25", "2026-07-28"]
FORM = {"type": "object", "properties": {}}


async def test_an_ask_waits_until_the_handshake_is_complete() -> None:
    """A call may come before ``initialized``; what it asks must not."""
    server, begun = Server("s"), asyncio.Event()

    @server.tool
    async def ask(ctx: Context) -> str:
        begun.set()
        return (await ctx.sample("?")).text

    async with raw_client(server) as client:
        await client.handshake(complete=False)
        call = client.request("tools/call", name="ask", arguments={})
        await begun.wait()
        await client.reply(client.request("ping"))
        assert client.requests == []
        client.send({"method": "notifications/initialized"})
        client.send({"id": (await client.asked())["id"], "result": said("now")})
        assert text((await client.reply(call))["result"]) == "now"


async def test_an_ask_does_not_wait_for_the_handshake_for_ever() -> None:
    """Its own deadline counts."""
    server, seen = Server("s"), list[Exception]()

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            await ctx.sample("?", timeout=0.01)
        except CallTimeout as error:
            seen.append(error)
        return "went on"

    async with raw_client(server) as client:
        await client.handshake(complete=False)
        reply = await client.reply(client.request("tools/call", name="ask", arguments={}))
    assert text(reply["result"]) == "went on"
    assert "did not complete the handshake" in str(seen[0])


@pytest.mark.parametrize("revision", ERAS)
async def test_an_ask_after_the_end_of_its_call_is_refused(revision: str) -> None:
    """Nothing is sent that belongs to no request."""
    server, tasks = Server("s"), list[asyncio.Task[Any]]()
    over = asyncio.Event()

    @server.tool
    async def leave(ctx: Context) -> str:
        async def late() -> None:
            await over.wait()
            await ctx.sample("still there?")

        tasks.append(asyncio.create_task(late()))
        return "gone"

    asked: list[Any] = []

    async def answer(params: Any, _origin: Any) -> str:
        asked.append(params)
        return "x"

    async with Client(server, sampling=answer, revision=revision) as client:
        assert (await client.call_tool("leave")).text == "gone"
        over.set()
        with pytest.raises(LocalProtocolError, match="ended"):
            await tasks[0]
    assert asked == []


async def test_an_ask_is_cancelled_with_its_call() -> None:
    """The client is told that nobody waits for its answer any more."""
    server, ended = Server("s"), asyncio.Event()

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            return (await ctx.sample("?")).text
        finally:
            ended.set()

    async with raw_client(server) as client:
        await client.handshake()
        call = client.request("tools/call", name="ask", arguments={})
        ask_id = (await client.asked())["id"]
        client.send({"method": "notifications/cancelled", "params": {"requestId": call}})
        await ended.wait()
        await client.reply(client.request("ping"))
    cancelled = [one["params"]["requestId"] for one in client.notifications if one["method"].endswith("cancelled")]
    assert cancelled == [ask_id]


def patient(seconds: float) -> Server:
    """Make a server with tools that have a deadline."""
    server = Server("s")

    @server.tool(timeout=seconds)
    async def one(ctx: Context) -> str:
        return (await ctx.sample("?")).text

    @server.tool(timeout=seconds)
    async def overlapping(ctx: Context) -> str:
        first, second = await asyncio.gather(ctx.sample("quick"), ctx.sample("slow"))
        return first.text + second.text

    @server.tool(timeout=seconds)
    async def hang(ctx: Context) -> str:
        await ctx.sample("quick")
        await asyncio.Event().wait()
        return ""

    @server.tool(timeout=seconds)
    async def tidy(ctx: Context) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.sample("quick")
        return ""

    return server


async def think(params: Any, _origin: Any) -> str:
    """Answer at once, or after longer than any deadline here."""
    if params.messages[0].text != "quick":
        thought = asyncio.Event()
        asyncio.get_running_loop().call_later(0.25, thought.set)
        await thought.wait()
    return "x"


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(("tool", "expected"), [("one", "x"), ("overlapping", "xx")])
async def test_a_persons_time_does_not_count(tool: str, expected: str, revision: str) -> None:
    """The deadline of a tool stands still until the last of its asks is answered."""
    async with Client(patient(0.1), sampling=think, revision=revision) as client:
        assert (await client.call_tool(tool)).text == expected


@pytest.mark.parametrize("revision", ERAS)
async def test_a_tools_own_time_counts(revision: str) -> None:
    """After an answer the clock goes on."""
    async with Client(patient(0.05), sampling=think, revision=revision) as client:
        result = await client.call_tool("hang")
    assert (result.is_error, result.text) == (True, "hang did not finish within 0.05 s")


async def test_a_tool_may_ask_while_it_cleans_up() -> None:
    """A deadline that has passed is not touched again."""
    async with Client(patient(0.05), sampling=think, revision="2025-11-25") as client:
        result = await client.call_tool("tidy")
    assert (result.is_error, result.text) == (True, "tidy did not finish within 0.05 s")


async def test_an_ask_that_outlives_its_tool_leaves_the_clock_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The handler has returned; its helper learns that the call is over, and nothing else goes wrong."""
    server, helpers = Server("s"), list[asyncio.Task[Any]]()

    @server.tool(timeout=5)
    async def leave(ctx: Context) -> str:
        helpers.append(asyncio.create_task(ctx.sample("?")))
        await asyncio.sleep(0)
        return "gone"

    async with raw_client(server) as client:
        await client.handshake()
        await client.reply(client.request("tools/call", name="leave", arguments={}))
        (outcome,) = await asyncio.gather(*helpers, return_exceptions=True)
    assert isinstance(outcome, LocalProtocolError)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_progress_is_sent_only_if_it_grows() -> None:
    """And only if the client has given a token."""
    server = Server("s")

    @server.tool
    async def steps(ctx: Context) -> str:
        for number in (1, 1, 0.5, 2):
            await ctx.progress(number, 2, "so far")
        return "done"

    async with raw_client(server) as client:
        await client.handshake()
        await client.reply(client.request("tools/call", name="steps", arguments={}, _meta={"progressToken": "p"}))
        await client.reply(client.request("tools/call", name="steps", arguments={}))
    sent = [one["params"] for one in client.notifications]
    assert sent == [
        {"progressToken": "p", "progress": 1, "total": 2, "message": "so far"},
        {"progressToken": "p", "progress": 2, "total": 2, "message": "so far"},
    ]


async def test_a_flood_of_progress_is_thinned_out_but_its_end_is_sent() -> None:
    """A hundred reports a second say all there is to say."""
    server = Server("s")

    @server.tool
    async def flood(ctx: Context) -> str:
        for number in range(1, 1_001):
            await ctx.progress(number, 1_000)
        return "done"

    seen: list[float] = []
    async with Client(server) as client:
        await client.call_tool("flood", progress=lambda done, *_: seen.append(done))
    assert 100 <= len(seen) < 500
    assert seen[-1] == 1_000


SAMPLE = METHODS["sampling/createMessage"]
GOOD = Raw(b'{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}')
BAD = [Raw(b'{"role":7}'), Raw(b"[]"), Raw(b"null"), Raw(b'{"role":"assistant","content":{"type":"text"},"model":"m"}')]


def test_a_good_answer_is_read_to_what_was_asked_for() -> None:
    """Whichever way it came, and its bytes are kept."""
    for answer in (read_answer("k", GOOD, SAMPLE), read_given(GOOD, SAMPLE)):
        assert answer is not None
        assert isinstance(answer.value, CreateMessageResult)
        assert answer.value.text == "hi"
        assert answer.raw is GOOD
    assert read_reply(GOOD, SAMPLE) == read_answer("k", GOOD, SAMPLE).value


@pytest.mark.parametrize("answer", BAD)
def test_a_bad_answer_names_its_key(answer: Raw) -> None:
    """-32602 to who sent it in a retry; one that came unasked is none; a reply's fault is the author's to see."""
    assert read_given(answer, SAMPLE) is None
    with pytest.raises(InvalidParams, match=r"inputResponses\.k: "):
        read_answer("k", answer, SAMPLE)
    with pytest.raises(RemoteProtocolError, match=r"sampling/createMessage cannot be read"):
        read_reply(answer, SAMPLE)


def trying() -> tuple[Server, list[Any]]:
    """Make a server whose tools ask for everything, and the list of what came of it."""
    server, seen = Server("s"), list[Any]()

    @server.tool
    async def ask(kind: str, ctx: Context) -> str:
        tools = [Tool(name="t", input_schema={"type": "object"})]
        asks: dict[str, Any] = {
            "sampling": lambda: ctx.sample("?"),
            "tools": lambda: ctx.sample("?", tools=tools),
            "elicitation": lambda: ctx.elicit("?", FORM),
            "roots": ctx.list_roots,
        }
        try:
            seen.append(await asks[kind]())
        except Exception as error:
            seen.append(error)
            raise
        return "answered"

    return server, seen


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("kind", "error", "needed"),
    [
        ("sampling", SamplingUnavailable, {"sampling": {}}),
        ("tools", SamplingUnavailable, {"sampling": {"tools": {}}}),
        ("elicitation", ElicitationUnavailable, {"elicitation": {"form": {}}}),
        ("roots", MissingCapability, {"roots": {}}),
    ],
)
async def test_what_the_client_does_not_offer_is_not_asked(
    kind: str, error: type[MissingCapability], needed: Any, revision: str
) -> None:
    """The handler gets an error that names it, and nothing travels."""
    server, seen = trying()
    recorder = Recorder()
    async with Client(server, revision=revision, wrap=recorder) as client:
        if revision == "2026-07-28":
            with pytest.raises(MissingCapability) as caught:
                await client.call_tool("ask", {"kind": kind})
            assert caught.value.data == {"requiredCapabilities": needed}
        else:
            assert (await client.call_tool("ask", {"kind": kind})).is_error
    assert type(seen[0]) is error
    assert seen[0].data == {"requiredCapabilities": needed}
    assert not any(one.kind == "request" for one in recorder.messages if one.direction == "received")


async def test_sampling_without_tools_is_not_asked_with_tools() -> None:
    """The capability has parts."""
    server, seen = trying()
    async with Client(server, sampling=Script(["x", "x"]), revision="2025-11-25") as client:
        assert (await client.call_tool("ask", {"kind": "tools"})).is_error
        assert not (await client.call_tool("ask", {"kind": "sampling"})).is_error
    assert isinstance(seen[0], SamplingUnavailable)


async def test_what_the_revision_cannot_carry_is_not_asked() -> None:
    """Tools in sampling began with 2025-11-25."""
    server, seen = trying()
    async with raw_client(server) as client:
        await client.handshake("2025-06-18")
        reply = await client.reply(client.request("tools/call", name="ask", arguments={"kind": "tools"}))
    assert reply["result"]["isError"] is True
    assert isinstance(seen[0], NotInRevision)


async def test_an_error_of_the_client_is_raised_in_the_handler() -> None:
    """As the exception of its code, with its data."""
    server, seen = trying()
    script = Script([Rejected("User rejected sampling request", data={"reason": "budget"})])
    async with Client(server, sampling=script, revision="2025-11-25") as client:
        await client.call_tool("ask", {"kind": "sampling"})
    assert isinstance(seen[0], Rejected)
    assert seen[0].data == {"reason": "budget"}
    assert seen[0].remote


@pytest.mark.parametrize("bad", [{}, {"role": "assistant"}, {"role": "assistant", "content": 1, "model": "m"}])
async def test_an_answer_that_cannot_be_read_is_the_clients_fault(bad: Any) -> None:
    """Handler and client learn which ask it was, and what was wrong with the answer."""
    server, seen = trying()
    async with raw_client(server) as client:
        await client.handshake()
        call = client.request("tools/call", name="ask", arguments={"kind": "sampling"})
        client.send({"id": (await client.asked())["id"], "result": bad})
        result = (await client.reply(call))["result"]
    assert isinstance(seen[0], RemoteProtocolError)
    assert "sampling/createMessage" in str(seen[0])
    assert text(result).startswith("ask: The client's answer to sampling/createMessage cannot be read")


async def test_an_answer_with_members_nobody_knows_is_read() -> None:
    """What is new to us is no mistake."""
    server, seen = trying()
    async with raw_client(server) as client:
        await client.handshake()
        call = client.request("tools/call", name="ask", arguments={"kind": "sampling"})
        client.send({"id": (await client.asked())["id"], "result": {**said("fine"), "novel": 1}})
        await client.reply(call)
    assert seen[0].text == "fine"


async def test_what_is_done_in_time_is_returned() -> None:
    """And no clock is left behind."""

    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert await within(5, "tool", work()) == "done"
    assert CLOCK.get() is None


async def test_what_takes_longer_fails_with_the_name_of_the_tool() -> None:
    """In words for a model."""
    with pytest.raises(ToolError, match=r"slow did not finish within 0\.01 s"):
        await within(0.01, "slow", asyncio.Event().wait())


async def test_a_timeout_within_the_tool_is_its_own() -> None:
    """It is not taken for the deadline."""

    async def work() -> None:
        raise TimeoutError("of mine")

    with pytest.raises(TimeoutError, match="of mine"):
        await within(5, "tool", work())


async def test_an_ask_stops_every_clock_it_is_made_within() -> None:
    """A person who answers after an hour costs neither the inner tool a second nor the outer one."""
    clock, answer = Clock(asyncio.get_running_loop()), asyncio.Event()

    async def ask() -> str:
        with standing_still():
            await answer.wait()
        return "answered"

    call = asyncio.ensure_future(within(5, "outer", within(3, "inner", ask())))
    await clock.advance(3600)
    assert not call.done()
    answer.set()
    assert await call == "answered"


async def test_the_clock_goes_on_after_the_last_of_asks_that_overlap() -> None:
    """With what was left."""
    clock, answers = Clock(asyncio.get_running_loop()), [asyncio.Event(), asyncio.Event()]

    async def ask(answer: asyncio.Event) -> None:
        with standing_still():
            await answer.wait()

    async def work() -> None:
        await asyncio.gather(*(ask(answer) for answer in answers))
        await asyncio.Event().wait()

    call = asyncio.ensure_future(within(3, "tool", work()))
    await clock.advance(2)
    answers[0].set()
    await clock.advance(10)
    answers[1].set()
    await clock.advance(2.5)
    assert not call.done()
    await clock.advance(1)
    with pytest.raises(ToolError):
        await call


async def test_a_sibling_that_asks_does_not_stop_the_clock_of_another() -> None:
    """Each tool of a turn has its own."""
    clock, answer = Clock(asyncio.get_running_loop()), asyncio.Event()

    async def ask() -> None:
        with standing_still():
            await answer.wait()

    async def used(name: str, work: Callable[[], Awaitable[object]]) -> None:
        await within(3, name, work())

    asking = asyncio.ensure_future(used("asking", ask))
    hanging = asyncio.ensure_future(used("hanging", asyncio.Event().wait))
    await clock.advance(4)
    with pytest.raises(ToolError, match="hanging"):
        await hanging
    assert not asking.done()
    answer.set()
    await asking


async def test_a_task_that_outlives_its_tool_starts_no_clock() -> None:
    """Its ask ends long after the tool."""
    clock, answer = Clock(asyncio.get_running_loop()), asyncio.Event()
    tasks: list[asyncio.Future[None]] = []

    async def ask() -> None:
        with standing_still():
            await answer.wait()

    async def work() -> str:
        tasks.append(asyncio.ensure_future(ask()))
        await settle()
        return "done"

    assert await within(3, "tool", work()) == "done"
    answer.set()
    await clock.advance(10)
    await tasks[0]


async def test_a_task_may_ask_for_the_first_time_after_its_tool_has_ended() -> None:
    """The deadline of the tool is over; that of the tool around it stops as for any ask."""
    clock, ended, answer = Clock(asyncio.get_running_loop()), asyncio.Event(), asyncio.Event()

    async def ask() -> str:
        await ended.wait()
        with standing_still():
            await answer.wait()
        return "answered"

    async def leave_behind() -> asyncio.Task[str]:
        return asyncio.get_running_loop().create_task(ask())

    async def work() -> str:
        left = await within(3, "inner", leave_behind())
        ended.set()
        return await left

    call = asyncio.ensure_future(within(5, "outer", work()))
    await clock.advance(3600)
    assert not call.done()
    answer.set()
    assert await call == "answered"
