"""Each path by which a server's words reach a model leads through the rules about results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.client.by_hand import BY_HAND
from antiphon.client.rounds.loop import PendingRound
from antiphon.errors import AntiphonError, ConnectionClosed, PeerError, TaskCancelled
from antiphon.gateway import Gateway
from antiphon.host import Approve, Host, MemoryStore, Policy, ResultRule, Rule, Scripted, digest
from antiphon.host.review.shown import collect_shown
from antiphon.types import CallToolResult, CreateMessageResult, Tool, ToolUseContent
from antiphon.wire.content import UnknownContent
from tests.host.asks import Person
from tests.host.review.asking import Asking
from tests.support.raw_client import raw_client
from tests.support.raw_server import RawServer

KEY = "AKIAIOSFODNN7EXAMPLE"
MODERN = "2026-07-28"


def rules(effect: str = "mask", **more: Any) -> Policy:
    """Make a policy that allows every call, and has one rule about secrets in results."""
    rule = ResultRule(effect=effect, found=("secret",), **more)
    return Policy(rules=(Rule(effect="allow", kind="tool"),), results=(rule,))


def keeper(effect: str = "mask", **more: Any) -> Host:
    """Make a host without a person."""
    return Host(reviewer=None, policy=rules(effect, **more))


def asking(failing: bool = False) -> Server:
    """Make a server that asks before it returns a key, or fails with it."""
    server = Server("asking")

    @server.tool
    async def fetch(ctx: Context) -> str:
        """Ask first."""
        await ctx.sample("What?", key="first")
        if failing:
            raise PeerError("no", data={"seen": [KEY]})
        return KEY

    return server


@pytest.mark.parametrize("failing", [False, True])
async def test_a_call_that_is_continued_by_hand_is_examined(failing: bool) -> None:
    """The result, or the error with its data, comes with the last round."""
    host = keeper()
    async with Client(asking(failing), sampling=BY_HAND, confirm=host, revision=MODERN) as client:
        step = await client.rounds.call_tool("fetch")
        assert isinstance(step, PendingRound)
        if failing:
            with pytest.raises(PeerError) as caught:
                await client.rounds.resume(step, {"first": "a hat"})
            assert caught.value.data == {"seen": ["[AWS access key]"]}
        else:
            done = await client.rounds.resume(step, {"first": "a hat"})
            assert isinstance(done, CallToolResult)
            assert done.text == "[AWS access key]"


async def test_a_failed_task_is_examined() -> None:
    """Its error reaches the model as its result would."""
    server = Server("tasks")

    @server.tool(task="allowed")
    async def fetch() -> str:
        """Fail."""
        raise PeerError(f"it was {KEY}", data={"seen": KEY})

    async with Client(server, confirm=keeper(), revision=MODERN) as client:
        handle = await client.start_task("fetch")
        assert handle.id
        with pytest.raises(PeerError) as caught:
            await handle.result(timeout=30)
        assert KEY not in f"{caught.value} {caught.value.data}"
        with pytest.raises(PeerError) as again:
            await client.task(handle.id).result(timeout=30)
        assert KEY not in f"{again.value} {again.value.data}"


async def test_a_task_without_a_named_tool_may_be_of_any_tool() -> None:
    """A rule about some tools covers a task that was picked up by its id alone; an exception does not."""
    server = Server("tasks")
    server.tool(task="allowed", name="fetch")(lambda: KEY)
    exempt = ResultRule(effect="pass", name="other*")
    policy = Policy(rules=rules().rules, results=(exempt, ResultRule(effect="mask", name="fe*")))
    async with Client(server, confirm=Host(reviewer=None, policy=policy), revision=MODERN) as client:
        handle = await client.start_task("fetch")
        assert (await client.task(handle.id).result(timeout=30)).text == "[AWS access key]"


class Source:
    """Tools of a program, which fail in a way of the test."""

    def __init__(self, error: AntiphonError) -> None:
        self._error = error

    async def tools(self) -> AsyncIterator[Tool]:
        yield Tool(name="fetch", input_schema={"type": "object"})

    async def call_tool(self, name: str, arguments: Mapping[str, Any], /) -> CallToolResult:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        PeerError(f"it was {KEY}"),
        TaskCancelled(f"cancelled: {KEY}"),
        ConnectionClosed("ended", exit_code=1, stderr=f"it was {KEY}"),
    ],
)
async def test_a_run_examines_how_the_call_of_any_source_fails(error: AntiphonError) -> None:
    """A source that knows no server raises what it likes."""
    use = ToolUseContent(id="1", name="fetch", input={})
    wants = CreateMessageResult(role="assistant", model="m", stop_reason="toolUse", content=[use])
    host = Host(reviewer=None, policy=rules(), provider=Scripted([wants, "done"]))
    run = await host.run("Fetch", tools=Source(error))
    assert "[AWS access key]" in run.calls[0].result.text
    assert KEY not in run.calls[0].result.text


def readable() -> Server:
    """Make a server whose resources and prompts hold keys."""
    server = Server("shop")
    server.resource("shop://stock", description=f"says {KEY}")(lambda: KEY)
    server.resource("shop://logo")(lambda: b"AKIAIOSFODNN7EXAMPLE")
    server.prompt(name="ask", description=f"says {KEY}")(lambda: f"use {KEY}")

    @server.resource("shop://gone")
    def gone() -> str:
        raise PeerError(f"no {KEY}")

    return server


async def test_what_a_gateway_passes_on_of_resources_and_prompts_is_examined() -> None:
    """Read by the client itself, or by the gateway's tools for hosts that know only tools; their lists, too."""
    gateway = Gateway({"shop": readable()}, keeper(), names="none", as_tools=True)
    async with Client(gateway.server, revision=MODERN) as client:
        assert (await client.read_resource("shop://stock")).contents[0].text == "[AWS access key]"
        assert (await client.read_resource("shop://logo")).contents[0].bytes == b"[AWS access key]"
        with pytest.raises(PeerError, match="AWS access key"):
            await client.read_resource("shop://gone")
        assert "use [AWS access key]" in str(await client.get_prompt("ask"))
        for name, arguments in {
            "read_resource": {"uri": "shop://stock"}, "get_prompt": {"name": "ask"}, "list_resources": {},
            "list_prompts": {},
        }.items():  # fmt: skip
            result = await client.call_tool(name, arguments)
            assert (KEY in str(result), "AWS access key" in str(result)) == (False, True), name


async def test_a_rule_says_which_kinds_it_covers() -> None:
    """A rule about tools leaves resources alone, and the other way round; the name of a resource is its URI."""
    for rule, passes in (({"kinds": ("tool",)}, True), ({"kinds": ("resource",), "name": "shop://*"}, False)):
        gateway = Gateway({"shop": readable()}, keeper(**rule), names="none")
        async with Client(gateway.server, revision=MODERN) as client:
            assert ((await client.read_resource("shop://stock")).contents[0].text == KEY) is passes
            assert KEY in str(await client.get_prompt("ask"))


async def test_a_resource_that_is_withheld_is_an_error() -> None:
    """It says why; a person who is asked sees what was read."""
    gateway = Gateway({"shop": readable()}, keeper("refuse"), names="none")
    async with Client(gateway.server, revision=MODERN) as client:
        with pytest.raises(PeerError, match="withheld"):
            await client.read_resource("shop://stock")
    seen: list[Any] = []

    def approve(item: Any) -> Approve:
        seen.append((item.params.name, item.result.content[0].resource.text))
        return Approve(digest=digest(item.result))

    host = Host(reviewer=Person(approve), policy=rules("ask"))
    async with Client(Gateway({"shop": readable()}, host, names="none").server, revision=MODERN) as client:
        assert (await client.read_resource("shop://stock")).contents[0].text == KEY
    assert seen == [("read_resource", KEY)]


FOREIGN = {"type": "hologram", "body": {"deep": [f"see {KEY}"]}}


def raw_server(result: dict[str, Any]) -> RawServer:
    """Make a server by hand with one tool, which returns a result."""
    tools = {"resultType": "complete", "tools": [{"name": "fetch", "inputSchema": {"type": "object"}}]}
    return RawServer(
        tools_list=lambda _message: {**tools, "ttlMs": 0, "cacheScope": "private"}, tools_call=lambda _message: result
    )


async def test_a_gateway_passes_on_nothing_that_was_not_examined() -> None:
    """Blocks of unknown kinds are masked; members that this library does not know are left out."""
    result = {"resultType": "complete", "content": [FOREIGN, {"type": "text", "text": "a", "b": KEY}], "more": KEY}
    async with raw_client(Gateway({"raw": raw_server(result)}, keeper(), names="none").server) as client:
        passed = await client.call("fetch")
        assert passed["content"][0] == {"type": "hologram", "body": {"deep": ["see [AWS access key]"]}}
        assert passed["content"][1]["text"] == "a"
        assert KEY not in str(passed)


async def test_a_gateway_takes_no_task_that_it_has_not_allowed() -> None:
    """Its result would come later, past the rules."""
    task = {
        "resultType": "task", "taskId": "1", "status": "working", "createdAt": "2026-11-28T10:00:00Z",
        "lastUpdatedAt": "2026-11-28T10:00:00Z", "ttlMs": None,
    }  # fmt: skip
    async with raw_client(Gateway({"raw": raw_server(task)}, keeper(), names="none").server) as client:
        passed = await client.call("fetch")
        assert passed["isError"]
        assert "allows none" in passed["content"][0]["text"]


async def test_a_person_sees_blocks_of_unknown_kinds() -> None:
    """Also in another process, which reads the question from the store."""
    made = Asking(MemoryStore(), policy=rules("ask"))
    async with Client(raw_server({"resultType": "complete", "content": [FOREIGN]}), confirm=made.host) as client:
        waits = await made.waits(client.call_tool("fetch"))
        (question,) = await made.queue.pending()
        shown = collect_shown(question)
        assert shown is not None
        assert f"see {KEY}" in shown.tool_result
        await made.queue.decide(question.id, Approve(digest=shown.digest), hash=question.hash, by="anna")
        assert (await waits).content == [UnknownContent("hologram", {"body": FOREIGN["body"]})]
