"""Tasks of servers behind a gateway: under ids of the gateway, for the client that made them, answered as any ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import InvalidParams
from antiphon.gateway import Gateway
from antiphon.wire.task import TASKS
from tests.support.behind_gateway import ERAS, Offering, host, upstreams_of
from tests.support.network import until
from tests.support.raw_client import RawClient, raw_client, said
from tests.support.raw_server import CAPABILITIES, RawServer

WITH_TASKS = {"extensions": {TASKS: {}}, "sampling": {}, "elicitation": {"form": {}}}


class Working:
    """A server whose calls are tasks, and go on when they are let to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.words: list[str] = []
        self.server = Server("working")
        self.server.tool(task="allowed")(self.work)
        self.server.tool(task="allowed")(self.order)
        self.server.tool(task="later")(self.late)

    async def work(self, word: str) -> str:
        """Wait."""
        self.words.append(word)
        await self.go_on.wait()
        return f"done: {word}"

    async def order(self, ctx: Context) -> str:
        """Ask how many."""
        answer = await ctx.elicit("How many?", int)
        return f"{answer.action}: {answer.value}"

    async def late(self, ctx: Context) -> str:
        """Ask in a round, and again as a task."""
        first = await ctx.elicit("First?", int)
        await ctx.go_on_as_task(required=True)
        second = await ctx.elicit("Second?", int)
        return f"{first.value} {second.value}"


@asynccontextmanager
async def behind(working: Working, **options: Any) -> AsyncIterator[Client]:
    """Connect a client through a gateway that relays."""
    gateway = Gateway({"work": working.server}, host(), names="none", **{"asks": "relay", **options})
    async with Client(gateway.server, elicitation=Offering().elicit) as client:
        await client.list_tools()
        yield client


async def test_a_call_goes_on_as_a_task() -> None:
    """The client gets an id of the gateway, looks at the task, and gets the result when it has ended."""
    working = Working()
    async with behind(working) as client:
        handle = await client.start_task("work", {"word": "a"})
        assert handle.status == "working"
        assert len(handle.id) > 60
        assert (await client.task(handle.id).refresh()).status == "working"
        working.go_on.set()
        assert (await handle.result(timeout=30)).text == "done: a"
        assert (await client.call_tool("work", {"word": "b"})).text == "done: b"


@pytest.mark.parametrize("asks", ["relay", "host"])
async def test_what_a_task_asks_is_answered_as_any_ask(asks: str) -> None:
    """By the client that sees it, or by the host, while the client sees a task that works."""
    async with behind(Working(), asks=asks) as client:
        seen: set[str] = set()
        handle = await client.start_task("order")
        async for update in handle:
            seen.add(update.status)
        assert (await handle.result()).text == ("accept: 5" if asks == "relay" else "accept: 3")
        assert (await client.call_tool("late")).text == ("5 5" if asks == "relay" else "3 3")
    assert ("input_required" in seen) is (asks == "relay")


@pytest.mark.parametrize("asks", ["relay", "host"])
async def test_a_task_is_cancelled_where_it_is(asks: str) -> None:
    """And is then seen to be."""
    async with behind(Working(), asks=asks) as client:
        handle = await client.start_task("work", {"word": "a"})
        await handle.cancel()
        async for update in handle:
            assert update.status in ("working", "cancelled")
        assert handle.status == "cancelled"


async def test_a_client_without_tasks_is_served_within_its_request() -> None:
    """Of either era, as if there were none; it may not ask for tasks."""
    working = Working()
    working.go_on.set()
    async with raw_client(Gateway({"work": working.server}, host()).server) as client:
        result = await client.call("work__work", {"word": "a"}, capabilities={})
        assert result["content"][0]["text"] == "done: a"
        error = await client.error("tasks/get", taskId="x", capabilities={})
        assert error["code"] == -32021
        assert TASKS in error["data"]["requiredCapabilities"]["extensions"]
    async with Client(Gateway({"work": working.server}, host()).server, revision=ERAS[0]) as older:
        assert (await older.call_tool("work__work", {"word": "a"})).text == "done: a"
    async with raw_client(Gateway({"work": working.server}, host()).server) as oldest:
        await oldest.handshake()
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            asked = oldest.request(method, taskId="x", inputResponses={})
            assert (await oldest.reply(asked))["error"]["code"] == -32601


async def begun(client: RawClient) -> dict[str, Any]:
    """Begin a task, and return its handle."""
    await client.reply(client.modern("tools/list", capabilities=WITH_TASKS))
    return await client.call("work__work", {"word": "a"}, capabilities=WITH_TASKS)


async def test_a_task_is_known_by_its_own_id_to_its_own_client_alone() -> None:
    """Not to another principal, not by the server's id, and not by an id that was tampered with."""
    working = Working()
    gateway = Gateway({"work": working.server}, host())
    async with raw_client(gateway.server, principal="a") as own, raw_client(gateway.server, principal="b") as other:
        made = await begun(own)
        assert (made["resultType"], made["status"]) == ("task", "working")
        id = made["taskId"]
        (real,) = working.server._service.tasks.calls
        assert real not in id
        await begun(other)
        for client, wrong in ((other, id), (own, real), (own, id[:-8] + "A" * 8), (own, "\u00fc"), (own, "")):
            error = await client.error("tasks/get", taskId=wrong, capabilities=WITH_TASKS)
            assert error["code"] == -32602
            assert "Unknown task" in error["message"]
        seen = await own.reply(own.modern("tasks/get", taskId=id, capabilities=WITH_TASKS))
        assert seen["result"]["taskId"] == id


async def test_members_that_nobody_knows_arrive() -> None:
    """Of handles, of what is seen of a task, and of the requests about it; errors, without the server's id."""

    def task(message: dict[str, Any]) -> dict[str, Any]:
        kind = "task" if message["method"] == "tools/call" else "complete"
        at = "2026-01-01T00:00:00Z"
        return {
            "resultType": kind, "taskId": "t-1", "status": "working", "createdAt": at, "lastUpdatedAt": at,
            "ttlMs": None, "x-task": [1.0],
        }  # fmt: skip

    def fail(message: dict[str, Any]) -> None:
        server.send({"id": message["id"], "error": {"code": 4711, "message": "no t-1 here"}})

    server = RawServer(
        tools_list=lambda _: {"resultType": "complete", "tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
        tools_call=task, tasks_get=task, tasks_cancel=fail, tasks_update=lambda _: {"resultType": "complete", "x": 1},
    )  # fmt: skip
    discovered = server._server_discover({})
    capabilities = {"tools": {}, "extensions": {TASKS: {}}}
    server.replies["server/discover"] = lambda _: {**discovered, "capabilities": capabilities}
    assert TASKS not in CAPABILITIES
    async with raw_client(Gateway({"raw": server}, host(), asks="relay", names="none").server) as client:
        await client.reply(client.modern("tools/list", capabilities=WITH_TASKS))
        made = await client.call("t", capabilities=WITH_TASKS)
        assert made["x-task"] == [1.0]
        options: dict[str, Any] = {"capabilities": WITH_TASKS, "taskId": made["taskId"]}
        seen = await client.reply(client.modern("tasks/get", **options, **{"x-ask": 2.0}))
        assert (seen["result"]["x-task"], seen["result"]["taskId"]) == ([1.0], made["taskId"])
        params = (await server.request("tasks/get"))["params"]
        assert (params["taskId"], params["x-ask"]) == ("t-1", 2.0)
        assert params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] == {TASKS: {}}
        answers = {"k": {**said("yes"), "x-answer": 1.0}}
        await client.reply(client.modern("tasks/update", **options, inputResponses=answers))
        assert (await server.request("tasks/update"))["params"]["inputResponses"] == answers
        error = await client.error("tasks/cancel", **options)
        assert error == {"code": 4711, "message": f"no {made['taskId']} here"}


async def test_a_task_of_a_server_that_is_gone_is_unknown() -> None:
    """It was taken out of the configuration."""
    working, other = Working(), Server("other")
    other.tool(name="t")(lambda: "t")
    second = Working().server
    second.name = "second"
    gateway = Gateway({"work": working.server, "other": second}, host(), names="none", asks="relay")
    async with Client(gateway.server) as client:
        await client.list_tools()
        handle = await client.start_task("work__work", {"word": "a"})
        await gateway.configure({"other": gateway._servers["other"]})
        with pytest.raises(InvalidParams, match="'work' is no longer configured"):
            await handle.refresh()


async def heard(client: RawClient, count: int) -> list[dict[str, Any]]:
    """Wait for so many notifications."""
    while len(client.notifications) < count:
        await client.step()
    return [each["params"] for each in client.notifications]


def listens(client: RawClient, *ids: str) -> int:
    """Listen to tasks."""
    return client.modern("subscriptions/listen", capabilities=WITH_TASKS, notifications={"taskIds": list(ids)})


@pytest.mark.parametrize("asks", ["relay", "host"])
async def test_listeners_are_told_how_a_task_goes_on(asks: Any) -> None:
    """At once what it is, then each change to the end, under the gateway's id; nothing of an unknown task."""
    working = Working()
    async with raw_client(Gateway({"work": working.server}, host(), asks=asks).server) as client:
        id = (await begun(client))["taskId"]
        listening = listens(client, id, "unknown")
        acknowledged, first = await heard(client, 2)
        assert acknowledged["notifications"] == {"taskIds": [id]}
        assert (first["taskId"], first["status"]) == (id, "working")
        (real,) = working.server._service.tasks.calls
        working.go_on.set()
        last = (await heard(client, 3))[-1]
        assert (last["taskId"], last["status"]) == (id, "completed")
        assert last["result"]["content"][0]["text"] == "done: a"
        assert "resultType" not in last
        assert {each["_meta"]["io.modelcontextprotocol/subscriptionId"] for each in (first, last)} == {listening}
        assert real not in str(client.notifications)


async def test_what_a_listener_is_told_has_the_members_that_nobody_knows() -> None:
    """As what a look at the task returns has; each state is told once, however often the server says it."""
    at, looks = "2026-01-01T00:00:00Z", 0

    def task(message: dict[str, Any]) -> dict[str, Any]:
        nonlocal looks
        looks += message["method"] == "tasks/get"
        kind = "task" if message["method"] == "tools/call" else "complete"
        status = "working" if looks < 4 else "cancelled"
        return {
            "resultType": kind, "taskId": "t-1", "status": status, "createdAt": at, "lastUpdatedAt": at,
            "ttlMs": None, "pollIntervalMs": 1, "x-task": [1.0],
        }  # fmt: skip

    server = with_tasks(tools_call=task, tasks_get=task)
    async with raw_client(Gateway({"raw": server}, host(), asks="relay", names="none").server) as client:
        await client.reply(client.modern("tools/list", capabilities=WITH_TASKS))
        made = await client.call("t", capabilities=WITH_TASKS)
        listens(client, made["taskId"])
        _, first, last = await heard(client, 3)
        assert (first["status"], last["status"]) == ("working", "cancelled")
        assert first["x-task"] == last["x-task"] == [1.0]
        assert looks >= 4


async def test_calls_at_once_become_no_more_tasks_than_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those for which there is no room are served within their requests."""
    monkeypatch.setattr("antiphon.gateway.tasks_behind.MAX_FOLLOWED", 2)
    working = Working()
    async with raw_client(Gateway({"work": working.server}, host(), asks="host", names="none").server) as client:
        await client.reply(client.modern("tools/list", capabilities=WITH_TASKS))
        named = {"capabilities": WITH_TASKS, "name": "work"}
        calls = [client.modern("tools/call", arguments={"word": str(at)}, **named) for at in range(5)]
        await until(lambda: len(working.words) == 5)
        working.go_on.set()
        kinds = [(await client.reply(id))["result"]["resultType"] for id in calls]
        assert sorted(kinds) == ["complete"] * 3 + ["task"] * 2


async def test_an_error_that_consists_of_a_task_s_id_grows_by_a_few_ids() -> None:
    """The server chose an id of one letter, which the gateway's id stands for."""
    at = "2026-01-01T00:00:00Z"

    def task(message: dict[str, Any]) -> dict[str, Any] | None:
        if message["method"] == "tasks/get":
            server.send({"id": message["id"], "error": {"code": -32603, "message": "e" * 1_000}})
            return None
        said = {"taskId": "e", "status": "working", "createdAt": at, "lastUpdatedAt": at, "ttlMs": None}
        return {"resultType": "task", **said}

    server = with_tasks(tools_call=task, tasks_get=task)
    async with raw_client(Gateway({"raw": server}, host(), asks="relay", names="none").server) as client:
        await client.reply(client.modern("tools/list", capabilities=WITH_TASKS))
        id = (await client.call("t", capabilities=WITH_TASKS))["taskId"]
        reply = await client.reply(client.modern("tasks/get", capabilities=WITH_TASKS, taskId=id))
        assert len(reply["error"]["message"]) < 1_000 + 3 * len(id)


def with_tasks(**replies: Any) -> RawServer:
    """Make a server that writes its tasks by hand; its one tool is ``t``."""
    tools = {"resultType": "complete", "tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
    server = RawServer(tools_list=lambda _: tools, **replies)
    discovered = server._server_discover({})
    capabilities = {"tools": {}, "extensions": {TASKS: {}}}
    server.replies["server/discover"] = lambda _: {**discovered, "capabilities": capabilities}
    return server


async def test_a_task_that_nobody_listens_to_is_not_followed() -> None:
    """Nor one of another principal; and its server can be stopped for having nothing to do."""
    working = Working()
    gateway = Gateway({"work": working.server}, host(), asks="relay")
    async with raw_client(gateway.server, principal="a") as own, raw_client(gateway.server, principal="b") as other:
        id = (await begun(own))["taskId"]
        listens(other, id)
        assert (await heard(other, 1))[0]["notifications"] == {"taskIds": []}
        listening = listens(own, id)
        await heard(own, 2)
        await until(lambda: any(each.is_used for each in upstreams_of(gateway)))
        own.send({"method": "notifications/cancelled", "params": {"requestId": listening}})
        await until(lambda: not any(each.is_used for each in upstreams_of(gateway)))
        assert len(other.notifications) == 1
