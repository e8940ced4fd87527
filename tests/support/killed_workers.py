"""A program that makes servers of tasks which are killed: workers over one store, each on a port, until it dies.

    python -m tests.support.killed_workers STORE LOG

Reads a port per line and forks a child that serves on it, since everything is imported already; writes the child's
process id. A child that was killed is waited for when the next line comes. Handlers write to LOG what they did.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module

from antiphon import Context, Server
from antiphon.server import SqlTaskStore, TaskOptions

__all__ = ["LEASE", "forge", "make"]

LEASE = 2.0


def make(store: str, log: int) -> Server:
    """Make a worker. ``log``: what handlers write to; a line is written whole."""
    options = TaskOptions(store=SqlTaskStore(store), lease=LEASE, unload_after=1.0, poll_every=0.1)
    server = Server("killed", keys=[b"k" * 32], tasks=options, tool_rate=None)

    @server.tool(task="required")
    async def work(number: int, ctx: Context) -> str:
        """Take three steps and ask four questions, two of them at the same time as a step."""

        async def step(name: str) -> str:
            def run() -> str:
                value = os.urandom(4).hex()
                os.write(log, f"{number} {name} ran {value}\n".encode())
                return value

            value = await ctx.step(name, run)
            # Whoever comes here has a step that is recorded: it must never run again.
            os.write(log, f"{number} {name} got {value}\n".encode())
            return value

        async def ask(name: str) -> str:
            return (await ctx.sample(f"{number}/{name}")).text

        before = [await step("a"), await ask("x")]
        await ctx.progress(1, 3, "halfway")
        between = await asyncio.gather(ask("l"), ask("r"), step("b"))
        return json.dumps([*before, *between, await step("c"), await ask("y")])

    return server


def forge(make: Callable[[str, int], Server], imports: Iterable[str]) -> None:
    """Fork a child for each port that is read, until the end of what comes in.

    ``make``: makes the child's server from the program's first argument and the open LOG. ``imports``: what such a
    server needs, imported before anything is forked.
    """
    for name in imports:
        import_module(name)
    shared, log = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for line in sys.stdin:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            make(shared, log).run("http", port=int(line))
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    forge(make, ("uvicorn", "sqlalchemy.dialects.sqlite", "antiphon.server.serving.network", "antiphon.sql.runner"))
