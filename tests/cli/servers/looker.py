"""A server that shows the client's model a picture, and lets it use a function."""

from antiphon import Context, ImageContent, Server

server = Server("looker")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel


@server.tool
async def look(ctx: Context) -> str:
    """Have a picture described, with what is known of its product."""

    def price(sku: str) -> float:
        """Tell the price of a product."""
        return {"P-1": 49.5}[sku]

    picture = ImageContent(data=PIXEL, mime_type="image/png")
    reply = await ctx.sample(["Describe P-1", picture], tools=[price], max_tokens=200)
    return f"{reply.model} in {reply.turns} turns: {reply.text}"


if __name__ == "__main__":
    server.run()
