"""The tools of a sample: what is offered, what runs, and what the model reads of it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from antiphon import (
    CallToolResult,
    ConfigError,
    Context,
    ImageContent,
    LocalProtocolError,
    Rejected,
    Server,
    TextContent,
    Tool,
    ToolError,
)
from antiphon.server.asks.tool_loop import Toolbox
from antiphon.server.features.tools import ServedTool
from antiphon.testing import connected
from tests.server.models import WITH_TOOLS, Model, asking, use, wants

RAW = Tool(name="look_up", input_schema={"type": "object"})


def double(n: int) -> int:
    """Double a number.

    Args:
        n: the number
    """
    return 2 * n


async def used(tools: Any, *uses: Any, revision: str = "2025-11-25", **options: Any) -> list[Any]:
    """Let a model want these tools in one turn; return the results it is given."""
    model = Model(wants(*uses), "Done.")
    server, _ = asking(lambda ctx: ctx.sample("q", tools=tools, **options))
    async with connected(server, sampling=model, revision=revision) as client:
        await client.call_tool("ask")
    return model.results()


def test_a_function_is_described_by_itself() -> None:
    """Name, docstring and signature; what it gives back is for the model to read."""
    (found,) = Toolbox([double], None, 8).definitions
    assert (found.name, found.description) == ("double", "Double a number.")
    assert found.input_schema["properties"] == {"n": {"type": "integer", "description": "the number"}}
    assert found.output_schema is None


def test_a_tool_may_have_another_name() -> None:
    """Or be one with a schema of its own."""
    named = ServedTool.from_function(double, name="twice")
    raw = ServedTool.of_definition(Tool(name="thrice", input_schema={"type": "object"}), lambda arguments: 3)
    box = Toolbox([named, raw], None, 8)
    assert [one.name for one in box.definitions] == ["twice", "thrice"]
    assert box.runs


def test_definitions_are_only_offered() -> None:
    """There is nothing to run."""
    box = Toolbox([RAW], None, 8)
    assert (box.definitions, box.runs) == ([RAW], False)


def test_functions_and_definitions_do_not_mix() -> None:
    """Half of a turn could not be answered; the error says what to do."""
    with pytest.raises(ConfigError, match="give only functions"):
        Toolbox([double, RAW], None, 8)


def test_two_tools_of_one_name_are_refused() -> None:
    """The model could not choose."""
    with pytest.raises(ConfigError, match='two tools named "double"'):
        Toolbox([double, ServedTool.from_function(lambda n: n, name="double")], None, 8)


def test_at_least_one_runs_at_a_time() -> None:
    """Or none would ever."""
    with pytest.raises(LocalProtocolError, match="tool_concurrency must be at least 1"):
        Toolbox([double], None, 0)


@pytest.mark.parametrize("revision", WITH_TOOLS)
async def test_results_come_in_the_order_of_the_uses(revision: str) -> None:
    """Whichever is ready first; all run at once."""
    both = asyncio.Barrier(2)

    async def meet(n: int) -> int:
        await both.wait()
        if n == 1:
            await asyncio.sleep(0)
        return n

    results = await used([meet], use("meet", id="a", n=1), use("meet", id="b", n=2), revision=revision)
    assert [(result.tool_use_id, result.text) for result in results] == [("a", "1"), ("b", "2")]


async def test_no_more_run_at_once_than_allowed() -> None:
    """The others wait their turn."""
    running: list[int] = []
    most: list[int] = []

    async def work(n: int) -> None:
        running.append(n)
        most.append(len(running))
        await asyncio.sleep(0)
        running.remove(n)

    uses = [use("work", id=str(n), n=n) for n in range(6)]
    assert len(await used([work], *uses, tool_concurrency=2)) == 6
    assert max(most) == 2


async def test_a_plain_function_runs_in_a_thread() -> None:
    """One that blocks stops nobody."""
    here = threading.get_ident()

    def where() -> bool:
        return threading.get_ident() == here

    assert [result.text for result in await used([where], use("where"))] == ["false"]


async def test_a_function_may_take_the_context() -> None:
    """The one of the handler; it is no argument for the model."""

    async def name(ctx: Context) -> str:
        return ctx.server.name

    (result,) = await used([name], use("name"))
    assert result.text == "s"


@pytest.mark.parametrize(
    ("given", "text", "content"),
    [
        ("text", "text", None),
        ({"n": 1}, '{"n":1}', None),
        (None, "null", None),
        (ImageContent.of(b"p", "image/png"), "", [ImageContent.of(b"p", "image/png")]),
        (CallToolResult(content=[], structured_content={"n": 1}), "null", None),
    ],
)
async def test_a_result_is_content(given: Any, text: str, content: Any) -> None:
    """Text, JSON as text, or blocks; never empty."""

    async def give() -> Any:
        return given

    (result,) = await used([give], use("give"))
    assert (result.text, result.is_error) == (text, False)
    assert content is None or result.content == content


@pytest.mark.parametrize("revision", WITH_TOOLS)
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (use("double", n="two"), 'argument "n": expected integer, got string'),
        (use("double"), 'missing argument "n"'),
        (use("double", n=1, m=2), 'unknown argument "m"'),
        (use("duble", n=1), "There is no tool 'duble'; did you mean \"double\"?"),
        (use("fail", why="author"), "no such product"),
        (use("fail", why="accident"), "fail failed: KeyError"),
        (use("give_up", n=1), "sold out"),
    ],
)
async def test_a_failure_is_told_to_the_model(wanted: Any, words: str, revision: str) -> None:
    """It can try again; what the author did not mean for it stays here."""

    async def fail(why: str) -> None:
        if why == "author":
            raise ToolError("no such product")
        raise KeyError("sk-secret")

    def give_up(n: int) -> CallToolResult:
        return CallToolResult(content=[TextContent(text="sold out")], is_error=True)

    (result,) = await used([double, fail, give_up], wanted, revision=revision)
    assert result.is_error
    assert result.text.startswith(words)
    assert "sk-secret" not in result.text


@pytest.mark.parametrize("revision", WITH_TOOLS)
async def test_tools_may_ask_themselves(revision: str) -> None:
    """All at once, in either era; a function that holds the context of its handler may as well."""
    model = Model(wants(use("by_parameter", id="1"), use("by_closure", id="2")), "x", "y", "Done.")

    async def advise(ctx: Context) -> str:
        async def by_closure() -> str:
            return (await ctx.sample("closure?")).text

        async def by_parameter(ctx: Context) -> str:
            return (await ctx.sample("parameter?")).text

        return (await ctx.sample("q", tools=[by_parameter, by_closure])).text

    server, seen = asking(advise)
    async with connected(server, sampling=model, revision=revision) as client:
        await client.call_tool("ask")
    assert seen == ["Done."]
    assert sorted(result.text for result in model.results()) == ["x", "y"]


async def test_a_refusal_inside_a_tool_ends_the_loop() -> None:
    """A person who has said no is not asked again by way of the model; what runs beside it is cancelled."""
    refused = Rejected("User rejected sampling request")
    model = Model(wants(use("ask_again", id="1"), use("wait", id="2")), refused)
    cancelled = asyncio.Event()

    async def ask_again(ctx: Context) -> str:
        return (await ctx.sample("and now?")).text

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    server, seen = asking(lambda ctx: ctx.sample("q", tools=[ask_again, wait]))
    async with connected(server, sampling=model, revision="2025-11-25") as client:
        await client.call_tool("ask")
    assert isinstance(seen[0], Rejected)
    assert cancelled.is_set()
    assert len(model.requests) == 2


async def test_cancelling_the_call_cancels_its_tools() -> None:
    """Nothing is left behind."""
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.sample("q", tools=[wait])).text

    async with connected(server, sampling=Model(wants(use("wait"))), revision="2025-11-25") as client:
        call = asyncio.create_task(client.call_tool("ask"))
        await started.wait()
        call.cancel()
        await asyncio.wait_for(cancelled.wait(), 60)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_timeout_of_a_tool_counts_when_a_model_uses_it(revision: str) -> None:
    """The model is told, and goes on; another tool of the turn has its own time."""

    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    results = await used(
        [ServedTool.from_function(slow, timeout=0.02), double], use("slow"), use("double", "2", n=4), revision=revision
    )
    assert [(one.is_error, one.content[0].text) for one in results] == [
        (True, "slow did not finish within 0.02 s"),
        (False, "8"),
    ]
