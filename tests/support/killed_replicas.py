"""A program that makes replicas which are killed: servers that share an engine, each on a port, until it dies.

    python -m tests.support.killed_replicas ENGINE LOG

ENGINE is the address of a Redis or a PostgreSQL. Reads a port per line and forks a child that serves on it, since
everything is imported already; writes the child's process id. A child that was killed is waited for when the next line
comes. Handlers write to LOG what they did.
"""

from __future__ import annotations

import os

from antiphon import Context, Server
from antiphon.server import PostgresCluster, RedisCluster
from antiphon.types import ToolAnnotations
from tests.support.killed_workers import forge

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


if __name__ == "__main__":
    forge(
        make,
        (
            "asyncpg",
            "redis.asyncio",
            "uvicorn",
            "cryptography.hazmat.primitives.ciphers.aead",
            "antiphon.server.serving.network",
            "antiphon.replicas.replica_server",
            "antiphon.replicas.http.membership",
        ),
    )
