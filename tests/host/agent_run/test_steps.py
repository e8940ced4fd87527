"""The loop of a run: a model and tools, every call through the host's stages, and in one place only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import ConfigError, InternalError, LocalProtocolError, Rejected, ToolError
from antiphon.gateway import Gateway
from antiphon.host import (
    Budget,
    Cap,
    Deny,
    Host,
    MemoryStore,
    ModelAnswered,
    Policy,
    Rule,
    RunEvent,
    Scripted,
    TextGrew,
    ToolBegan,
    ToolEnded,
    ToolProgressed,
)
from antiphon.host.providers.base import Completion, Growth
from antiphon.types import CallToolResult, CreateMessageResult, ImageContent, TextContent, Tool, ToolUseContent
from antiphon.wire.sampling import text_answer
from tests.host.asks import Person, approve

ALLOW = Policy(rules=(Rule(effect="allow", kind="tool"),))


def use(*names: str, **arguments: Any) -> CreateMessageResult:
    """Make an answer that wants tools."""
    uses = [ToolUseContent(id=f"{name}-{at}", name=name, input=arguments) for at, name in enumerate(names)]
    return CreateMessageResult(role="assistant", model="m", stop_reason="toolUse", content=uses)


def shop(ran: list[str], name: str = "shop") -> Server:
    """Make a server with a few tools that note what ran."""
    server = Server(name)

    @server.tool
    def price(product: str = "scarf") -> str:
        """Say what a product costs."""
        ran.append(f"{name}:{product}")
        if product == "gone":
            raise ToolError("There is no such product: ask for a scarf")
        return f"{product}: 19.5"

    @server.tool
    def drawing() -> list[ImageContent | TextContent]:
        """Draw it."""
        return [TextContent(text="x" * 50), ImageContent.of(b"\x89PNG\r\n\x1a\n" + bytes(400), "image/png")]

    @server.tool
    async def slow(ctx: Context) -> str:
        """Report progress."""
        await ctx.progress(1, 2, "half")
        return "done"

    return server


async def test_a_model_calls_tools_until_it_answers():
    """The results are what it reads next, and the whole conversation comes back."""
    ran: list[str] = []
    provider = Scripted([use("price", product="gone"), use("price", product="scarf"), "It costs 19.5."])
    async with Client(shop(ran)) as client:
        result = await Host(provider, policy=ALLOW, reviewer=None).run("What is a scarf?", client)
    assert (result.text, result.ended, len(result.answers)) == ("It costs 19.5.", "answered", 3)
    assert ran == ["shop:gone", "shop:scarf"]
    assert [message.role for message in result.messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    [failed, found] = [message.blocks[0] for message in result.messages[2:5:2]]
    assert (failed.is_error, failed.text) == (True, "There is no such product: ask for a scarf")
    assert (found.is_error, found.text) == (False, "scarf: 19.5")
    assert [tool.name for tool in provider.requests[0].tools or ()] == ["price", "drawing", "slow"]


async def test_a_call_is_confirmed_once_whoever_else_confirms_it():
    """By a host that the client, or a gateway in this process, would ask as well; another decider is asked, too."""
    for place in ("run", "client", "gateway"):
        ran: list[str] = []
        person = Person(approve)
        host = Host(Scripted([use("price"), "done"]), reviewer=person)
        target = Gateway({"shop": shop(ran)}, host, names="none").server if place == "gateway" else shop(ran)
        async with Client(target, confirm=host if place == "client" else None) as client:
            await host.run("Go", client)
        assert (place, len(person.shown), ran) == (place, 1, ["shop:scarf"])


async def test_another_decider_of_the_client_is_asked_as_well():
    """No check that a program has set up is left out."""
    ran: list[str] = []

    async def never(params: object, origin: object) -> bool:
        return False

    async with Client(shop(ran), confirm=never) as client:
        result = await Host(Scripted([use("price"), "done"]), policy=ALLOW, reviewer=None).run("Go", client)
    assert ran == []
    assert [call.refused for call in result.calls] == ["user"]


async def test_a_refusal_is_told_to_the_model_and_recorded():
    """It goes on without that tool, and the server hears nothing of it."""
    ran: list[str] = []
    store = MemoryStore()
    person = Person(lambda item: Deny(reason="too dear"))
    host = Host(Scripted([use("price"), "Then not."]), reviewer=person, store=store)
    async with Client(shop(ran)) as client:
        result = await host.run("Go", client)
    assert (result.text, ran) == ("Then not.", [])
    [call] = result.calls
    assert (call.refused, call.result.is_error) == ("user", True)
    assert "deny" in [entry.record.outcome for entry in await store.entries()]


class Told(Person):
    """A person who is told what became of a call."""

    def __init__(self) -> None:
        super().__init__(approve)
        self.became: list[str | None] = []

    def handed_over(self, origin: object, why: str | None) -> None:
        self.became.append(why)


async def test_who_allowed_a_call_learns_that_it_was_sent():
    """As with a client that asks by itself."""
    person = Told()
    async with Client(shop([])) as client:
        await Host(Scripted([use("price"), "done"]), reviewer=person).run("Go", client)
    assert person.became == [None]


async def test_tools_for_apps_only_are_left_out():
    """A tool whose visibility leaves the model out is for a page of its server."""
    server = Server("apps")
    for name, visibility in {"both": ["model", "app"], "page": ["app"], "nobody": []}.items():
        server.add_tool(lambda: "ok", name=name, meta={"ui": {"visibility": visibility}})
    provider = Scripted(["nothing to do"])
    async with Client(server) as client:
        await Host(provider, reviewer=None).run("Go", client)
    assert [tool.name for tool in provider.requests[0].tools or ()] == ["both"]


async def test_several_sources_may_have_tools_of_one_name():
    """The first keeps it; names that a model service does not accept are replaced."""
    ran: list[str] = []
    odd = shop(ran, "odd")
    odd.add_tool(lambda: "ok", name="a.b")
    provider = Scripted([use("price_2", product="hat"), use("a_b"), "done"])
    async with Client(shop(ran, "first")) as first, Client(odd) as second:
        result = await Host(provider, policy=ALLOW, reviewer=None).run("Go", [first, second])
    assert ran == ["odd:hat"]
    assert [call.result.text for call in result.calls] == ["hat: 19.5", "ok"]


class Own:
    """A source that is no client."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    async def tools(self) -> AsyncIterator[Tool]:
        yield Tool(name="add", input_schema={"type": "object"})

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        self.calls.append((name, dict(arguments)))
        return CallToolResult(content=[], structured_content={"sum": 3})


async def test_anything_with_tools_will_do():
    """The host confirms its calls itself, and a result without content is read as data."""
    source, person = Own(), Person(approve)
    result = await Host(Scripted([use("add", a=1), "3"]), reviewer=person).run("Go", source)
    assert (source.calls, len(person.shown)) == ([("add", {"a": 1})], 1)
    assert result.calls[0].result.text == '{"sum":3}'
    refused = await Host(Scripted([use("add"), "no"]), reviewer=None).run("Go", Own())
    assert [call.refused for call in refused.calls] == ["no-reviewer"]
    with pytest.raises(ConfigError, match="has tools"):
        await Host(Scripted([]), reviewer=None).run("Go", cast("Any", object()))


async def test_a_run_is_bounded_in_steps_and_in_what_comes_back():
    """In the last step no tool is called; a long text is cut, and an image that does not fit is named."""
    ran: list[str] = []
    async with Client(shop(ran)) as client:
        host = Host(Scripted([use("price")] * 9), policy=ALLOW, reviewer=None)
        result = await host.run("Go", client, max_steps=3)
        assert (result.ended, len(result.answers), len(ran)) == ("max-steps", 3, 2)
        assert result.messages[-1].role == "user"
        host = Host(Scripted([use("drawing"), "seen"]), policy=ALLOW, reviewer=None)
        [call] = (await host.run("Go", client, max_result=20)).calls
        assert call.result.content[0] == TextContent(text=f"{'x' * 20}\n[cut: 20 of 50 characters]")
        assert call.result.content[1].text.startswith("[left out: ImageContent of ")
        with pytest.raises(ConfigError, match="max_steps"):
            await host.run("Go", client, max_steps=0)


async def test_a_step_calls_at_most_sixty_four_tools():
    """The rest is refused, and the model is told so."""
    ran: list[str] = []
    host = Host(Scripted([use(*["price"] * 70), "done"]), policy=ALLOW, reviewer=None)
    async with Client(shop(ran)) as client:
        result = await host.run("Go", client)
    assert len(ran) == 64
    assert [call.refused for call in result.calls].count("limit") == 6


@pytest.mark.parametrize("given", [["x", "x", "x-1"], ["", ""]])
async def test_uses_of_tools_with_one_id_are_told_apart(given):
    """Some models give each use the same id, or none: all are made, and each result stands for its use."""
    ran: list[str] = []
    uses = [ToolUseContent(id=id, name="price", input={"product": str(at)}) for at, id in enumerate(given)]
    wanted = CreateMessageResult(role="assistant", model="m", stop_reason="toolUse", content=uses)
    async with Client(shop(ran)) as client:
        result = await Host(Scripted([wanted, "done"]), policy=ALLOW, reviewer=None).run("Go", client)
    [said, told] = [cast("list[Any]", message.blocks) for message in result.messages[1:3]]
    ids = [block.id for block in said]
    assert "" not in ids
    assert len(set(ids)) == len(given)
    assert [block.tool_use_id for block in told] == ids
    assert [block.text for block in told] == [f"{at}: 19.5" for at in range(len(given))]


async def test_an_input_that_no_request_can_hold_is_a_failure_before_the_call():
    """The answer stays in the conversation, which the model could not be sent again."""
    ran: list[str] = []
    deep: list[Any] = []
    for _ in range(70):
        deep = [deep]
    async with Client(shop(ran)) as client:
        with pytest.raises(InternalError):
            await Host(Scripted([use("price", product=deep)]), policy=ALLOW, reviewer=None).run("Go", client)
    assert ran == []


async def test_the_budget_holds_for_a_run():
    """A model call that it refuses ends the run."""
    host = Host(Scripted([use("price"), "done"]), policy=ALLOW, reviewer=None, budget=Budget(day=Cap(tokens=1_500)))
    async with Client(shop([])) as client:
        with pytest.raises(Rejected) as caught:
            await host.run("Go", client)
    assert caught.value.data["reason"] == "budget"


class Streams(Scripted):
    """A script that streams its texts."""

    async def stream(self, params: Any, growth: Growth, *, model: str | None = None, **_: Any) -> Completion:
        result = await self.complete(params, model=model)
        growth.begin(model)
        for word in result.text.split():
            growth.add(word + " ")
        return Completion(result=result)


@pytest.mark.parametrize("waits", [False, True])
async def test_events_tell_what_happens_in_order(waits: bool):
    """A function or a coroutine function gets them."""
    events: list[RunEvent] = []

    async def later(event: RunEvent) -> None:
        events.append(event)

    host = Host(Streams([use("slow"), text_answer("It is done.", "m")]), policy=ALLOW, reviewer=None)
    async with Client(shop([])) as client:
        await host.run("Go", client, on_event=later if waits else events.append)
    kinds = [type(event) for event in events if not isinstance(event, TextGrew)]
    assert kinds == [ModelAnswered, ToolBegan, ToolProgressed, ToolEnded, ModelAnswered]
    assert "".join(event.text for event in events if isinstance(event, TextGrew)).split() == ["It", "is", "done."]
    [told] = [event for event in events if isinstance(event, ToolProgressed)]
    assert (told.step, told.progress, told.total, told.message) == (1, 1, 2, "half")


async def test_cancelling_a_run_cancels_its_calls():
    """The server is told, and the tool ends."""
    began, ended = asyncio.Event(), asyncio.Event()
    server = Server("s")

    @server.tool
    async def forever() -> str:
        """Wait."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async with Client(server) as client:
        host = Host(Scripted([use("forever", "forever")]), policy=ALLOW, reviewer=None)
        running = asyncio.ensure_future(host.run("Go", client))
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await ended.wait()


async def test_a_mistake_of_the_program_is_not_told_to_the_model():
    """A client that is not connected ends the run."""
    client = Client(shop([]))
    with pytest.raises(LocalProtocolError):
        await Host(Scripted([use("price")]), policy=ALLOW, reviewer=None).run("Go", client)
