"""Progress and log messages of a running call, and how the caller cancels it."""

import asyncio

from antiphon import Client, Context, Server

server = Server("kitchen")
given_up = asyncio.Event()


@server.tool
async def bake(minutes: int, ctx: Context) -> str:
    """Bake a cake; a minute of it takes no time here."""
    await ctx.info("the oven is hot")
    for minute in range(1, minutes + 1):
        await ctx.progress(minute, minutes, f"minute {minute}")
    return "a cake"


@server.tool
async def simmer(ctx: Context) -> str:
    """Simmer until the caller has had enough."""
    await ctx.progress(1, message="simmering")
    try:
        await asyncio.Event().wait()
    finally:
        given_up.set()  # a cancelled handler cleans up as any cancelled coroutine does
    return "soup"


async def main() -> None:
    """Bake a cake, then cancel the soup."""

    def report(progress: float, total: float | None, message: str | None) -> None:
        print("progress:", progress, total, message)

    async with Client(server, log_level="info", on_log=lambda entry: print("log:", entry.data)) as client:
        print((await client.call_tool("bake", {"minutes": 2}, progress=report)).text)

        simmering = asyncio.Event()
        call = asyncio.create_task(client.call_tool("simmer", progress=lambda done, of, text: simmering.set()))
        await simmering.wait()
        call.cancel()
        await asyncio.wait([call])
        await given_up.wait()
        print("the soup was given up")


asyncio.run(main())
