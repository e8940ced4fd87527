"""A server that behaves, with one thing of every kind."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from antiphon import Context, EmbeddedResource, ImageContent, Server, ToolError
from antiphon.wire.content import ResourceContents, ResourceLink

server = Server("shop", version="1.2", title="The shop")


@dataclass
class Order:
    """A form."""

    pieces: int
    gift: bool = False


@dataclass
class Wrapping:
    """A form that can be left as it is."""

    colour: str = "red"
    ribbon: bool = True


@server.tool
async def price(product: str, pieces: int, discount: float = 0.0, express: bool = False) -> str:
    """Compute a price.

    It is not the last word.
    """
    return f"{product}: {pieces} at {discount} off, {'express' if express else 'standard'}"


@server.tool
async def tagged(tags: list[str], size: dict[str, int]) -> dict[str, int]:
    """Count."""
    return {tag: size.get(tag, 0) for tag in tags}


@server.tool
async def refuse(reason: str) -> str:
    """Fail as a tool."""
    raise ToolError(reason)


@server.tool
async def describe(product: str, ctx: Context) -> str:
    """Have a product described."""
    await ctx.warning({"about": product})
    await ctx.progress(1, 2, "asking")
    reply = await ctx.sample(f"Describe {product}", max_tokens=50)
    return f"{reply.model}: {reply.text}"


@server.tool
async def order(ctx: Context) -> str:
    """Ask how many."""
    asked = await ctx.elicit("How many?", Order)
    return asked.action


@server.tool
async def wrap(ctx: Context) -> str:
    """Ask for a colour that has a default."""
    asked = await ctx.elicit("Which paper?", Wrapping)
    return f"{asked.action}: {asked.value}"


@server.tool
async def folders(ctx: Context) -> str:
    """Name the client's folders."""
    return " ".join(root.name or root.uri for root in await ctx.list_roots())


@server.tool(structured=False)
async def everything() -> list:
    """Return content of every kind."""
    return [
        "text",
        ImageContent.of(b"123", "image/png"),
        ResourceLink(uri="shop://list", name="list"),
        EmbeddedResource(resource=ResourceContents.of("shop://note", "noted")),
    ]


@server.tool
async def vanish() -> str:
    """End the process in the middle of a call."""
    print("last words", flush=True)
    os._exit(7)


@server.tool
async def linger(started: str = "") -> str:
    """Never return. Leaves the process id in the file ``started``."""
    if started:
        await asyncio.to_thread(Path(started).write_text, str(os.getpid()), encoding="ascii")
    await asyncio.Event().wait()
    return ""


@server.resource("shop://list", mime_type="text/plain")
async def listing() -> str:
    """What there is."""
    return "sweaters\nscarves"


@server.resource("shop://logo", mime_type="image/png")
async def logo() -> bytes:
    """A picture."""
    return b"\x89PNG\x00"


@server.resource("shop://{product}/label", mime_type="text/plain")
async def label(product: str) -> str:
    """One label."""
    return product.upper()


@server.prompt
async def sell(product: str, mood: str = "glad") -> str:
    """Sell a product."""
    return f"Sell {product}, be {mood}."


@server.prompt
async def muse(ctx: Context) -> str:
    """Let the client's model make the prompt."""
    return (await ctx.sample("Muse.", max_tokens=20)).text


if __name__ == "__main__":
    server.run()
