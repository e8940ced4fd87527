"""The client as its users meet it: calls, errors, time, and the end."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass
from datetime import date
from typing import Any

import pydantic
import pytest

from antiphon import Client, Context, Server, ToolError
from antiphon.client.rounds.loop import RoundLimits
from antiphon.errors import (
    CallTimeout,
    ConfigError,
    ConnectionClosed,
    LocalProtocolError,
    MethodNotFound,
    NotInRevision,
    Rejected,
    RemoteProtocolError,
    ResourceNotFound,
)
from antiphon.wire.common import RequestParams
from antiphon.wire.methods import METHODS
from antiphon.wire.origin import Origin
from tests.support.linked import settle
from tests.support.network import let_deadlines_pass

ERAS = ["2025-11-25", "2026-07-28"]


@dataclass
class Size:
    """A result with structure."""

    width: int
    height: int


def shop() -> Server:
    """Make a server with something of everything."""
    server = Server("shop", instructions="Ask nicely.")

    @server.tool
    async def describe(product: str, ctx: Context) -> str:
        reply = await ctx.sample(f"Describe {product}")
        return reply.text

    @server.tool
    async def size(product: str) -> Size:
        return Size(len(product), 1)

    @server.tool
    async def fail() -> str:
        raise ToolError("out of stock")

    @server.tool
    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    @server.tool
    async def greedy(count: int, ctx: Context) -> str:
        for _ in range(count):
            await ctx.sample("more")
        return "enough"

    @server.tool
    async def steps(ctx: Context) -> str:
        for number in (1, 2, 2, 1, 3):
            await ctx.progress(number, 3, f"step {number}")
        return "done"

    return server


async def echo(params: Any, origin: Origin) -> str:
    """Answer with the question."""
    return f"{params.messages[-1].text}!"


@pytest.mark.parametrize("revision", ERAS)
async def test_a_call_with_a_sample_in_it(revision: str) -> None:
    """The same server, the same client, either era."""
    async with Client(shop(), sampling=echo, revision=revision) as client:
        result = await client.call_tool("describe", {"product": "hat"})
    assert result.text == "Describe hat!"
    assert not result.is_error


@pytest.mark.parametrize("revision", ERAS)
async def test_the_answerer_learns_who_asks_and_why(revision: str) -> None:
    """Server, identity, the call with its arguments, and the round where there is one."""
    seen: list[Origin] = []

    async def answer(_params: Any, origin: Origin) -> str:
        seen.append(origin)
        return "x"

    async with Client(shop(), sampling=answer, revision=revision) as client:
        await client.call_tool("describe", {"product": "hat"})
    (origin,) = seen
    assert origin.server is not None
    assert origin.server.name == "shop"
    assert origin.call is not None
    assert (origin.call.method, origin.call.name, origin.call.arguments) == (
        "tools/call",
        "describe",
        {"product": "hat"},
    )
    assert origin.revision == revision
    assert (origin.round is not None) == (revision == "2026-07-28")


async def test_structured_results_come_as_data() -> None:
    """And as text for those who read only that."""
    async with Client(shop()) as client:
        result = await client.call_tool("size", {"product": "hat"})
    assert result.structured_content == {"width": 3, "height": 1}
    assert result.text == '{"width":3,"height":1}'


@pytest.mark.parametrize("revision", ERAS)
async def test_a_tool_that_failed_says_so_in_its_result(revision: str) -> None:
    """It does not raise."""
    async with Client(shop(), revision=revision) as client:
        result = await client.call_tool("fail")
    assert (result.is_error, result.text) == (True, "out of stock")


@pytest.mark.parametrize("revision", ERAS)
async def test_a_resource_that_is_not_there_raises_one_thing_in_every_revision(revision: str) -> None:
    """Whichever code travelled."""
    server = shop()
    server.resource("shop://hat")(lambda: "a hat")
    async with Client(server, revision=revision) as client:
        with pytest.raises(ResourceNotFound) as caught:
            await client.read_resource("shop://cap")
    assert caught.value.data == {"uri": "shop://cap"}


async def test_what_the_server_does_not_offer_is_not_sent() -> None:
    """The client knows before."""
    async with Client(shop()) as client:
        with pytest.raises(MethodNotFound, match="was not sent"):
            await client.list_prompts()


async def test_what_the_revision_lacks_is_not_sent() -> None:
    """The error names both."""
    server = shop()

    @server.tool
    async def form(ctx: Context) -> str:
        await ctx.elicit("?", Size)
        return "x"

    async with Client(server, revision="2025-03-26") as client:
        result = await client.call_tool("form")
    assert result.is_error
    async with Client(server, revision="2026-07-28") as client:
        with pytest.raises(NotInRevision, match="2026-07-28 has no ping"):
            client._link.session.request(METHODS["ping"], RequestParams())


@pytest.mark.parametrize("revision", ERAS)
async def test_a_refusal_reaches_whoever_may_know(revision: str) -> None:
    """Legacy: the server is told. Modern: the call is given up, and our caller is told."""

    async def refuse(_params: Any, _origin: Origin) -> str:
        raise Rejected("User rejected sampling request", data={"reason": "user"})

    async with Client(shop(), sampling=refuse, revision=revision) as client:
        if revision == "2026-07-28":
            with pytest.raises(Rejected) as caught:
                await client.call_tool("describe", {"product": "hat"})
            assert caught.value.data == {"reason": "user"}
        else:
            result = await client.call_tool("describe", {"product": "hat"})
            assert result.is_error
            assert "rejected" in result.text


async def test_an_answerer_that_breaks_is_our_callers_to_see() -> None:
    """The real cause, flat; a legacy server learns nothing of it."""

    async def broken(_params: Any, _origin: Origin) -> str:
        raise RuntimeError("provider down: sk-secret")

    async with Client(shop(), sampling=broken, revision="2026-07-28") as client:
        with pytest.raises(RuntimeError, match="sk-secret"):
            await client.call_tool("describe", {"product": "hat"})
    async with Client(shop(), sampling=broken, revision="2025-11-25") as client:
        result = await client.call_tool("describe", {"product": "hat"})
    assert result.is_error
    assert "secret" not in result.text


@pytest.mark.parametrize("revision", ERAS)
async def test_a_server_that_asks_too_much_loses_the_call(revision: str) -> None:
    """The limit is per call, in both eras."""
    async with Client(shop(), sampling=echo, revision=revision, limits=RoundLimits(rounds=50, asks=3)) as client:
        assert (await client.call_tool("greedy", {"count": 3})).text == "enough"
        with pytest.raises(RemoteProtocolError, match="more than 3 answers"):
            await client.call_tool("greedy", {"count": 4})
        assert (await client.call_tool("greedy", {"count": 3})).text == "enough"


@pytest.mark.parametrize("revision", ERAS)
async def test_a_call_that_takes_too_long_is_given_up(revision: str) -> None:
    """The server is told, and the connection goes on."""
    async with Client(shop(), revision=revision) as client:
        with pytest.raises(CallTimeout, match=r"tools/call was not answered within 0\.02 s"):
            await client.call_tool("hang", timeout=0.02)
        assert (await client.call_tool("fail")).is_error


@pytest.mark.parametrize("revision", ERAS)
async def test_human_time_is_free(revision: str) -> None:
    """While an ask is answered the deadline of the call stands still."""

    async def slow(_params: Any, _origin: Origin) -> str:
        let_deadlines_pass(100)
        await settle()
        return "at last"

    async with Client(shop(), sampling=slow, revision=revision) as client:
        result = await client.call_tool("describe", {"product": "hat"}, timeout=60)
    assert result.text == "at last"


@pytest.mark.parametrize("revision", ERAS)
async def test_progress_only_grows_and_is_over_with_the_call(revision: str) -> None:
    """What does not increase is not reported."""
    reports: list[tuple[float, float | None, str | None]] = []
    async with Client(shop(), revision=revision) as client:
        await client.call_tool("steps", progress=lambda *report: reports.append(report))
    assert reports == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_a_cancelled_call_is_cancelled_there() -> None:
    """Our task ends, and so does the handler."""
    server, ended = shop(), asyncio.Event()
    began = asyncio.Event()

    @server.tool
    async def watched() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async with Client(server) as client:
        call = asyncio.create_task(client.call_tool("watched"))
        await began.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(30):
            await ended.wait()


async def test_a_client_may_be_closed_by_another_task() -> None:
    """In any order, twice, and calls in flight are told."""
    client = Client(shop())
    await client.connect()
    call = asyncio.create_task(client.call_tool("hang"))
    await asyncio.sleep(0)
    await asyncio.create_task(client.close())
    with pytest.raises(ConnectionClosed):
        await call
    await client.close()
    with pytest.raises(LocalProtocolError, match="async with"):
        await client.call_tool("fail")


async def test_clients_close_in_any_order() -> None:
    """They do not nest."""
    server = shop()
    first, second = Client(server), Client(server)
    await first.connect()
    await second.connect()
    await first.close()
    assert (await second.call_tool("fail")).is_error
    await second.close()


async def test_nothing_is_left_behind() -> None:
    """No task, no warning."""
    before = asyncio.all_tasks()
    async with Client(shop(), sampling=echo) as client:
        await client.call_tool("describe", {"product": "hat"})
    gc.collect()
    assert asyncio.all_tasks() == before


async def test_lists_are_kept_as_long_as_the_server_allows() -> None:
    """And read again after a change."""
    server = shop()
    async with Client(server, revision="2026-07-28") as client:
        assert len((await client.list_tools()).tools) == 6
        server.tools.remove("hang")
        assert len((await client.list_tools()).tools) == 5


async def test_many_calls_at_once_find_their_answers() -> None:
    """Correlation under load."""
    async with Client(shop(), sampling=echo, limits=RoundLimits(asks=1_000)) as client:
        calls = [client.call_tool("describe", {"product": str(number)}) for number in range(200)]
        results = await asyncio.gather(*calls)
    assert [result.text for result in results] == [f"Describe {number}!" for number in range(200)]


class Measures(pydantic.BaseModel):
    """A model whose member has another name on the wire."""

    model_config = pydantic.ConfigDict(populate_by_name=True)
    chest: int = pydantic.Field(alias="chestInInches")
    since: date = date(2026, 1, 2)


async def test_a_model_of_pydantic_is_an_argument() -> None:
    """In the form that a tool with such a parameter takes."""
    server = Server("shop")

    @server.tool
    def order(sizes: list[Measures]) -> str:
        return f"{sizes[0].chest} since {sizes[0].since.year}"

    async with Client(server) as client:
        assert (await client.call_tool("order", {"sizes": [Measures(chest=40)]})).text == "40 since 2026"


async def test_an_argument_of_a_prompt_that_is_no_text_is_named() -> None:
    """Tools take numbers, prompts take texts only; nothing is sent."""
    wrong: Any = {"pieces": 5}
    async with Client(shop()) as client:
        with pytest.raises(ConfigError, match=r'argument "pieces" is sent as text: give str\(...\) of it, not 5'):
            await client.get_prompt("order", wrong)
        with pytest.raises(ConfigError, match="is sent as text"):
            await client.complete("order", "size", "X", arguments=wrong)


async def test_a_timeout_is_a_number_of_seconds() -> None:
    """Anything else is an error at once, and leaves nothing behind that waits."""
    wrong: Any = "5"
    with pytest.raises(ConfigError, match=r"Client\(timeout=\) must be float or None, got '5'"):
        Client(shop(), timeout=wrong)
    async with Client(shop()) as client:
        with pytest.raises(ConfigError, match="timeout= is a number of seconds"):
            await client.call_tool("fail", timeout=wrong)
        assert not client._link.session.outgoing


async def test_another_event_loop_than_that_of_its_connection_is_refused() -> None:
    """A second ``asyncio.run``, or one in a thread: the answer would never get there. Nothing is sent."""
    async with Client(shop()) as client:
        with pytest.raises(LocalProtocolError, match=r"another event loop: use one asyncio\.run for all of it"):
            await asyncio.to_thread(lambda: asyncio.run(client.call_tool("fail")))
        assert not client._link.session.outgoing
        assert (await client.list_tools()).tools
