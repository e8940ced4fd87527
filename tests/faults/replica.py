"""One of several processes that serve the same tool with the same key, as behind a load balancer.

Usage: replica.py PORT FILE [STORE]. Each side effect, and each run of the body, is a line appended to the file. With
a STORE, the path of a database, the processes share it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from antiphon import Context, Server, SqlStateStore
from antiphon.types import ToolAnnotations

SAMPLES = 8
HANGS = ".hangs"
"""Ending of a file beside the notes: the process that finds it takes it away, and goes no further."""

store = SqlStateStore(sys.argv[3]) if len(sys.argv) > 3 else None
server = Server("replicas", keys=[b"k" * 32], state_store=store)


def note(what: str) -> None:
    """Append a line; one write, so that lines of several processes do not mix."""
    with Path(sys.argv[2]).open("a", encoding="utf-8") as file:
        file.write(f"{what} {os.getpid()}\n")


@server.tool
async def order(ctx: Context) -> str:
    """Reserve, ask again and again, and pay: every effect a step."""
    note("run")
    answers: list[str] = []
    for turn in range(SAMPLES):
        answers.append((await ctx.sample(f"{turn}?")).text)
        await ctx.step(f"effect-{turn}", lambda turn=turn: note(f"effect-{turn}"))
    return ",".join(answers)


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
async def pay(ctx: Context) -> str:
    """Ask, pay in a step, and say so in another; the process may hang in between."""
    note("run")
    answer = (await ctx.sample("pay?")).text
    receipt: str = await ctx.step("pay", paid)
    if take_away(sys.argv[2] + HANGS):
        note("hangs")
        await asyncio.Event().wait()
    await ctx.step("told", lambda: note("told"))
    return f"{answer} {receipt}"


def paid(idempotency_key: str) -> str:
    """Pay, and return a receipt."""
    note(f"paid:{idempotency_key}")
    return f"receipt of {os.getpid()}"


def take_away(name: str) -> bool:
    """Remove a file; tell whether it was there."""
    try:
        Path(name).unlink()
    except FileNotFoundError:
        return False
    return True


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1]))
