"""A call of a legacy session that another replica goes on with: when it does, and what is recorded for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from antiphon import Context, Server
from antiphon.errors import TemporarilyUnavailable
from antiphon.server import MemoryCluster
from antiphon.server.calls import journal
from antiphon.types import ToolAnnotations
from tests.replicas.replicated import Replica, Trio, answer, question, result_of
from tests.transports.http.server.driver import Open, Response, closing

IDEMPOTENT = ToolAnnotations(idempotent_hint=True)


class Shop(Replica):
    """A replica with a tool that is given."""

    def __init__(self, cluster: MemoryCluster, tool: Any, **options: Any) -> None:
        super().__init__(cluster)
        self.server.tool(name="tool", **options)(tool)


class Shops:
    """Makes replicas with one tool."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def open(self, tool: Any, **options: Any) -> Trio:
        """Run three of them, and open a session at the first."""
        first = MemoryCluster()
        replicas = [Shop(MemoryCluster(first), tool, **options) for _ in range(3)]
        for each in replicas:
            await self._stack.enter_async_context(closing(each.app))
            # A call of a replica that has died does not end by itself.
            self._stack.push_async_callback(each.app.drain, 0)
            await each.app.hold()

        async def die(cluster: MemoryCluster) -> None:
            cluster.die()

        trio = Trio(list(replicas), die)
        await trio.open(0)
        return trio


@pytest.fixture
async def shops() -> AsyncIterator[Shops]:
    """Run replicas until the test ends."""
    async with AsyncExitStack() as stack:
        yield Shops(stack)


def hold_begin(trio: Trio, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Let the first replica record the begin of a journal only when the second of these events is set.

    The first one is set when it is about to.
    """
    cluster = trio.replicas[0].cluster
    reached, free, put = asyncio.Event(), asyncio.Event(), cluster.put

    async def held(key: str, value: bytes, ttl: float) -> None:
        if key.startswith("antiphon/begun/"):
            reached.set()
            await free.wait()
        await put(key, value, ttl)

    monkeypatch.setattr(cluster, "put", held)
    return reached, free


async def ask(ctx: Context, text: str) -> str:
    """Ask the client's model."""
    return (await ctx.sample(text)).text


async def resumed(trio: Trio, call: Open) -> Response:
    """Let the first replica die, and resume the stream of a call at the second."""
    last = call.response.events[-1].id
    await trio.die(0)
    call.disconnect()
    return await trio.listen(1, last_event_id=last or "").done()


def records(trio: Trio) -> list[str]:
    """Return the keys of what is recorded of calls."""
    return sorted(key for key in trio.replicas[0].cluster._shared.records._values if key.startswith("antiphon/"))


async def test_an_unmarked_call_without_steps_records_nothing(shops: Shops):
    """It costs the engine nothing that it did not cost before."""

    async def tool(ctx: Context) -> str:
        return await ask(ctx, "one") + await ask(ctx, "two")

    trio = await shops.open(tool)
    call = trio.call(0, "tool")
    await trio.post(0, answer(await question(call, "one"), "1"))
    await question(call, "two")
    assert records(trio) == []
    await trio.post(0, answer(call.response.messages[-1], "2"))
    assert result_of(await call.done()) == "12"
    assert records(trio) == []


async def test_a_first_step_records_what_was_learnt_before(shops: Shops):
    """The answer, the step, and that there is a journal; the handler that runs again asks for none of it."""
    runs: list[str] = []

    async def tool(ctx: Context) -> str:
        first = await ask(ctx, "one")
        second = await ctx.step("take", lambda: runs.append(first) or len(runs))
        return f"{first} {second} {await ask(ctx, 'two')}"

    trio = await shops.open(tool)
    call = trio.call(0, "tool")
    await trio.post(0, answer(await question(call, "one"), "1"))
    two = await question(call, "two")
    assert [key.split("/")[1] for key in records(trio)] == ["begun", "step", "step"]
    home = trio.replicas[1]
    await trio.die(0)
    await trio.post(1, answer(two, "2"))
    response = await resumed(trio, call)
    assert result_of(response) == "1 1 2"
    assert runs == ["1"]
    assert home.app._endpoint.sessions.all()[0].is_live(1) is False


async def test_branches_find_what_is_theirs(shops: Shops):
    """Two tasks ask and take steps under the same names."""
    taken: list[str] = []

    async def tool(ctx: Context) -> str:
        async def branch(name: str) -> str:
            value = await ctx.step("take", lambda: taken.append(name) or name)
            return value + await ask(ctx, "same")

        return " ".join(await asyncio.gather(branch("l"), branch("r")))

    trio = await shops.open(tool)
    call = trio.call(0, "tool")
    await call.response.until(b'"id":2,')
    asks = [each for each in call.response.messages if "id" in each]
    await trio.post(0, answer(asks[0], "1"))
    last = call.response.events[-1].id
    await trio.die(0)
    await trio.post(1, answer(asks[1], "2"))
    again = await trio.listen(1, last_event_id=last or "").done()
    assert result_of(again) == "l1 r2"
    assert sorted(taken) == ["l", "r"]
    call.disconnect()


async def test_a_step_that_is_taken_while_the_journal_begins_is_recorded(shops: Shops, monkeypatch: pytest.MonkeyPatch):
    """Else a replica that goes on with the call would take it again."""
    taken: list[str] = []

    async def tool(ctx: Context) -> str:
        async def first() -> str:
            return await ctx.step("take", lambda: taken.append("first") or "f")

        async def second() -> str:
            await reached.wait()
            asyncio.get_running_loop().call_soon(free.set)
            return await ctx.step("take", lambda: taken.append("second") or "s")

        both = await asyncio.gather(first(), second())
        return "".join(both) + await ask(ctx, "one")

    trio = await shops.open(tool)
    reached, free = hold_begin(trio, monkeypatch)
    call = trio.call(0, "tool")
    one = await question(call, "one")
    await trio.die(0)
    await trio.post(1, answer(one, "1"))
    assert result_of(await resumed(trio, call)) == "fs1"
    assert sorted(taken) == ["first", "second"]


async def test_an_answer_that_comes_while_the_journal_begins_is_recorded(shops: Shops, monkeypatch: pytest.MonkeyPatch):
    """Nobody is asked again for it."""

    async def tool(ctx: Context) -> str:
        async def step() -> str:
            return await ctx.step("take", lambda: "s")

        async def asks() -> str:
            await reached.wait()
            answered = await ask(ctx, "one")
            free.set()
            return answered

        both = await asyncio.gather(step(), asks())
        return "".join(both) + await ask(ctx, "two")

    trio = await shops.open(tool)
    reached, free = hold_begin(trio, monkeypatch)
    call = trio.call(0, "tool")
    await trio.post(0, answer(await question(call, "one"), "1"))
    two = await question(call, "two")
    await trio.die(0)
    await trio.post(1, answer(two, "2"))
    assert result_of(await resumed(trio, call)) == "s12"


@pytest.mark.parametrize("options", [{"once": True}, {"once": True, "annotations": IDEMPOTENT}])
async def test_a_call_that_must_run_once_does(shops: Shops, options: dict[str, Any]):
    """Whatever else is said of it, and with a journal."""
    runs: list[int] = []

    async def tool(ctx: Context) -> str:
        runs.append(await ctx.step("take", lambda: len(runs)))
        return await ask(ctx, "one")

    trio = await shops.open(tool, **options)
    call = trio.call(0, "tool")
    await question(call, "one")
    response = await resumed(trio, call)
    assert "has stopped" in response.messages[-1]["error"]["message"]
    assert runs == [0]


async def test_other_code_does_not_go_on_with_a_journal(shops: Shops):
    """A step of another name might be the same."""

    async def tool(ctx: Context) -> str:
        await ctx.step("take", lambda: None)
        return await ask(ctx, "one")

    trio = await shops.open(tool, annotations=IDEMPOTENT)
    call = trio.call(0, "tool")
    await question(call, "one")
    trio.replicas[1].server._service.core.code_version = "2"
    response = await resumed(trio, call)
    assert "has stopped" in response.messages[-1]["error"]["message"]


async def test_steps_of_an_unmarked_call_need_no_engine(shops: Shops):
    """They are not recorded then, and the call ends with its process."""

    async def tool(ctx: Context) -> int:
        return await ctx.step("take", lambda: 5)

    trio = await shops.open(tool)
    trio.replicas[0].cluster.reachable(False)
    assert (await trio.call(0, "tool").done()).json["result"]["structuredContent"] == {"result": 5}


async def test_a_step_of_a_marked_call_fails_where_it_cannot_be_recorded(shops: Shops):
    """Else it might be taken again elsewhere."""
    taken: list[int] = []

    async def tool(ctx: Context) -> None:
        await ctx.step("take", lambda: taken.append(1))

    trio = await shops.open(tool, annotations=IDEMPOTENT)
    trio.replicas[0].cluster.reachable(False)
    response = await trio.call(0, "tool").done()
    assert (response.status, response.json["error"]["code"]) == (503, TemporarilyUnavailable.CODE)
    assert taken == []


async def test_what_was_refused_is_not_asked_again(shops: Shops):
    """The error comes back as it came."""

    async def tool(ctx: Context) -> str:
        try:
            first = await ask(ctx, "one")
        except Exception as error:
            first = str(error)
        return f"{first}, {await ask(ctx, 'two')}"

    trio = await shops.open(tool, annotations=IDEMPOTENT)
    call = trio.call(0, "tool")
    await trio.post(0, {"id": (await question(call, "one"))["id"], "error": {"code": -1, "message": "never"}})
    two = await question(call, "two")
    await trio.die(0)
    await trio.post(2, answer(two, "well"))
    response = await resumed(trio, call)
    assert result_of(response).startswith("never")
    assert result_of(response).endswith(", well")


async def test_a_journal_that_is_too_long_is_none(shops: Shops, monkeypatch: pytest.MonkeyPatch):
    """The call goes on, and would end with its process."""
    monkeypatch.setattr(journal, "MAX_JOURNAL", 10)

    async def tool(ctx: Context) -> str:
        first = await ask(ctx, "one")
        return await ctx.step("take", lambda: first)

    trio = await shops.open(tool)
    call = trio.call(0, "tool")
    await trio.post(0, answer(await question(call, "one"), "1"))
    assert result_of(await call.done()) == "1"
    assert records(trio) == []


def test_only_replicas_record_calls():
    """A server of its own has nowhere to."""
    assert Server("shop")._service.rounds.legacy_calls is None
