"""A program that makes replicas which are killed: servers that share an engine, each on a port, until it dies.

    python -m tests.support.killed_replicas ENGINE LOG

ENGINE is the address of a Redis or a PostgreSQL. Reads a port per line and forks a child that serves on it, since
everything is imported already; writes the child's process id. A child that was killed is waited for when the next line
comes. Handlers write to LOG what they did.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module

from antiphon import Context, Server
from antiphon.server import PostgresCluster, RedisCluster
from antiphon.types import ToolAnnotations

__all__ = ["make"]


def make(engine: str, log: int) -> Server:
    """Make a replica. ``log``: what handlers write to; a line is written whole."""
    cluster = RedisCluster(engine) if engine.startswith("redis") else PostgresCluster(engine)
    server = Server("killed", keys=[b"k" * 32], cluster=cluster, tool_rate=None)

    def note(*words: object) -> None:
        os.write(log, (" ".join(map(str, words)) + "\n").encode())

    async def take(ctx: Context, number: int, name: str) -> str:
        def run() -> str:
            value = os.urandom(4).hex()
            note("ran", number, name, value)
            return value

        value = await ctx.step(name, run)
        # Whoever comes here has a step that is recorded: it must never run again.
        note("got", number, name, value)
        return value

    @server.tool
    async def order(number: int, ctx: Context) -> str:
        """Ask, take a step, ask, and take another."""
        note("body", number, "order", os.getpid())
        first = (await ctx.sample(f"{number}/one")).text
        a = await take(ctx, number, "a")
        await ctx.progress(1, 2)
        second = (await ctx.sample(f"{number}/two")).text
        return f"{first} {a} {second} {await take(ctx, number, 'b')}"

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True))
    async def look_up(number: int, ctx: Context) -> str:
        """Ask twice."""
        note("body", number, "look_up", os.getpid())
        first = (await ctx.sample(f"{number}/one")).text
        return f"{first} {(await ctx.sample(f'{number}/two')).text}"

    @server.tool
    async def plain(number: int, ctx: Context) -> str:
        """Ask once; nothing says that it may run twice."""
        note("body", number, "plain", os.getpid())
        return (await ctx.sample(f"{number}/one")).text

    @server.tool
    def where() -> int:
        """Tell which process this is."""
        return os.getpid()

    return server


def main() -> None:
    """Fork replicas."""
    engine, log = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for line in sys.stdin:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            make(engine, log).run("http", port=int(line))
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    # What a replica needs is imported before it is forked.
    for name in (
        "asyncpg",
        "redis.asyncio",
        "uvicorn",
        "cryptography.hazmat.primitives.ciphers.aead",
        "antiphon.server.network",
        "antiphon.server.replicas",
        "antiphon.transports.http.server.replicas.membership",
    ):
        import_module(name)

    main()
