"""Telling of changes: legacy subscriptions and modern streams, each told only what it asked for."""

from __future__ import annotations

import asyncio
from typing import Any

from antiphon import Client, Context, Server
from antiphon.server import TaskOptions
from antiphon.server.tasks.task_store import MemoryTaskStore, StoredTask
from tests.support.network import until
from tests.support.raw_client import RawClient, raw_client
from tests.support.tasking import DECLARED, tasking

ID = "io.modelcontextprotocol/subscriptionId"


def shop() -> Server:
    """Make a server with one of each."""
    server = Server("shop")

    @server.tool
    async def buy() -> str:
        return "bought"

    @server.prompt
    async def haggle() -> str:
        return "less!"

    @server.resource("shop://hat")
    async def hat() -> str:
        return "a hat"

    return server


async def listen(client: RawClient, **wanted: Any) -> int:
    """Open a stream and wait for its acknowledgement."""
    id = client.modern("subscriptions/listen", notifications=wanted)
    async with asyncio.timeout(30):
        while not any(m["params"].get("_meta", {}).get(ID) == id for m in client.notifications):
            await client.step()
    return id


async def told(client: RawClient, count: int) -> list[tuple[str, Any]]:
    """Wait for some notifications and return method and subscription of each."""
    async with asyncio.timeout(30):
        while len(client.notifications) < count:
            await client.step()
    return [(m["method"], m["params"]["_meta"][ID]) for m in client.notifications]


async def test_a_stream_is_acknowledged_first_and_every_message_carries_its_id() -> None:
    """The filter the server honours comes back before anything else."""
    server = shop()
    async with raw_client(server) as client:
        id = await listen(client, toolsListChanged=True)
        server.tools.remove("buy")
        messages = await told(client, 2)
    assert messages == [("notifications/subscriptions/acknowledged", id), ("notifications/tools/list_changed", id)]
    assert client.notifications[0]["params"]["notifications"] == {"toolsListChanged": True}


async def test_a_stream_hears_only_what_it_asked_for() -> None:
    """A change of tools is nothing to a listener for prompts."""
    server = shop()
    async with raw_client(server) as client:
        prompts = await listen(client, promptsListChanged=True)
        tools = await listen(client, toolsListChanged=True)
        server.tools.remove("buy")
        await told(client, 3)
        server.prompts.remove("haggle")
        messages = await told(client, 4)
    assert messages[2:] == [
        ("notifications/tools/list_changed", tools),
        ("notifications/prompts/list_changed", prompts),
    ]


async def test_updates_reach_those_who_subscribed_to_the_uri() -> None:
    """Another resource's update is not for them."""
    server = shop()
    async with raw_client(server) as client:
        id = await listen(client, resourceSubscriptions=["shop://hat"])
        server.resource_updated("shop://cap")
        server.resource_updated("shop://hat")
        messages = await told(client, 2)
    assert messages[1:] == [("notifications/resources/updated", id)]
    assert client.notifications[1]["params"]["uri"] == "shop://hat"


async def test_many_changes_at_once_are_told_once() -> None:
    """A loop that adds a hundred tools is one piece of news."""
    server = shop()
    async with raw_client(server) as client:
        await listen(client, toolsListChanged=True)
        for number in range(100):
            server.tool(name=f"tool{number}")(lambda: "x")
        await client.reply(client.modern("tools/list"))
    assert len(client.notifications) == 2


async def test_a_cancelled_stream_hears_nothing_more() -> None:
    """And is answered nothing."""
    server = shop()
    async with raw_client(server) as client:
        id = await listen(client, toolsListChanged=True)
        client.send({"method": "notifications/cancelled", "params": {"requestId": id}})
        server.tools.remove("buy")
        await client.reply(client.modern("tools/list"))
    assert len(client.notifications) == 1


async def test_too_many_uris_are_refused() -> None:
    """One client cannot fill the memory with subscriptions."""
    async with raw_client(shop()) as client:
        uris = [f"shop://{number}" for number in range(1_001)]
        error = await client.error("subscriptions/listen", notifications={"resourceSubscriptions": uris})
    assert error["code"] == -32600


async def test_a_legacy_client_is_told_of_lists_and_of_what_it_subscribed_to() -> None:
    """Lists without asking, resources only while subscribed."""
    server = shop()
    async with Client(server, revision="2025-11-25") as client:
        async with client.listen(tools=True, uris=["shop://hat"]) as changes:
            server.resource_updated("shop://cap")
            server.resource_updated("shop://hat")
            first = await anext(changes)
            server.tools.remove("buy")
            second = await anext(changes)
        async with client.listen(prompts=True) as changes:
            server.resource_updated("shop://hat")
            server.prompts.remove("haggle")
            third = await anext(changes)
    assert [(one.kind, one.uri) for one in (first, second, third)] == [
        ("resource", "shop://hat"),
        ("tools", None),
        ("prompts", None),
    ]


async def test_a_change_made_in_a_thread_is_told() -> None:
    """Tools that are not async run in threads, and may add tools."""
    server = shop()

    @server.tool
    def grow() -> str:
        server.tool(name="grown")(lambda: "x")
        return "done"

    async with Client(server) as client, client.listen(tools=True) as changes:
        await client.call_tool("grow")
        async with asyncio.timeout(30):
            change = await anext(changes)
    assert change.kind == "tools"


async def test_a_closed_client_is_forgotten() -> None:
    """A server that outlives its clients keeps nothing of them."""
    server = shop()
    async with server._service.serving():
        async with Client(server) as client, client.listen(tools=True):
            assert server._service.subscriptions.count == (1, 1)
        assert server._service.subscriptions.count == (0, 0)


async def test_a_listener_that_is_gone_before_it_is_served_is_not_kept() -> None:
    """Its tasks would be looked at for the life of the server, on behalf of nobody."""
    looked, go = asyncio.Event(), asyncio.Event()
    go.set()

    class Slow(MemoryTaskStore):
        async def get(self, id: str) -> StoredTask | None:
            looked.set()
            await go.wait()
            return await super().get(id)

    server = Server("waits", tasks=TaskOptions(store=Slow()))

    @server.tool(task="required")
    async def ask(ctx: Context) -> str:
        return (await ctx.sample("What now?")).text

    async with tasking(server) as staying:
        handle = await staying.start("ask")
        async with tasking(server) as leaving:
            looked.clear()
            go.clear()
            wanted = {"taskIds": [handle["taskId"]]}
            leaving.raw.modern("subscriptions/listen", capabilities=DECLARED, notifications=wanted)
            async with asyncio.timeout(30):
                await looked.wait()
        go.set()
        await until(lambda: not server._service.tasks._side)
        assert server._service.subscriptions.count == (1, 0)
