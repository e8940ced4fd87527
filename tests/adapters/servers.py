"""A server with a tool of each kind, for the tests of the adapters."""

from __future__ import annotations

import msgspec

from antiphon import Context, EmbeddedResource, ImageContent, ResourceContents, Server
from antiphon.errors import ToolError


class Size(msgspec.Struct):
    """What a form asks for."""

    size: str


PNG = b"\x89PNG\r\n\x1a\n"


def every_kind(ran: list[str], *, name: str = "shop") -> Server:
    """Make it; ``ran`` gets what each tool was called with."""
    server = Server(name)

    @server.tool
    def price(product: str) -> dict[str, float]:
        """Say what a product costs."""
        ran.append(product)
        if product == "gone":
            raise ToolError("There is no such product: ask for a scarf")
        return {"euros": 19.5}

    @server.tool(name="a.drawing")
    def drawing() -> ImageContent:
        """Draw it."""
        return ImageContent.of(PNG, "image/png")

    @server.tool
    def leaflet() -> EmbeddedResource:
        """Return a file."""
        return EmbeddedResource(resource=ResourceContents.of("file:///leaflet.txt", "wool"))

    @server.tool
    async def describe(product: str, ctx: Context) -> str:
        """Describe it, with the model of the client."""
        await ctx.progress(1, 2, "half")
        return (await ctx.sample(f"Describe a {product}", max_tokens=50)).text

    @server.tool
    async def order(ctx: Context) -> str:
        """Order one, after asking for the size."""
        answer = await ctx.elicit("Which size?", Size)
        return str(answer.action)

    return server
