"""Samples of several turns go on in other processes, and do not do twice what was done."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from antiphon import Context, CreateMessageRequestParams
from tests.support.cluster import Cluster, cluster
from tests.support.raw_client import said, text

Json = dict[str, Any]


def tool_use(name: str, *ids: str) -> Json:
    """Make the answer of a model that wants tools."""
    uses = [{"type": "tool_use", "id": id, "name": name, "input": {}} for id in ids]
    return {"role": "assistant", "content": uses, "model": "m", "stopReason": "toolUse"}


async def follow(processes: Cluster, round: Mapping[str, Any], *answers: Json) -> tuple[Json, list[Json]]:
    """Answer round after round, each at another process; return the result and what was asked."""
    asked: list[Json] = []
    for turn, answer in enumerate(answers, 1):
        asked += [ask["params"] for ask in round["inputRequests"].values()]
        given = dict.fromkeys(round["inputRequests"], answer)
        at = turn % len(processes.clients)
        round = await processes.clients[at].retry(round, "tool", given)
    return dict(round), asked


def results(params: Json) -> list[str]:
    """Return the texts of the results a request ends with."""
    return [block["content"][0]["text"] for block in params["messages"][-1]["content"]]


async def test_tools_run_once_wherever_the_loop_goes_on() -> None:
    """What they gave is known to a replay, also where they would give something else now."""
    runs = count(1)

    async def tool(ctx: Context) -> str:
        async def lottery() -> int:
            return next(runs)

        return (await ctx.sample("q", tools=[lottery])).text

    async with cluster(tool, 3) as processes:
        turns = [tool_use("lottery", "a", "b"), tool_use("lottery", "c"), said("Done.")]
        result, asked = await follow(processes, await processes.begin(), *turns)
    assert text(result) == "Done."
    assert [results(one) for one in asked[1:]] == [["1", "2"], ["3"]]
    assert next(runs) == 4


async def test_tools_that_ask_keep_what_they_gave() -> None:
    """They are run again over their answers; what depends on them is asked as before."""
    runs = count(1)

    async def tool(ctx: Context) -> str:
        async def advice() -> str:
            return f"{(await ctx.sample('which?')).text} {next(runs)}"

        return (await ctx.sample("q", tools=[advice])).text

    async with cluster(tool) as processes:
        turns = [tool_use("advice", "a"), said("red"), tool_use("advice", "b"), said("blue"), said("Done.")]
        result, asked = await follow(processes, await processes.begin(), *turns)
    assert text(result) == "Done."
    assert results(asked[2]) == ["red 1"]
    assert results({"messages": asked[4]["messages"][:3]}) == ["red 1"]
    assert results(asked[4])[0].startswith("blue ")


async def test_a_repair_goes_on_anywhere() -> None:
    """The second answer is read where it arrives."""

    async def tool(ctx: Context) -> str:
        return str((await ctx.sample("How many?", result_type=int)).value)

    async with cluster(tool) as processes:
        result, asked = await follow(processes, await processes.begin(), said("some"), said("5"))
    assert (text(result), len(asked)) == ("5", 2)


async def test_the_servers_own_model_is_asked_once() -> None:
    """Its answer is a step: another process does not pay for it again, nor get another one."""
    answers = count(1)

    async def own(params: CreateMessageRequestParams) -> str:
        return f"answer {next(answers)}"

    async def tool(ctx: Context) -> str:
        sample = await ctx.sample("q", tools=[len_of])
        roots = await ctx.list_roots()
        return f"{sample.text} by the {sample.by}, {len(roots)} roots"

    def len_of(words: str) -> int:
        return len(words)

    async with cluster(tool, sampling_fallback=own) as processes:
        capabilities = {"roots": {}}
        round = await processes.begin(capabilities=capabilities)
        given = {key: {"roots": []} for key in round["inputRequests"]}
        result = await processes.clients[1].retry(round, "tool", given, capabilities=capabilities)
    assert text(result) == "answer 1 by the server, 0 roots"
    assert next(answers) == 2
