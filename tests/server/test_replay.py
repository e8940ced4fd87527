"""Which process may go on with a call, what becomes of the copies left behind, and where long journals are kept."""

from __future__ import annotations

import asyncio

import pytest

from antiphon import Context, Server
from antiphon.errors import OutcomeUnknown, TemporarilyUnavailable
from antiphon.machine.state_store import MemoryStateStore
from antiphon.server.calls.call import CallAbandoned
from antiphon.server.state.request_state import make_refusal, outcome_unknown
from tests.support.cluster import KEY, Tool, cluster, hungry, noise, prompts
from tests.support.raw_client import raw_client, said, text


def undoing(done: list[str], ended: asyncio.Event) -> Tool:
    """Make a tool that undoes what it did when it is given up."""

    async def tool(ctx: Context) -> str:
        async def note(what: str) -> None:
            done.append(what)

        await ctx.step("reserve", lambda: note("reserve"))
        try:
            await ctx.sample("confirm?")
        except BaseException as error:
            try:
                await ctx.step("undo", lambda: note("UNDO"))
            except CallAbandoned:
                done.append(f"abandoned after {type(error).__name__}")
                ended.set()
                raise
            raise
        await ctx.step("commit", lambda: note("commit"))
        return "done"

    return tool


async def test_a_copy_left_behind_undoes_nothing() -> None:
    """The zombie: parked here, committed elsewhere. Its time to live ends it, and its steps raise."""
    done, ended = list[str](), asyncio.Event()
    async with cluster(undoing(done, ended), parked_for=0.05) as processes:
        round = await processes.begin()
        assert text(await processes.go_on(1, round, "yes")) == "done"
        async with asyncio.timeout(30):
            await ended.wait()
    assert done == ["reserve", "commit", "abandoned after CancelledError"]


class Busy(MemoryStateStore):
    """Creates tasks of its own, as a driver of a database does."""

    async def get(self, key: str) -> bytes | None:
        return await asyncio.create_task(super().get(key))


async def test_tasks_that_a_store_creates_do_not_confuse_a_replay() -> None:
    """A step that is recorded asks the store for nothing; the branches after it keep their names nevertheless."""

    async def tool(ctx: Context) -> str:
        await ctx.step("before", lambda: "B")
        left, right = await asyncio.gather(ctx.sample("left?"), ctx.sample("right?"))
        return left.text + right.text

    async with cluster(tool, state_store=Busy()) as processes:
        round = await processes.begin()
        answers = {key: "L" if words == "left?" else "R" for key, words in prompts(round).items()}
        assert text(await processes.go_on(1, round, answers)) == "LR"


async def test_a_retry_that_comes_home_behind_drops_the_old_copy() -> None:
    """A, B, A: the copy that A parked is a round behind; the call is run again there."""
    done: list[str] = []

    async def tool(ctx: Context) -> str:
        done.append("run")
        try:
            return (await ctx.sample("a?")).text + (await ctx.sample("b?")).text + (await ctx.sample("c?")).text
        except BaseException as error:
            done.append(type(error).__name__)
            raise

    async with cluster(tool) as processes:
        round = await processes.begin(0)
        round = await processes.go_on(1, round, "A")
        round = await processes.go_on(0, round, "B")
        assert text(await processes.go_on(0, round, "C")) == "ABC"
        await asyncio.sleep(0)
        assert sorted(done) == ["CancelledError", "run", "run", "run"]


async def test_asks_and_progress_raise_in_a_copy_left_behind() -> None:
    """Nothing leaves a call that has ended."""
    raised, ended = list[str](), asyncio.Event()

    async def tool(ctx: Context) -> str:
        try:
            await ctx.sample("a?")
        finally:
            for work in (ctx.sample("again?"), ctx.progress(1.0), ctx.step("s", list[int])):
                try:
                    await work
                except BaseException as error:
                    raised.append(type(error).__name__)
            ended.set()
        return "never"

    async with cluster(tool, parked_for=0.02) as processes:
        await processes.begin()
        async with asyncio.timeout(30):
            await ended.wait()
    assert raised == ["CallAbandoned"] * 3


async def test_another_version_of_the_handler_refuses() -> None:
    """Deployed between rounds: never half-replayed."""

    async def old(ctx: Context) -> str:
        return (await ctx.sample("a?")).text

    async def new(ctx: Context) -> str:
        return (await ctx.sample("a?")).text + "!"

    async with cluster(old) as before, cluster(new) as after:
        round = await before.begin()
        assert await after.refused(0, round) == make_refusal().message


async def test_the_author_may_say_what_version_it_is() -> None:
    """``code_version`` instead of the digest: a harmless change need not end every call."""

    async def old(ctx: Context) -> str:
        return (await ctx.sample("a?")).text

    async def new(ctx: Context) -> str:
        return (await ctx.sample("a?")).text + "!"

    async with cluster(old, code_version="1") as before, cluster(new, code_version="1") as after:
        assert text(await after.go_on(0, await before.begin(), "yes")) == "yes!"
    async with cluster(old, code_version="1") as before, cluster(old, code_version="2") as after:
        assert await after.refused(0, await before.begin()) == make_refusal().message


async def test_without_shared_keys_nothing_goes_on_elsewhere() -> None:
    """One process alone puts no journal into the state: it is short, and of no use to others."""

    async def tool(ctx: Context) -> str:
        await ctx.sample("x" * 5_000)
        return (await ctx.sample("b?")).text

    server = Server("catalogue")
    server.tool(tool)
    async with raw_client(server) as client:
        round = await client.call("tool")
        (key,) = round["inputRequests"]
        round = await client.retry(round, "tool", {key: said("y" * 5_000)})
        assert len(round["requestState"]) < 200


async def test_a_call_that_may_run_once_only_is_not_replayed_without_a_store() -> None:
    """Nobody could promise that it does not go on in two places."""

    async def tool(ctx: Context) -> str:
        return (await ctx.sample("redeem?")).text

    async with cluster(tool, once=True) as processes:
        round = await processes.begin()
        assert await processes.refused(1, round) == outcome_unknown().message
        assert text(await processes.go_on(0, round, "yes")) == "yes"


async def test_with_a_store_one_process_alone_goes_on() -> None:
    """The same state at three processes: one body goes on, whichever was first."""
    ended: list[str] = []

    async def tool(ctx: Context) -> str:
        answer = (await ctx.sample("redeem?")).text
        ended.append(answer)
        return answer

    async with cluster(tool, 3, once=True, state_store=MemoryStateStore()) as processes:
        round = await processes.begin()
        (key,) = round["inputRequests"]
        replies = await asyncio.gather(
            *(
                client.reply(
                    client.modern(
                        "tools/call",
                        name="tool",
                        arguments={},
                        requestState=round["requestState"],
                        inputResponses={key: said(str(n))},
                    )
                )
                for n, client in enumerate(processes.clients)
            )
        )
    assert len(ended) == 1
    assert sorted("result" in reply for reply in replies) == [False, False, True]
    assert {(reply["error"]["code"], reply["error"]["message"]) for reply in replies if "error" in reply} == {
        (OutcomeUnknown.CODE, outcome_unknown().message)
    }


async def test_the_run_that_has_the_claim_may_be_asked_again() -> None:
    """Its client lost the reply: the same process repeats it."""

    async def tool(ctx: Context) -> str:
        return (await ctx.sample("redeem?")).text

    async with cluster(tool, once=True, state_store=MemoryStateStore()) as processes:
        round = await processes.begin()
        replies = [text(await processes.go_on(1, round, "yes")) for _ in range(2)]
    assert replies == ["yes", "yes"]


async def test_the_same_state_again_joins_the_replay() -> None:
    """The body that another process began is not begun once more there."""
    runs: list[int] = []

    async def tool(ctx: Context) -> str:
        runs.append(1)
        return (await ctx.sample("a?")).text

    async with cluster(tool) as processes:
        round = await processes.begin()
        assert [text(await processes.go_on(1, round, words)) for words in ("yes", "other")] == ["yes", "yes"]
    assert len(runs) == 2


async def test_a_long_journal_stays_in_the_store() -> None:
    """Only its key travels, and any process finds it."""
    store = MemoryStateStore()
    async with cluster(hungry(8), state_store=store) as processes:
        round = await processes.begin()
        for n in range(8):
            round = await processes.go_on(n % 2, round, noise(20_000 + n))
            if "requestState" in round:
                assert len(round["requestState"]) < 45_000
        assert len(store) > 0
    assert text(round) == str(sum(len(noise(20_000 + n)) for n in range(8)))


async def test_a_journal_nobody_can_carry_keeps_the_call_at_home(caplog: pytest.LogCaptureFixture) -> None:
    """Without a store it goes on where it is parked, and nowhere else; the log says what to do."""
    async with cluster(hungry(3)) as processes:
        round = await processes.begin()
        round = await processes.go_on(0, round, noise(400_000))
        round = await processes.go_on(0, round, noise(400_001))
        assert len(round["requestState"]) < 300
        assert await processes.refused(1, round) == make_refusal().message
        result = await processes.go_on(0, round, "end")
    assert text(result) == str(len(noise(400_000)) + len(noise(400_001)) + 3)
    assert "state_store=" in caplog.text


async def test_a_journal_that_the_store_lost_is_refused() -> None:
    """A store may forget; the client hears the one message."""
    store = MemoryStateStore(limit=1)
    async with cluster(hungry(4), state_store=store) as processes:
        round = await processes.begin()
        for n in range(3):
            round = await processes.go_on(0, round, noise(30_000 + n))
        for key in list(store._values):
            await store.delete(key)
        assert await processes.refused(1, round) == make_refusal().message


async def test_a_call_goes_on_here_while_the_store_fails() -> None:
    """Its journal is too large for its state; other processes refuse it, without the words of the store."""

    class Broken(MemoryStateStore):
        async def put(self, key: str, value: bytes, ttl: float) -> None:
            raise OSError("redis://secret@host is down")

    async with cluster(hungry(4), state_store=Broken()) as processes:
        round = await processes.begin()
        for _ in range(2):
            round = await processes.go_on(0, round, noise(41_000))
        assert "secret" not in await processes.refused(1, round)
        round = await processes.go_on(0, round, "yes")
        assert text(await processes.go_on(0, round, "yes")) == str(2 * len(noise(41_000)) + 6)


async def test_a_call_whose_store_fails_may_be_made_again() -> None:
    """A process that would go on with the call cannot note that it does; the error has a code of its own."""

    class Broken(MemoryStateStore):
        async def put(self, key: str, value: bytes, ttl: float) -> None:
            raise OSError("redis://secret@host is down")

    async with cluster(hungry(2), state_store=Broken()) as processes:
        round = await processes.begin()
        client = processes.clients[1]
        message = client.modern("tools/call", name="tool", arguments={}, requestState=round["requestState"])
        error = (await client.reply(message))["error"]
    assert error["code"] == TemporarilyUnavailable.CODE
    assert "secret" not in error["message"]


async def test_prompts_and_resources_are_replayed_as_well() -> None:
    """All three methods that may ask go on elsewhere."""
    servers = [Server("catalogue", keys=[KEY]) for _ in range(2)]
    for server in servers:

        @server.prompt
        async def brief(ctx: Context) -> str:
            return (await ctx.sample("brief?")).text

        @server.resource("catalogue://{product}")
        async def product(product: str, ctx: Context) -> str:
            return (await ctx.sample(product)).text

    async with raw_client(servers[0]) as one, raw_client(servers[1]) as two:
        for method, params, seen in (
            ("prompts/get", {"name": "brief"}, lambda r: r["messages"][0]["content"]["text"]),
            ("resources/read", {"uri": "catalogue://hat"}, lambda r: r["contents"][0]["text"]),
        ):
            round = (await one.reply(one.modern(method, **params)))["result"]
            (key,) = round["inputRequests"]
            retry = {"requestState": round["requestState"], "inputResponses": {key: said("fine")}}
            assert seen((await two.reply(two.modern(method, **params, **retry)))["result"]) == "fine"


async def test_a_principal_has_its_share_of_the_table() -> None:
    """One client that abandons rounds by the hundred does not push out the others'."""

    async def tool(ctx: Context) -> str:
        return (await ctx.sample("a?")).text

    server = Server("catalogue", max_parked=8)
    server.tool(name="tool")(tool)
    async with raw_client(server, principal="greedy") as greedy, raw_client(server, principal="modest") as modest:
        kept = await modest.call("tool")
        (key,) = kept["inputRequests"]
        for _ in range(20):
            await greedy.call("tool")
        assert server._service.rounds.parked == 3
        assert text(await modest.retry(kept, "tool", {key: said("still here")})) == "still here"
