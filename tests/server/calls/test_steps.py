"""Steps: what a handler does once, though it may be run again."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from antiphon import Context, Server
from antiphon.testing import connected
from tests.support.cluster import KEY, cluster, prompts
from tests.support.raw_client import raw_client, text


async def test_steps_are_taken_once() -> None:
    """The result of a step is known to a replay; its function is not called."""
    done: list[str] = []

    async def tool(ctx: Context) -> str:
        async def reserve() -> dict[str, int]:
            done.append("reserve")
            return {"order": 7}

        order = await ctx.step("reserve", reserve)
        answer = await ctx.sample("confirm?")
        await ctx.step("commit", lambda: done.append("commit"))
        await ctx.sample("thanks?")
        return f"{order['order']} {answer.text}"

    async with cluster(tool, 3) as processes:
        round = await processes.begin()
        round = await processes.go_on(1, round, "yes")
        assert text(await processes.go_on(2, round, "bye")) == "7 yes"
    assert done == ["reserve", "commit"]


async def test_without_a_step_effects_are_repeated() -> None:
    """Why there are steps."""
    done: list[str] = []

    async def tool(ctx: Context) -> str:
        done.append("mail")
        return (await ctx.sample("ok?")).text

    async with cluster(tool) as processes:
        await processes.go_on(1, await processes.begin(), "yes")
    assert done == ["mail", "mail"]


async def test_an_idempotency_key_is_the_same_in_every_try() -> None:
    """A step that failed is tried again in a replay, under the same key."""
    keys: list[str] = []

    async def tool(ctx: Context) -> str:
        def pay(idempotency_key: str) -> None:
            keys.append(idempotency_key)
            if len(keys) == 1:
                raise OSError("the bank is closed")

        try:
            await ctx.step("pay", pay)
        except OSError:
            await ctx.sample("wait?")
        return "paid"

    async with cluster(tool) as processes:
        assert text(await processes.go_on(1, await processes.begin(), "yes")) == "paid"
    assert len(keys) == 2 and keys[0] == keys[1]


async def test_the_clock_and_chance_belong_in_steps() -> None:
    """An ask that depends on them is the same ask when the handler is run again."""

    async def tool(ctx: Context) -> str:
        now: float = await ctx.step("now", time.time)
        luck: float = await ctx.step("luck", random.random)
        return f"{now} {luck} " + (await ctx.sample(f"{now} {luck}?")).text

    async with cluster(tool) as processes:
        round = await processes.begin()
        (asked,) = prompts(round).values()
        assert text(await processes.go_on(1, round, "yes")) == asked.replace("?", " yes")


async def test_a_step_waits_for_a_live_request() -> None:
    """A step that was taken while no request is live could be lost; it waits for the retry instead."""
    done: list[str] = []

    async def tool(ctx: Context) -> str:
        async def background() -> None:
            for _ in range(40):
                await asyncio.sleep(0)
            await ctx.step("late", lambda: done.append("late"))

        late = asyncio.create_task(background())
        answer = (await ctx.sample("a?")).text
        await late
        return answer + (await ctx.sample("b?")).text

    async with cluster(tool) as processes:
        round = await processes.begin()
        for _ in range(100):
            await asyncio.sleep(0)
        assert done == []
        round = await processes.go_on(1, round, "A")
        assert done == ["late"]
        assert text(await processes.go_on(0, round, "B")) == "AB"
    assert done == ["late"]


@pytest.mark.parametrize("keys", [(), (KEY,)])
async def test_a_step_may_not_ask(keys: tuple[bytes, ...]) -> None:
    """No round is sent while a step is taken, so its ask would wait for ever; it raises instead, everywhere."""
    server = Server("catalogue", keys=keys)

    @server.tool
    async def tool(ctx: Context) -> str:
        return await ctx.step("ask", lambda: ask(ctx))

    async def ask(ctx: Context) -> str:
        return (await ctx.sample("a?")).text

    async with raw_client(server) as client:
        result = await client.call("tool")
    assert result["isError"]
    assert "within the step 'ask'" in text(result)


async def test_a_step_is_given_a_function_and_not_its_result() -> None:
    """What was called already has happened already."""
    server = Server("shop", error_details=True)

    @server.tool
    async def order(ctx: Context) -> None:
        wrong: Any = 17
        await ctx.step("order", wrong)

    async with connected(server) as client:
        assert "The step 'order' was given a int: give the function itself" in (await client.call_tool("order")).text
