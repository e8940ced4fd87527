"""Sampling: the tool awaits a completion by the client's model, whatever revision of the protocol is spoken.

The client decides who completes. Here it is a function; an application hands in a ``Host`` (see ``host_policy.py``).
"""

import asyncio

from antiphon import Client, Context, CreateMessageRequestParams, Origin, Rejected, Server

server = Server("copywriter")


@server.tool
async def slogan(product: str, ctx: Context) -> str:
    """Write a slogan for a product."""
    try:
        reply = await ctx.sample(
            f"Write a slogan for: {product}",
            system_prompt="You write short slogans.",
            max_tokens=60,
            temperature=0.9,
            model_preferences=["claude", "gpt"],  # a wish, in order of preference; the client chooses
        )
    except Rejected:
        # The user said no: go on without. (From 2026-07-28 on the client gives up the whole call instead.)
        return f"{product}. Because."
    return f"{reply.text} (by {reply.model})"


@server.tool
async def campaign(products: list[str], ctx: Context) -> list[str]:
    """Write slogans for several products at once: the requests travel together."""
    replies = await asyncio.gather(*(ctx.sample(f"Write a slogan for: {one}", max_tokens=60) for one in products))
    return [reply.text for reply in replies]


async def answer(params: CreateMessageRequestParams, origin: Origin) -> str:
    """Stand in for a model. A string is a text answer."""
    product = params.messages[-1].text.rpartition(": ")[2]
    return f"{product.capitalize()}, at last."


async def main() -> None:
    """Call both tools."""
    async with Client(server, sampling=answer) as client:
        print((await client.call_tool("slogan", {"product": "sweaters"})).text)
        result = await client.call_tool("campaign", {"products": ["tea", "scarves"]})
        print(result.text)


asyncio.run(main())
