"""Tasks from the client's side: followed to their end, answered, shown, cancelled, picked up again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon import Client, Context, RoundLimits, Server, ToolError
from antiphon.client import ClientNext, ClientRequest
from antiphon.errors import (
    CallTimeout,
    InternalError,
    InvalidParams,
    Rejected,
    RemoteProtocolError,
    ResultInvalid,
    TaskCancelled,
)
from antiphon.host import Host, MemoryStore, ModelPrice, Scripted
from antiphon.host.models.selection import Chosen
from antiphon.server import CallNext, ServerRequest, SqlTaskStore, TaskOptions
from antiphon.types import CallToolResult
from tests.host.asks import Person, approve
from tests.support.network import let_deadlines_pass


class Measured(msgspec.Struct):
    """What a tool has counted."""

    pages: int


OPTIONS = TaskOptions(poll_every=0.05)


def working(**options: Any) -> Server:
    """Make a server with a tool of each kind."""
    server = Server("worker", tasks=TaskOptions(**{"poll_every": 0.05, **options}), keys=[b"k" * 32])

    @server.tool(task="required")
    async def write(topic: str, ctx: Context) -> str:
        """Write about something, and ask for each half."""
        await ctx.progress(1, 2, "thinking")
        first, second = await asyncio.gather(ctx.sample(f"{topic} 1"), ctx.sample(f"{topic} 2"))
        await ctx.progress(2, 2, "writing")
        return first.text + second.text

    @server.tool(task="required")
    async def steps(ctx: Context) -> str:
        """Ask three times, one after the other."""
        said: list[str] = []
        for number in (1, 2, 3):
            await ctx.progress(number, 3, f"step {number}")
            said.append((await ctx.sample(f"step {number}")).text)
        return " ".join(said)

    @server.tool(task="allowed")
    async def fail(kind: str) -> str:
        """Fail, one way or the other."""
        raise ToolError("no paper") if kind == "tool" else InternalError("no ink")

    @server.tool
    async def quick() -> str:
        """Return at once."""
        return "done"

    return server


async def says(params: Any, origin: Any) -> str:
    """Answer with the last word of the question, and the tool it came from."""
    return f"[{params.messages[-1].text.split()[-1]} {origin.call.name}]"


async def test_a_call_that_becomes_a_task_is_followed_to_its_end() -> None:
    """The caller sees a result, like any other; the task's messages are reported as progress."""
    told: list[str | None] = []
    async with Client(working(), sampling=says) as client:
        result = await client.call_tool("write", {"topic": "x"}, progress=lambda *report: told.append(report[2]))
        assert result.text == "[1 write][2 write]"
        assert told[0] == "thinking"
        assert (await client.call_tool("quick")).text == "done"


async def test_failures_are_those_of_a_call() -> None:
    """A tool that failed says so in its result; a protocol error raises."""
    async with Client(working()) as client:
        assert (await client.call_tool("fail", {"kind": "tool"})).is_error
        with pytest.raises(InternalError, match="no ink"):
            await client.call_tool("fail", {"kind": "protocol"})


async def test_a_handle_shows_what_becomes_of_the_task() -> None:
    """Each change, and then the result; it can be asked for again."""
    async with Client(working(), sampling=says) as client:
        handle = await client.start_task("write", {"topic": "x"})
        seen = [update.status async for update in handle]
        assert seen[-1] == "completed" == handle.status
        assert (await handle.result()).text == "[1 write][2 write]"
        at_once = await client.start_task("quick")
        assert (at_once.id, at_once.status, (await at_once.result()).text) == ("", "completed", "done")


async def test_a_task_is_picked_up_in_another_process(tmp_path: Path) -> None:
    """By its id, which is all that a client has to keep; here the server is another one, too."""
    async with SqlTaskStore(tmp_path / "tasks.db") as store, Client(working(store=store), sampling=says) as client:
        id = (await client.start_task("write", {"topic": "x"})).id
    async with SqlTaskStore(tmp_path / "tasks.db") as store, Client(working(store=store), sampling=says) as client:
        assert (await client.task(id, tool="write").result()).text == "[1 write][2 write]"
        with pytest.raises(InvalidParams, match="Unknown task"):
            await client.task("x" * 32).result()


async def test_a_host_hears_of_the_task_that_asks_in_every_process_that_follows_it(tmp_path: Path) -> None:
    """How old it is, how often it has asked and what it has cost; the audit has no id, which would open the task."""
    person = Person(approve)
    store, began = MemoryStore(), time.time()
    price = ModelPrice(input=Decimal(1), output=Decimal(1))
    host = Host(Scripted(["ok"] * 9), reviewer=person, store=store, choose=lambda *_: Chosen(prices={None: price}))
    async with SqlTaskStore(tmp_path / "tasks.db") as tasks, Client(working(store=tasks), sampling=host) as client:
        handle = await client.start_task("steps", {})
        async with contextlib.aclosing(aiter(handle)) as updates:
            async for _ in updates:
                if len(person.shown) == 2:
                    break
    async with SqlTaskStore(tmp_path / "tasks.db") as tasks, Client(working(store=tasks), sampling=host) as client:
        assert (await client.task(handle.id, tool="steps").result()).text == "ok ok ok"
    first, second, *_, last = [item.origin.task for item in person.shown]
    assert [task and task.asks for task in (first, second, last)] == [0, 1, 2]
    assert first.started is not None
    assert began <= first.started <= time.time()
    assert last.started is None
    assert 0 < second.money <= last.money
    assert {task.name for task in (first, second, last)} == {first.name}
    assert second.says == "step 2"
    kept = [entry.body for entry in await store.entries()]
    assert any(f'"task":"{first.name}"' in body for body in kept)
    assert not any(handle.id in body for body in kept)


async def test_cancelling_a_task() -> None:
    """The handle says so, and so does its result; cancelling again changes nothing."""
    async with Client(working(), sampling=forever) as client:
        handle = await client.start_task("write", {"topic": "x"})
        await handle.cancel()
        with pytest.raises(TaskCancelled):
            await handle.result()
        assert handle.status == "cancelled"
        await handle.cancel()


async def test_a_middleware_sees_the_result_of_a_call_that_becomes_a_task() -> None:
    """As of any other call; where only a handle is wanted, there is no result yet."""
    seen: list[object] = []

    async def watching(request: ClientRequest, call_next: ClientNext) -> Any:
        try:
            result = await call_next(request)
        except Exception as error:
            seen.append(type(error).__name__)
            raise
        if request.method == "tools/call":
            seen.append(result.text)
        return result

    async with Client(working(), sampling=says, middleware=[watching]) as client:
        assert (await client.call_tool("write", {"topic": "x"})).text == "[1 write][2 write]"
        assert (await (await client.start_task("write", {"topic": "x"})).result()).text == "[1 write][2 write]"
    assert seen == ["[1 write][2 write]", "BecameTask"]


@pytest.mark.parametrize("with_middleware", [False, True])
async def test_the_result_of_a_task_has_to_fit_its_tool(with_middleware: bool) -> None:
    """As the result of any other call."""
    server = working()

    @server.tool(task="required")
    async def measure() -> Measured:
        """Count pages."""
        return Measured(pages=1)

    @server.middleware
    async def spoil(request: ServerRequest, call_next: CallNext) -> Any:
        result = await call_next(request)
        is_call = isinstance(result, CallToolResult)
        return msgspec.structs.replace(result, structured_content={"pages": "many"}) if is_call else result

    async def passing(request: ClientRequest, call_next: ClientNext) -> Any:
        return await call_next(request)

    async with Client(server, middleware=[passing] if with_middleware else []) as client:
        with pytest.raises(ResultInvalid):
            await client.call_tool("measure")


async def forever(_params: Any, _origin: Any) -> str:
    """Never answer."""
    await asyncio.get_running_loop().create_future()
    return ""


async def refusing(_params: Any, _origin: Any) -> str:
    """Refuse."""
    raise Rejected("User rejected sampling request")


@pytest.mark.parametrize(
    ("answerer", "limits", "error"),
    [(refusing, RoundLimits(), Rejected), (says, RoundLimits(asks=1), RemoteProtocolError)],
)
async def test_what_a_person_refuses_and_what_is_too_much_ends_the_task(
    answerer: Any, limits: RoundLimits, error: type[Exception]
) -> None:
    """As it ends a call: the same answerers, the same limits. The server is told."""
    async with Client(working(), sampling=answerer, limits=limits) as client:
        handle = await client.start_task("write", {"topic": "x"})
        with pytest.raises(error):
            await handle.result()
        with pytest.raises(TaskCancelled):
            await handle.result()


async def test_a_deadline_of_the_answerer_is_its_own() -> None:
    """Its error is raised as it is, whether the task has a deadline or not."""

    async def late(_params: Any, _origin: Any) -> str:
        raise TimeoutError("the model is busy")

    async with Client(working(), sampling=late) as client:
        for timeout in (None, 60):
            with pytest.raises(TimeoutError, match="the model is busy"):
                await client.call_tool("write", {"topic": "x"}, timeout=timeout)
            with pytest.raises(TimeoutError, match="the model is busy"):
                await (await client.start_task("write", {"topic": "x"})).result(timeout=timeout)


async def test_deadlines() -> None:
    """One of the caller's own cancels the task; one for waiting lets it go on."""
    asked = asyncio.Semaphore(0)

    async def asking(params: Any, origin: Any) -> str:
        asked.release()
        return await forever(params, origin)

    async def given_up(waiting: Any) -> None:
        late = asyncio.ensure_future(waiting)
        for _ in range(2):
            await asked.acquire()
        let_deadlines_pass(60)
        with pytest.raises(CallTimeout, match="60 s"):
            await late

    async with Client(working(), sampling=asking) as client:
        await given_up(client.call_tool("write", {"topic": "x"}, timeout=60))
        handle = await client.start_task("write", {"topic": "x"})
        await given_up(handle.result(timeout=60))
        assert (await handle.refresh()).status == "input_required"
        await handle.cancel()


async def test_calls_by_hand_declare_no_tasks() -> None:
    """Whoever answers each round by hand is served within requests, or refused."""
    async with Client(working()) as client:
        failed = await client.rounds.call_tool("fail", {"kind": "tool"})
        assert not isinstance(failed, str)
        assert getattr(failed, "is_error", False)
