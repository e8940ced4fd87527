"""A server whose tools ask, and the client's side of one round."""

from __future__ import annotations

import asyncio
from typing import Any

from antiphon import Context, Server
from tests.support.raw_client import RawClient, said

__all__ = ["answered", "catalogue", "only"]

Json = dict[str, Any]


def catalogue(**options: Any) -> tuple[Server, list[str]]:
    """Make a server whose tools ask, and the list of what their bodies have done."""
    server, done = Server("catalogue", **options), list[str]()

    @server.tool
    async def one(question: str, ctx: Context) -> str:
        done.append("began")
        try:
            answer = await ctx.sample(question)
        except BaseException as error:
            done.append(type(error).__name__)
            raise
        done.append("ended")
        return answer.text

    @server.tool
    async def both(ctx: Context) -> str:
        first, second = await asyncio.gather(ctx.sample("a"), ctx.sample("b"))
        return first.text + second.text

    @server.tool
    async def twice(ctx: Context) -> str:
        first = await ctx.sample("first")
        return (await ctx.sample(f"after {first.text}")).text

    @server.tool
    async def named(ctx: Context) -> str:
        return (await ctx.sample("which?", key="choice")).text

    @server.prompt
    async def brief(ctx: Context) -> str:
        return (await ctx.sample("brief?")).text

    @server.resource("catalogue://{product}")
    async def product(product: str, ctx: Context) -> str:
        return (await ctx.sample(product)).text

    return server, done


def only(round: Json) -> tuple[str, Json]:
    """Return key and request of a round with one ask."""
    ((key, ask),) = round["inputRequests"].items()
    return key, ask


async def answered(client: RawClient, name: str, round: Json, words: str, **params: Any) -> Json:
    """Retry with one answer."""
    return await client.retry(round, name, {only(round)[0]: said(words)}, **params)
