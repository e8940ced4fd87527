"""A server whose handlers ask much, each written once; served over every transport, at every revision.

Run as a program it serves over stdio; with ``REPLICAS_ENGINE`` in the environment, the address of a Redis, it is one of
several replicas, and serves the port it is given.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any, Literal, TypedDict

from antiphon import Context, Server
from antiphon.server import RedisCluster

__all__ = ["TURNS", "handlers", "server"]

TURNS = 25
"""More than any peer's limit on rounds."""

runs: dict[str, int] = {}


class Choice(TypedDict):
    """A form with one member."""

    colour: Literal["red", "blue"]


def _began(name: str) -> int:
    runs[name] = runs.get(name, 0) + 1
    return runs[name]


async def chain(run: str, ctx: Context) -> str:
    """Ask 25 times in a row, each ask with the answer before, then twice at once."""
    began = _began(run)
    last = "start"
    for turn in range(TURNS):
        last = (await ctx.sample(f"{turn}: {last}", system_prompt=f"turn {turn}", max_tokens=20)).text
    left, right = await asyncio.gather(ctx.sample(f"left {last}"), ctx.sample(f"right {last}"))
    return f"{left.text} | {right.text} | body ran {began} time(s)"


async def form(run: str, ctx: Context) -> str:
    """Sample, ask the user, and sample again."""
    began = _began(run)
    idea = (await ctx.sample("an idea?")).text
    choice = await ctx.elicit(f"Which colour for {idea}?", Choice)
    told = await ctx.sample(f"{idea} in {choice.value['colour'] if choice.value else 'no colour'}")
    return f"{told.text} | body ran {began} time(s)"


async def loop(run: str, ctx: Context) -> str:
    """Let the model use a tool turn after turn."""
    began = _began(run)
    used: list[int] = []

    def count(step: int) -> str:
        """Count one step.

        Args:
            step: Which.
        """
        used.append(step)
        return f"counted {step}"

    answer = await ctx.sample("count", tools=[count], max_steps=TURNS + 1)
    return f"{answer.text} after {len(used)} uses | body ran {began} time(s)"


def handlers(**options: Any) -> Server:
    """Make one, with options of ``Server`` besides."""
    made, mounted = Server("one handler", **options), Server("mounted")
    for handler in (chain, form, loop):
        made.tool(handler)
        mounted.tool(handler)
    made.mount(mounted, prefix="mounted")
    return made


server = handlers()


def main() -> None:
    """Serve stdio; or, as one of several replicas, the port that is given."""
    engine = os.environ.get("REPLICAS_ENGINE")
    if engine is None:
        server.run()
    else:
        handlers(cluster=RedisCluster(engine)).run("http", port=int(sys.argv[1]))


if __name__ == "__main__":
    main()
