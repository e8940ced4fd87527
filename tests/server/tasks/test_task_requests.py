"""The tasks of 2025-11-25: wanted by the client in its call, and asked for while it waits for the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon import Context, InternalError, Rejected, Server
from antiphon.server import SqlTaskStore, TaskOptions
from tests.support.mcp_schema import definitions, problems
from tests.support.raw_client import RawClient, raw_client, said, text

KEY = b"k" * 32
RELATED = "io.modelcontextprotocol/related-task"
REVISION = "2025-11-25"


def press(**options: Any) -> Server:
    """Make a server with a tool of each kind."""
    server = Server("press", keys=[KEY], tasks=TaskOptions(**{"poll_every": 0.05, **options}))

    @server.tool(task="required")
    async def publish(ctx: Context) -> str:
        """Ask twice at once, and once more; a refusal is heard."""
        first, second = await asyncio.gather(ctx.sample("first"), ctx.sample("second"))
        try:
            third = (await ctx.sample("third")).text
        except Rejected:
            third = "refused"
        return f"{first.text} {second.text} {third}"

    @server.tool(task="allowed")
    async def fail() -> str:
        """Fail by a protocol error."""
        raise InternalError("no ink")

    @server.tool
    async def quick() -> str:
        """Return at once."""
        return "done"

    return server


class Old:
    """A client that knows only these tasks."""

    def __init__(self, raw: RawClient) -> None:
        self.raw = raw

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Make a request; return its reply."""
        return await self.raw.reply(self.raw.request(method, **params))

    async def start(self, tool: str, **wish: Any) -> dict[str, Any]:
        """Call a tool as a task; return the task."""
        reply = await self.call("tools/call", name=tool, arguments={}, task=wish)
        assert problems(REVISION, "CreateTaskResult", reply["result"]) == []
        return reply["result"]["task"]

    async def get(self, id: str) -> dict[str, Any]:
        """Look at a task."""
        seen = (await self.call("tasks/get", taskId=id))["result"]
        assert problems(REVISION, "GetTaskResult", seen) == []
        return seen

    async def until(self, id: str, status: str) -> dict[str, Any]:
        """Look at a task until it has a status."""
        async with asyncio.timeout(60):
            while True:
                seen = await self.get(id)
                if seen["status"] == status:
                    return seen
                await asyncio.sleep(0.005)

    async def asked(self) -> tuple[str, str, int]:
        """Wait for an ask; return its text, its task and its id."""
        ask = await self.raw.asked()
        words = ask["params"]["messages"][0]["content"]["text"]
        return words, ask["params"]["_meta"][RELATED]["taskId"], ask["id"]

    def answer(self, id: int, words: str) -> None:
        """Answer an ask."""
        self.raw.send({"id": id, "result": said(words)})


@asynccontextmanager
async def old(server: Server, principal: str | None = None) -> AsyncGenerator[Old]:
    """Connect such a client."""
    async with raw_client(server, principal=principal) as raw:
        await raw.handshake(REVISION)
        yield Old(raw)


async def test_a_client_that_wants_a_task_gets_one_and_is_asked_while_it_waits_for_the_result() -> None:
    """Each ask is a request that names the task; a refusal is heard by the handler; the result names the task."""
    async with old(press()) as client:
        task = await client.start("publish", ttl=60_000)
        assert (task["status"], task["ttl"]) == ("working", 60_000)
        seen = await client.until(task["taskId"], "input_required")
        assert "inputRequests" not in seen
        assert client.raw.requests == []
        waiting = client.raw.request("tasks/result", taskId=task["taskId"])
        for _ in range(2):
            words, related, id = await client.asked()
            assert related == task["taskId"]
            client.answer(id, words.upper())
        words, _, id = await client.asked()
        client.raw.send({"id": id, "error": {"code": -1, "message": "User rejected sampling request"}})
        result = (await client.raw.reply(waiting))["result"]
        assert text(result) == "FIRST SECOND refused"
        assert result["_meta"][RELATED] == {"taskId": task["taskId"]}
        again = await client.call("tasks/result", taskId=task["taskId"])
        assert again["result"] == result
        told = [one["params"] for one in client.raw.notifications if one["method"] == "notifications/tasks/status"]
        assert [problems(REVISION, "Task", one) for one in told] == [[] for _ in told]
        assert told[-1]["status"] == "completed"


async def test_what_is_asked_goes_on_in_another_process_and_is_asked_once(tmp_path: Path) -> None:
    """The client has left with an ask open; whoever waits next is asked, also of two who wait at the same time."""
    async with SqlTaskStore(tmp_path / "tasks.db") as store, old(press(store=store)) as client:
        id = (await client.start("publish"))["taskId"]
        waiting = client.raw.request("tasks/result", taskId=id)
        words, _, ask = await client.asked()
        client.answer(ask, "one")
        await client.asked()
        client.raw.send({"method": "notifications/cancelled", "params": {"requestId": waiting}})
        await client.until(id, "input_required")
    async with SqlTaskStore(tmp_path / "tasks.db") as store, old(press(store=store)) as client:
        waiting = [client.raw.request("tasks/result", taskId=id) for _ in range(2)]
        for answer in ("two", "three"):
            _, _, ask = await client.asked()
            client.answer(ask, answer)
        results = [(await client.raw.reply(one))["result"] for one in waiting]
        assert sorted(text(results[0]).split()) == ["one", "three", "two"]
        assert results[0] == results[1]
        assert client.raw.requests == []
        assert words in ("first", "second")


async def test_cancelling_is_at_once_and_final() -> None:
    """The handler is given no say; whoever waits hears of it, and a second attempt is refused."""
    async with old(press()) as client:
        id = (await client.start("publish"))["taskId"]
        waiting = client.raw.request("tasks/result", taskId=id)
        await client.asked()
        cancelled = (await client.call("tasks/cancel", taskId=id))["result"]
        assert problems(REVISION, "CancelTaskResult", cancelled) == []
        assert cancelled["status"] == "cancelled"
        assert "cancelled" in (await client.raw.reply(waiting))["error"]["message"]
        assert (await client.call("tasks/cancel", taskId=id))["error"]["code"] == -32602
        assert (await client.get(id))["status"] == "cancelled"


async def test_an_error_of_the_protocol_is_the_result() -> None:
    """As the call itself would have been answered."""
    async with old(press()) as client:
        task = await client.start("fail")
        reply = await client.call("tasks/result", taskId=task["taskId"])
        assert reply["error"] == {"code": -32603, "message": "no ink"}
        assert (await client.get(task["taskId"]))["status"] == "failed"


async def test_tools_say_whether_they_are_called_as_tasks() -> None:
    """And hold clients to it, by the code of the specification; only a revision that has tasks hears of them."""
    async with old(press()) as client:
        tools = {tool["name"]: tool.get("execution") for tool in (await client.call("tools/list"))["result"]["tools"]}
        assert tools == {"publish": {"taskSupport": "required"}, "fail": {"taskSupport": "optional"}, "quick": None}
        for name, wish in (("publish", {}), ("quick", {"task": {}})):
            reply = await client.call("tools/call", name=name, arguments={}, **wish)
            assert reply["error"]["code"] == -32601
        assert (await client.call("tasks/list"))["error"]["code"] == -32601
    async with raw_client(press()) as raw:
        assert "tasks" not in (await raw.handshake("2025-06-18"))["capabilities"]
    async with raw_client(press()) as raw:
        assert (await raw.handshake(REVISION))["capabilities"]["tasks"] == {
            "cancel": {},
            "requests": {"tools": {"call": {}}},
        }
    server = Server("plain")
    server.tool(name="quick")(lambda: "done")
    async with old(server) as client:
        # "Receivers that do not declare the task capability MUST process requests of that type normally".
        reply = await client.call("tools/call", name="quick", arguments={}, task={"ttl": 1})
        assert text(reply["result"]) == "done"


async def test_nobody_else_waits_for_a_task() -> None:
    """For another principal there is none, of either kind."""
    server = press()
    async with old(server, "alice") as alice, old(server, "mallory") as mallory:
        id = (await alice.start("publish"))["taskId"]
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            assert (await mallory.call(method, taskId=id))["error"]["code"] == -32602
        assert (await alice.get(id))["status"] in ("working", "input_required")


def test_the_schema_of_these_tasks_is_known() -> None:
    """What the other tests compare with."""
    assert {"CreateTaskResult", "GetTaskResult", "CancelTaskResult"} <= definitions(REVISION).keys()


@pytest.mark.parametrize("ttl", [0, -1, 10**12, 10**400, -(10**400)])
async def test_a_time_to_live_stays_within_bounds(ttl: int) -> None:
    """At least a second, and no longer than the server keeps tasks anyway."""
    async with old(press(ttl=100.0)) as client:
        task = await client.start("fail", ttl=ttl)
        assert 1_000 <= task["ttl"] <= 100_000 + 3_600_000
        wrong = await client.call("tools/call", name="fail", arguments={}, task={"ttl": "soon"})
        assert wrong["error"]["code"] == -32602
