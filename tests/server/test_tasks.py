"""Tasks as a client sees them: made by calls, looked at, answered, cancelled, and kept from others."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from antiphon import Context, MemoryStateStore, Server, ToolError
from antiphon.errors import CallTimeout, ConfigError, InternalError
from antiphon.server import CallAbandoned, CallNext, ServerRequest, SqlTaskStore
from antiphon.server.tasks.task_store import MemoryTaskStore, StoredTask, TaskOptions
from antiphon.wire.task import TASKS
from tests.support.raw_client import ALL, raw_client, said, text
from tests.support.tasking import DECLARED, Tasking, tasking


def serving(function: Callable[..., Any], task: Any = "allowed", **options: Any) -> Server:
    """Make a server whose only tool becomes a task."""
    server = Server("catalogue", **options)
    server.tool(name="tool", task=task)(function)
    return server


async def quick(ctx: Context) -> str:
    """Say who asked."""
    return f"for {ctx.request.principal}"


async def asking(ctx: Context) -> str:
    """Ask a model."""
    return (await ctx.sample("What now?")).text


def asks_anew(known: list[str], seen: dict[str, Any]) -> bool:
    """Tell whether a task asks under a key that is not known yet."""
    return bool(set(seen.get("inputRequests", ())) - set(known))


async def test_a_call_becomes_a_task_and_its_result_is_kept() -> None:
    """The handle comes first; the result is part of what a look at the task says, as often as one looks."""
    async with tasking(serving(quick)) as client:
        handle = await client.start("tool")
        assert handle.keys() >= {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}
        assert not handle.keys() & {"task", "result", "error", "inputRequests", "requestState"}
        assert len(handle["taskId"]) >= 22
        assert await client.text(handle) == "for None"
        assert await client.text(handle) == "for None"


async def test_a_handler_asks_reports_and_goes_on() -> None:
    """An ordinary handler: what it asks is in the task, and how far it is in the task's status message."""

    async def tool(ctx: Context) -> str:
        await ctx.progress(1, 2, "halfway")
        first, second = await asyncio.gather(ctx.sample("left?"), ctx.sample("right?"))
        return first.text + second.text

    async with tasking(serving(tool)) as client:
        handle = await client.start("tool")
        seen = await client.until(handle, "input_required")
        assert seen["statusMessage"] == "halfway"
        asks = {ask["params"]["messages"][0]["content"]["text"]: key for key, ask in seen["inputRequests"].items()}
        assert await client.answer(handle, {asks["left?"]: said("L")}) == {
            "resultType": "complete",
            "_meta": seen["_meta"],
        }
        left = await client.get(handle)
        assert left["status"] == "input_required"
        assert list(left["inputRequests"]) == [asks["right?"]]
        await client.answer(handle, {asks["right?"]: said("R"), asks["left?"]: said("late"), "none": said("?")})
        assert await client.text(handle) == "LR"


async def test_keys_of_asks_are_never_used_twice() -> None:
    """Not even where the author gives the same key again, so that a late answer is no answer to another question."""

    async def tool(ctx: Context) -> str:
        return "".join([(await ctx.sample(f"{n}?", key="name" if n < 2 else None)).text for n in range(4)])

    async with tasking(serving(tool)) as client:
        handle = await client.start("tool")
        keys: list[str] = []
        for words in "abcd":
            seen = await client.until(handle, partial(asks_anew, keys))
            keys += seen["inputRequests"]
            await client.answer(handle, dict.fromkeys(keys, said(words)))
        assert await client.text(handle) == "abcd"
        assert keys[0] == "name"
        assert len(set(keys)) == 4


async def test_a_failed_tool_is_a_result_and_a_protocol_error_is_a_failure() -> None:
    """The status "failed" is for errors of the protocol alone."""

    async def failing(kind: str) -> str:
        raise ToolError("no stock") if kind == "tool" else InternalError("no database")

    async with tasking(serving(failing)) as client:
        ended = await client.until(await client.start("tool", {"kind": "tool"}), "over")
        assert (ended["status"], ended["result"]["isError"]) == ("completed", True)
        ended = await client.until(await client.start("tool", {"kind": "protocol"}), "over")
        assert (ended["status"], ended["error"]) == ("failed", {"code": -32603, "message": "no database"})
        assert ended["statusMessage"] == "no database"
        assert "result" not in ended


async def test_cancelling_is_cooperative_and_may_be_repeated() -> None:
    """The handler cleans up; one that goes on to a result has completed. Cancelling again changes nothing."""
    cleaned = asyncio.Event()

    async def tool(stubborn: bool, ctx: Context) -> str:
        try:
            await ctx.sample("wait?")
        except asyncio.CancelledError:
            cleaned.set()
            if not stubborn:
                raise
        return "done anyway"

    async with tasking(serving(tool)) as client:
        for stubborn, end in ((False, "cancelled"), (True, "completed")):
            handle = await client.start("tool", {"stubborn": stubborn})
            await client.until(handle, "input_required")
            for _ in range(2):
                assert (await client.cancel(handle)).keys() == {"resultType", "_meta"}
            assert (await client.until(handle, "over"))["status"] == end
            await client.cancel(handle)
            assert (await client.get(handle))["status"] == end
            assert cleaned.is_set()
            cleaned.clear()


async def test_clients_that_do_not_declare_the_extension() -> None:
    """They are served as ever where the tool allows; the methods of tasks, and tools that need them, are refused."""
    server = serving(quick)
    server.tool(name="needy", task="required")(quick)
    async with raw_client(server) as raw:
        assert text(await raw.call("tool")) == "for None"
        needed = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        for method in ("tasks/get", "tasks/cancel"):
            error = await raw.error(method, taskId="x")
            assert (error["code"], error["data"]) == (-32021, needed)
        assert (await raw.error("tasks/update", taskId="x", inputResponses={}))["code"] == -32021
        assert (await raw.error("tools/call", name="needy"))["data"] == needed
        assert (await raw.error("subscriptions/listen", notifications={"taskIds": ["x"]}))["code"] == -32021
    async with raw_client(server) as raw:
        await raw.handshake("2025-06-18")
        assert text((await raw.reply(raw.request("tools/call", name="tool")))["result"]) == "for None"
        refused = (await raw.reply(raw.request("tools/call", name="needy")))["result"]
        assert refused["isError"]
        assert TASKS in text(refused)


async def test_a_server_without_such_tools_has_no_such_methods() -> None:
    """Nothing is declared that is not there."""
    async with tasking(serving(quick, task="never")) as client:
        assert (await client.error("tasks/get", taskId="x"))["code"] == -32601
        assert text(await client.raw.call("tool", capabilities=DECLARED)) == "for None"


async def test_nobody_else_sees_a_task() -> None:
    """Who does not own it learns nothing: neither that it is there, nor by how an error is worded."""
    server = serving(asking)
    async with AsyncExitStack() as stack:
        alice = await stack.enter_async_context(tasking(server, principal="alice"))
        handle = await alice.start("tool")
        asked = await alice.until(handle, "input_required")
        unknown = await alice.error("tasks/get", taskId="A" * 32)
        assert unknown["code"] == -32602
        for principal in ("mallory", None):
            other = await stack.enter_async_context(tasking(server, principal=principal))
            answers = dict.fromkeys(asked["inputRequests"], said("mine"))
            for method, params in {
                "tasks/get": {},
                "tasks/cancel": {},
                "tasks/update": {"inputResponses": answers},
            }.items():
                assert await other.error(method, taskId=handle["taskId"], **params) == unknown
            listening = other.raw.modern(
                "subscriptions/listen", capabilities=DECLARED, notifications={"taskIds": [handle["taskId"]]}
            )
            while not other.raw.notifications:
                await other.raw.step()
            assert other.raw.notifications[0]["params"]["notifications"] == {"taskIds": []}
            other.raw.send({"method": "notifications/cancelled", "params": {"requestId": listening}})
        assert (await alice.get(handle))["status"] == "input_required"
        await alice.answer(handle, "yes")
        assert await alice.text(handle) == "yes"


async def test_listeners_are_told_of_each_change() -> None:
    """The official suite skips this: what is told is what a look would have said, at once and to the end."""
    async with tasking(serving(asking)) as client:
        handle = await client.start("tool")
        asked = await client.until(handle, "input_required")
        wanted = {"taskIds": [handle["taskId"], "unknown"]}
        listening = client.raw.modern("subscriptions/listen", capabilities=DECLARED, notifications=wanted)
        told = client.raw.notifications
        while len(told) < 2:
            await client.raw.step()
        assert told[0]["method"] == "notifications/subscriptions/acknowledged"
        assert told[0]["params"]["notifications"] == {"taskIds": [handle["taskId"]]}
        await client.answer(handle, "yes")
        while told[-1]["params"].get("status") != "completed":
            await client.raw.step()
        assert {each["method"] for each in told[1:]} == {"notifications/tasks"}
        assert [each["params"]["status"] for each in told[1:]] == ["input_required", "working", "completed"]
        assert {each["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for each in told} == {listening}
        first, last = told[1]["params"], told[-1]["params"]
        assert first["inputRequests"] == asked["inputRequests"]
        seen = await client.get(handle)
        assert {**last, "_meta": seen["_meta"], "resultType": "complete"} == seen


async def test_rounds_come_before_the_task() -> None:
    """A handler that asks first and then goes on as a task: its client answers in a round, and then holds a handle."""
    runs: list[str] = []

    async def tool(ctx: Context) -> str:
        name = (await ctx.sample("Who?")).text
        await ctx.step("note", lambda: runs.append(name))
        is_task = await ctx.go_on_as_task()
        return f"{name} {(await ctx.sample('More?')).text} {is_task}"

    async with tasking(serving(tool, task="later")) as client:
        round = await client.raw.call("tool", capabilities=DECLARED)
        assert round["resultType"] == "input_required"
        answers = dict.fromkeys(round["inputRequests"], said("Alice"))
        again = {"requestState": round["requestState"], "inputResponses": answers}
        handle = await client.start("tool", **again)
        assert "requestState" not in handle
        assert (await client.start("tool", **again))["taskId"] == handle["taskId"]
        seen = await client.until(handle, "input_required")
        assert not seen["inputRequests"].keys() & round["inputRequests"].keys()
        await client.answer(handle, "please")
        assert await client.text(handle) == "Alice please True"
    assert runs == ["Alice"]


class Unused(MemoryStateStore):
    """A store that nothing is put into."""

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        raise AssertionError(key)

    async def add(self, key: str, value: bytes, ttl: float) -> bool:
        raise AssertionError(key)


async def test_a_state_that_is_not_encrypted_holds_nothing_that_the_call_has_learnt() -> None:
    """Without keys no other process could go on with it: what it learns stays in memory, also if there is a store."""

    async def tool(ctx: Context) -> str:
        name = (await ctx.sample("Who?")).text
        await ctx.step("note", lambda: name)
        return f"{name} {(await ctx.sample('More?')).text}"

    async with tasking(serving(tool, task="later", state_store=Unused())) as client:
        result = await client.raw.call("tool", capabilities=DECLARED)
        for _ in range(2):
            assert b"Alice" not in urlsafe_b64decode(result["requestState"])
            answers = dict.fromkeys(result["inputRequests"], said("Alice"))
            again = {"requestState": result["requestState"], "inputResponses": answers}
            result = await client.raw.call("tool", capabilities=DECLARED, **again)
        assert text(result) == "Alice Alice"


async def test_going_on_as_a_task_without_the_extension() -> None:
    """The call goes on as it is, unless the handler requires a task."""

    async def tool(required: bool, ctx: Context) -> str:
        return str(await ctx.go_on_as_task(required=required))

    async with raw_client(serving(tool, task="later")) as raw:
        assert text(await raw.call("tool", {"required": False})) == "False"
        assert (await raw.error("tools/call", name="tool", arguments={"required": True}))["code"] == -32021


async def test_middleware_sees_the_call_and_its_result() -> None:
    """It encloses the handler, and not the handle."""
    seen: list[str] = []
    server = serving(asking)

    @server.middleware
    async def watch(request: ServerRequest, call_next: CallNext) -> Any:
        result = await call_next(request)
        seen.append(f"{request.method} {type(result).__name__}")
        return result

    async with tasking(server) as client:
        handle = await client.start("tool")
        await client.answer(handle, "yes")
        assert await client.text(handle) == "yes"
    assert "tools/call CallToolResult" in seen
    assert "tasks/update EmptyResult" in seen


async def test_a_person_does_not_use_up_the_time_of_a_task() -> None:
    """While somebody is asked, the time to live is longer by what people may take; then by what they took."""
    now = [1_000.0]
    store = MemoryTaskStore(clock=lambda: now[0])
    options = TaskOptions(store=store, ttl=100, keep=1, patience=500)
    async with tasking(serving(asking, tasks=options)) as client:
        handle = await client.start("tool")
        assert handle["ttlMs"] == 100_000
        assert (await client.until(handle, "input_required"))["ttlMs"] == 600_000
        now[0] += 300
        await client.answer(handle, "yes")
        assert round((await client.until(handle, "completed"))["ttlMs"], -3) == 400_000
        now[0] += 101
        assert (await client.error("tasks/get", taskId=handle["taskId"]))["code"] == -32602


async def test_more_tasks_than_there_is_room_for() -> None:
    """One client may have a quarter; its next call is served at once, or refused if it has to be a task."""
    server = serving(asking, tasks=TaskOptions(most=4))
    server.tool(name="must", task="required")(asking)
    async with AsyncExitStack() as stack:
        alice, bob = [await stack.enter_async_context(tasking(server, principal=one)) for one in ("alice", "bob")]
        await alice.start("tool")
        assert (await alice.raw.call("tool", capabilities=DECLARED))["resultType"] == "input_required"
        error = await alice.error("tools/call", name="must", arguments={})
        assert (error["code"], error["message"][:29]) == (-32600, "Too many tasks: 1 of one clie")
        await bob.start("tool")


async def test_a_task_asks_only_for_what_its_call_declared() -> None:
    """Whatever the requests that look at it declare."""

    async def tool(ctx: Context) -> str:
        try:
            await ctx.sample("?")
        except Exception as error:
            return type(error).__name__
        return "asked"

    async with tasking(serving(tool)) as client:
        handle = await client.raw.call("tool", capabilities={"extensions": {TASKS: {}}})
        assert ALL.keys() <= DECLARED.keys()
        assert await client.text(handle) == "SamplingUnavailable"


# --- beyond the process -----------------------------------------------------------------------------------------------


KEY = b"k" * 32


@asynccontextmanager
async def durable(function: Callable[..., Any], folder: Path, principal: str | None = None) -> AsyncGenerator[Tasking]:
    """Run a server whose tasks are kept in a file, as one process after another would, and connect a client."""
    async with SqlTaskStore(folder / "tasks.db") as store:
        server = serving(function, keys=[KEY], tasks=TaskOptions(store=store))
        async with tasking(server, principal=principal) as client:
            yield client


def contents(folder: Path) -> bytes:
    """Read all files of a folder."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


def stepping(taken: list[str]) -> Callable[..., Any]:
    """Make a tool with steps before and after what it asks."""

    async def tool(secret: str, ctx: Context) -> str:
        before = await ctx.step("before", lambda: taken.append("before") or "B")
        left, right = await asyncio.gather(ctx.sample("left?"), ctx.sample("right?"))
        after = await ctx.step("after", lambda: taken.append("after") or "A")
        return before + left.text + right.text + after

    return tool


async def test_a_task_goes_on_in_another_process(tmp_path: Path) -> None:
    """Over what it has learnt: steps are not repeated, what was answered is not asked again, keys stay the same."""
    taken: list[str] = []
    async with durable(stepping(taken), tmp_path, "alice") as client:
        handle = await client.start("tool", {"secret": "c0ffee"})
        asked = await client.until(handle, "input_required")
        left, right = asked["inputRequests"]
        await client.answer(handle, {left: said("L")})
    async with durable(stepping(taken), tmp_path, "alice") as client:
        assert list((await client.until(handle, "input_required"))["inputRequests"]) == [right]
        await client.answer(handle, {right: said("R")})
        assert await client.text(handle) == "BLRA"
    assert taken == ["before", "after"]
    # What is in the file can be read with the server's keys only.
    assert not [secret for secret in (b"c0ffee", b"right?", b"alice") if secret in contents(tmp_path)]


async def test_a_step_that_runs_when_the_server_stops_is_recorded(tmp_path: Path) -> None:
    """It has a moment to end; else the next process would take it again."""
    began, taken = asyncio.Event(), list[str]()

    async def charge() -> str:
        taken.append("charged")
        began.set()
        # The server begins to stop meanwhile.
        await asyncio.sleep(0.1)
        return "paid"

    async def tool(ctx: Context) -> str:
        return await ctx.step("charge", charge)

    async with durable(tool, tmp_path) as client:
        handle = await client.start("tool")
        await began.wait()
    async with durable(tool, tmp_path) as client:
        assert await client.text(handle) == "paid"
    assert taken == ["charged"]


async def test_a_handler_whose_code_has_changed_does_not_go_on(tmp_path: Path) -> None:
    """Two versions are never mixed: the task fails with the named error."""

    async def changed(secret: str, ctx: Context) -> str:
        return (await ctx.sample("left?")).text

    async with durable(stepping([]), tmp_path) as client:
        handle = await client.start("tool", {"secret": "x"})
        await client.until(handle, "input_required")
    async with durable(changed, tmp_path) as client:
        ended = await client.until(handle, "failed")
        assert ended["error"]["message"].startswith("CallDiverged: the code of 'tool' has changed")


async def test_a_handler_that_waits_long_is_unloaded_and_run_again() -> None:
    """Its cleanup runs, in which it can neither ask nor take a step; an answer brings it back."""
    raised: list[str] = []
    runs: list[str] = []
    unloaded = asyncio.Event()

    async def tool(ctx: Context) -> str:
        await ctx.step("once", lambda: runs.append("step"))
        runs.append("run")
        try:
            return (await ctx.sample("?")).text
        except asyncio.CancelledError:
            for attempt in (ctx.step("undo", lambda: runs.append("UNDO")), ctx.sample("really?")):
                try:
                    await attempt
                except CallAbandoned as error:
                    raised.append(str(error))
            unloaded.set()
            raise

    server = serving(tool, tasks=TaskOptions(unload_after=0.01))
    async with tasking(server) as client:
        handle = await client.start("tool")
        asked = await client.until(handle, "input_required")
        async with asyncio.timeout(30):
            await unloaded.wait()
        assert (await client.get(handle))["inputRequests"] == asked["inputRequests"]
        await client.answer(handle, "yes")
        assert await client.text(handle) == "yes"
    assert runs == ["step", "run", "run"]
    assert raised == ["it waited for longer than its grace"] * 2


async def test_an_unloaded_task_is_cancelled_at_once_and_its_asks_run_out_of_time() -> None:
    """Nobody holds it, so there is nobody to wait for; and somebody looks when a deadline comes."""

    async def tool(limit: float | None, ctx: Context) -> str:
        try:
            return (await ctx.sample("?", timeout=limit)).text
        except CallTimeout:
            return "nobody answered"

    async with tasking(serving(tool, tasks=TaskOptions(unload_after=0.01))) as client:
        handle = await client.start("tool", {"limit": 0.3})
        assert await client.text(handle) == "nobody answered"
        handle = await client.start("tool", {"limit": None})
        await client.until(handle, "input_required")
        await client.cancel(handle)
        assert (await client.until(handle, "over"))["status"] == "cancelled"


class Busy(MemoryTaskStore):
    """Outlives servers, and creates tasks of its own, as a driver of a database does."""

    shared = True

    async def get(self, id: str) -> StoredTask | None:
        return await asyncio.create_task(super().get(id))


async def test_tasks_that_a_store_creates_do_not_confuse_a_replay() -> None:
    """A step that is recorded asks the store for nothing; the branches after it keep their names nevertheless."""
    store, taken = Busy(), list[str]()
    options = TaskOptions(store=store)
    async with tasking(serving(stepping(taken), keys=[KEY], tasks=options)) as client:
        handle = await client.start("tool", {"secret": "x"})
        left, right = (await client.until(handle, "input_required"))["inputRequests"]
        await client.answer(handle, {left: said("L")})
    async with tasking(serving(stepping(taken), keys=[KEY], tasks=options)) as client:
        assert list((await client.until(handle, "input_required"))["inputRequests"]) == [right]
        await client.answer(handle, {right: said("R")})
        assert await client.text(handle) == "BLRA"
    assert taken == ["before", "after"]


class Slow(MemoryTaskStore):
    """Lets others run whenever it is asked."""

    async def get(self, id: str) -> StoredTask | None:
        await asyncio.sleep(0)
        return await super().get(id)


async def test_a_task_that_is_found_twice_at_the_same_time_runs_once() -> None:
    """An answer brings an unloaded task back, and the timer finds it as well: one of them is too late."""
    runs: list[str] = []

    async def tool(ctx: Context) -> str:
        runs.append("run")
        return (await ctx.sample("?")).text

    server = serving(tool, tasks=TaskOptions(store=Slow(), unload_after=0.01))
    async with tasking(server) as client:
        handle = await client.start("tool")
        asked = await client.until(handle, "input_required")
        served = server._service.tasks
        for _ in range(3_000):
            if not served.calls:
                break
            await asyncio.sleep(0.01)
        record = await served.stored.get(handle["taskId"])
        assert record is not None
        ready = record.answered(set(), record.updated)
        await served.stored.change(record.id, lambda _: ready)
        found = await served.stored.get(record.id)
        assert found is not None
        await asyncio.gather(*(served.run_again(found) for _ in range(3)))
        await client.answer(handle, dict.fromkeys(asked["inputRequests"], said("yes")))
        assert await client.text(handle) == "yes"
    # Once for the call, and once again.
    assert runs == ["run", "run"]


def test_a_store_that_outlives_the_process_needs_keys(tmp_path: Path) -> None:
    """Without them nobody could read it later."""
    with pytest.raises(ConfigError, match="needs keys that outlive the process"):
        Server("s", tasks=TaskOptions(store=SqlTaskStore(tmp_path / "tasks.db")))


def test_wrong_options_are_refused() -> None:
    """Where they are given, with what to do."""
    with pytest.raises(ConfigError, match="TaskOptions: ttl must be above 0"):
        TaskOptions(ttl=0)
    with pytest.raises(ConfigError, match="task= is one of never, allowed, required, later, not 'always'"):
        serving(quick, task="always")
