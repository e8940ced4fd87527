"""A server with a tool of each kind, for the tests of the adapters."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon import Context, EmbeddedResource, ImageContent, ResourceContents, Server
from antiphon.errors import ToolError
from antiphon.server import CallNext, ServerRequest


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


def drifting(ran: list[str], words: list[str]) -> Server:
    """Make the same server, whose ``price`` is described by the last of ``words`` as soon as there is one."""
    server = every_kind(ran)

    @server.middleware
    async def redescribe(request: ServerRequest, call_next: CallNext) -> Any:
        result = await call_next(request)
        if request.method != "tools/list" or not words:
            return result
        tools = [
            msgspec.structs.replace(tool, description=words[-1]) if tool.name == "price" else tool
            for tool in result.tools
        ]
        return msgspec.structs.replace(result, tools=tools)

    return server
