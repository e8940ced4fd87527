"""One of several processes that serve the same tool with the same key, as behind a load balancer.

Usage: replica.py PORT FILE. Each side effect, and each run of the body, is a line appended to the file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from antiphon import Context, Server

SAMPLES = 8

server = Server("replicas", keys=[b"k" * 32])


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


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1]))
