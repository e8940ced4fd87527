"""One of several processes that serve the same tool with the same key and state store.

Usage: stored_replica.py PORT FILE PLACE. Each side effect is a line appended to the file. Between two steps, the first
process that comes there stands still for ever.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from antiphon import Context, Server, SqlStateStore

server = Server("replicas", keys=[b"k" * 32], state_store=SqlStateStore(sys.argv[3]))


def note(what: str) -> None:
    """Append a line; one write, so that lines of several processes do not mix."""
    with Path(sys.argv[2]).open("a", encoding="utf-8") as file:
        file.write(f"{what} {os.getpid()}\n")


def is_first() -> bool:
    """Tell whether no process was here before."""
    try:
        Path(f"{sys.argv[2]}.here").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@server.tool
async def order(ctx: Context) -> str:
    """Ask, then pay, then send."""
    wish = (await ctx.sample("A wish?")).text
    await ctx.step("pay", lambda: note("pay"))
    if is_first():
        note("stuck")
        await asyncio.Event().wait()
    await ctx.step("send", lambda: note("send"))
    return wish


@server.tool(once=True)
async def once(ctx: Context) -> str:
    """Ask, and pay: at most once, whoever retries."""
    wish = (await ctx.sample("A wish?")).text
    await ctx.step("pay", lambda: note("pay"))
    return wish


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1]))
