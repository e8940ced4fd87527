"""A call that goes on in another process: run again over its journal, with the same result wherever the retry lands."""

from __future__ import annotations

import asyncio
import gc

import pytest

from antiphon import Context
from antiphon.errors import CallTimeout
from antiphon.server.calls.replayed_call import JournalledCall
from tests.support.cluster import cluster, prompts
from tests.support.raw_client import said, text


@pytest.mark.parametrize("route", [(0, 0, 0), (0, 1, 0), (0, 1, 2), (0, 1, 1), (0, 0, 1)])
async def test_a_chain_of_asks_goes_on_anywhere(route: tuple[int, ...]) -> None:
    """Each answer is used once, at its place, whichever processes the retries come to."""

    async def tool(ctx: Context) -> str:
        first = await ctx.sample("first?")
        second = await ctx.sample(f"second after {first.text}?")
        third = await ctx.sample(f"third after {second.text}?")
        return f"{first.text}{second.text}{third.text}"

    async with cluster(tool, 3) as processes:
        round = await processes.begin()
        for at, answer in zip(route, "abc", strict=True):
            round = await processes.go_on(at, round, answer)
    assert text(round) == "abc"


async def test_a_replay_asks_nothing_twice() -> None:
    """What was answered is not asked again."""
    asked: list[str] = []

    async def tool(ctx: Context) -> str:
        return "".join([(await ctx.sample(f"{n}?")).text for n in range(6)])

    async with cluster(tool) as processes:
        round = await processes.begin()
        for n in range(6):
            asked += prompts(round).values()
            round = await processes.go_on((n + 1) % 2, round, str(n))
    assert (asked, text(round)) == ([f"{n}?" for n in range(6)], "012345")


async def test_branches_that_ask_the_same_get_their_own_answers() -> None:
    """Two branches ask "ok?" in an order that differs from run to run; lanes tell them apart."""
    delays = iter([[0, 12], [12, 0]])

    async def tool(ctx: Context) -> str:
        order = next(delays)

        async def branch(passes: int) -> str:
            for _ in range(passes):
                await asyncio.sleep(0)
            return (await ctx.sample("ok?")).text

        x, y = await asyncio.gather(branch(order[0]), branch(order[1]))
        return f"x={x} y={y}"

    async with cluster(tool) as processes:
        round = await processes.begin()
        (key,) = round["inputRequests"]
        later = await processes.go_on(0, round, {key: "for x"})
        assert text(await processes.go_on(1, later, "for y")) == "x=for x y=for y"


async def test_two_in_a_gather_share_a_round_and_replay() -> None:
    """Both answers are delivered to the branch that asked."""

    async def tool(ctx: Context) -> str:
        both = await asyncio.gather(ctx.sample("a?"), ctx.sample("b?"))
        return "".join(one.text for one in both) + (await ctx.sample("c?")).text

    async with cluster(tool, 3) as processes:
        round = await processes.begin()
        answers = {key: words[0].upper() for key, words in prompts(round).items()}
        assert len(answers) == 2
        round = await processes.go_on(1, round, answers)
        assert text(await processes.go_on(2, round, "C")) == "ABC"


async def test_a_missing_answer_is_asked_again_elsewhere() -> None:
    """Half an answer is kept; the rest is asked for under the same key."""

    async def tool(ctx: Context) -> str:
        both = await asyncio.gather(ctx.sample("a?"), ctx.sample("b?"))
        return "".join(one.text for one in both)

    async with cluster(tool) as processes:
        round = await processes.begin()
        first, second = round["inputRequests"]
        again = await processes.go_on(1, round, {first: "A"})
        assert list(again["inputRequests"]) == [second]
        assert text(await processes.go_on(1, again, {second: "B"})) == "AB"


async def test_an_answer_that_cannot_be_read_is_refused_elsewhere_too() -> None:
    """The place is named, and a good answer may follow."""

    async def tool(ctx: Context) -> str:
        return (await ctx.sample("a?")).text

    async with cluster(tool) as processes:
        round = await processes.begin()
        (key,) = round["inputRequests"]
        assert f"inputResponses.{key}" in await processes.refused(1, round, {key: {"role": 7}})
        assert text(await processes.go_on(1, round, "good")) == "good"


async def test_keys_of_the_author_find_their_answers() -> None:
    """A key= says which ask it is, wherever it comes from."""

    async def tool(ctx: Context) -> str:
        asks = [asyncio.Task(ctx.sample("same?", key=key)) for key in ("one", "two")]
        return "".join([(await ask).text for ask in asks])

    async with cluster(tool) as processes:
        round = await processes.begin()
        assert text(await processes.go_on(1, round, {"one": "1", "two": "2"})) == "12"


async def test_a_task_that_no_factory_made_needs_a_key() -> None:
    """Its place cannot be known, and answers are never guessed."""

    async def tool(ctx: Context) -> str:
        return (await asyncio.Task(ctx.sample("who?"))).text

    async with cluster(tool) as processes:
        result = await processes.begin()
    assert result["isError"] and "give the ask a key=" in text(result)


async def test_an_answer_that_came_with_the_call_is_kept() -> None:
    """Answers under the author's key need no state; a replay has them all the same."""

    async def tool(ctx: Context) -> str:
        choice = await ctx.sample("which?", key="choice")
        return choice.text + (await ctx.sample("sure?")).text

    async with cluster(tool) as processes:
        round = await processes.begin(inputResponses={"choice": said("red ")})
        assert text(await processes.go_on(1, round, "yes")) == "red yes"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a replay little time to come to what was answered."""
    monkeypatch.setattr("antiphon.server.calls.replayed_call.CATCH_UP", 0.05)


@pytest.mark.usefixtures("impatient")
async def test_another_ask_than_before_fails_and_says_which() -> None:
    """A request that holds a clock: never a mixed-up answer, never an endless question."""
    numbers = iter(range(100))

    async def tool(ctx: Context) -> str:
        return (await ctx.sample(f"run {next(numbers)}?")).text

    async with cluster(tool) as processes:
        message = await processes.diverges(1, await processes.begin())
    assert "the handler asks for 1/sampling/createMessage/" in message
    assert "did not ask for what was answered before: 1/sampling/createMessage/" in message


@pytest.mark.usefixtures("impatient")
async def test_a_handler_that_catches_the_divergence_fails_all_the_same() -> None:
    """What it makes of the wrong branch is worth nothing."""
    numbers = iter(range(100))

    async def tool(ctx: Context) -> str:
        try:
            return (await ctx.sample(f"run {next(numbers)}?")).text
        except Exception:
            return "never mind"

    async with cluster(tool) as processes:
        assert "answered before" in await processes.diverges(1, await processes.begin())


async def test_a_key_used_for_another_ask_fails_at_once() -> None:
    """With a key= there is no need to wait."""
    numbers = iter(range(100))

    async def tool(ctx: Context) -> str:
        return (await ctx.sample(f"run {next(numbers)}?", key="one")).text

    async with cluster(tool) as processes:
        assert "key 'one'" in await processes.diverges(1, await processes.begin())


async def test_a_slow_branch_is_no_divergence() -> None:
    """While a branch has not come to its answer, the others' new asks wait."""
    slow = asyncio.Event()
    runs = iter(range(100))

    async def tool(ctx: Context) -> str:
        if next(runs) == 0:
            slow.set()

        async def late() -> str:
            await slow.wait()
            return (await ctx.sample("late?")).text

        async def early() -> str:
            first = (await ctx.sample("early?")).text
            asyncio.get_running_loop().call_later(0.05, slow.set)
            return first + (await ctx.sample("next?")).text

        return "".join(await asyncio.gather(late(), early()))

    async with cluster(tool) as processes:
        round = await processes.begin()
        answers = {key: words[0].upper() for key, words in prompts(round).items()}
        slow.clear()
        round = await processes.go_on(1, round, answers)
        assert text(await processes.go_on(1, round, "N")) == "LEN"


@pytest.mark.parametrize("at", [0, 1])
async def test_an_ask_that_ran_out_of_time_did_so_everywhere(at: int) -> None:
    """The deadline of an ask travels with it: both processes take the same branch."""

    async def tool(ctx: Context) -> str:
        try:
            return (await ctx.sample("quick?", timeout=0.02)).text
        except CallTimeout:
            return "too late, " + (await ctx.sample("slow?")).text

    async with cluster(tool) as processes:
        round = await processes.begin()
        await asyncio.sleep(0.05)
        again = await processes.go_on(at, round, "yes")
        assert list(prompts(again).values()) == ["slow?"]
        assert text(await processes.go_on(1 - at, again, "fine")) == "too late, fine"


async def test_a_withdrawn_ask_is_withdrawn_again() -> None:
    """The author's own timeout fires again in a replay; the answer that was not waited for is not missed."""

    async def tool(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.02):
                await ctx.sample("quick?")
        except TimeoutError:
            return "gave up, " + (await ctx.sample("slow?")).text
        return "no"

    async with cluster(tool) as processes:
        round = await processes.begin()
        await asyncio.sleep(0.05)
        again = await processes.go_on(0, round, {})
        assert text(await processes.go_on(1, again, "fine")) == "gave up, fine"


async def test_a_call_that_has_ended_is_no_garbage() -> None:
    """It is freed at once: in a busy server the collector would else be a twentieth of all work."""

    async def tool(ctx: Context) -> str:
        return (await ctx.sample("?")).text

    async with cluster(tool) as processes:
        gc.collect()
        gc.disable()
        try:
            before = alive()
            for _ in range(3):
                await processes.go_on(0, await processes.begin(), "a")
            assert alive() <= before
        finally:
            gc.enable()


def alive() -> int:
    """Count the calls there are."""
    return sum(type(each) is JournalledCall for each in gc.get_objects())
