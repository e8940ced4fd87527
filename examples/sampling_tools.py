"""Sampling with functions as tools, and a typed answer: the loop runs on the server, the model is the client's.

A script stands in for the model, so that the program needs no key: it looks a stock up, then answers in JSON.
"""

import asyncio
from dataclasses import dataclass

from antiphon import Client, Context, CreateMessageResult, Host, Server, ToolError, ToolResultContent, ToolUseContent
from antiphon.host import Scripted

server = Server("shop")
STOCK = {"hat": 3, "scarf": 0}


@dataclass
class Offer:
    """What the model is to answer with."""

    product: str
    pieces: int


def stock(product: str) -> int:
    """Tell how many pieces of a product are left."""
    if product not in STOCK:
        raise ToolError(f"We do not sell {product}. We sell: {', '.join(STOCK)}")
    return STOCK[product]


@server.tool
async def advise(question: str, ctx: Context) -> str:
    """Answer a customer with what the shop has."""
    reply = await ctx.sample(
        question, system_prompt="You sell hats and scarves.", tools=[stock], result_type=Offer, max_tokens=200
    )
    return f"{reply.value.pieces} x {reply.value.product}, after {reply.turns} turns"


def look_up(product: str) -> CreateMessageResult:
    """Use the tool, as a model would."""
    use = ToolUseContent(id=product, name="stock", input={"product": product})
    return CreateMessageResult(role="assistant", model="scripted", stop_reason="toolUse", content=[use])


async def main() -> None:
    """Ask, and show what the model was told."""
    model = Scripted([look_up("coat"), look_up("hat"), '{"product": "hat", "pieces": 3}'])
    async with Client(server, sampling=Host(model, review="never")) as client:
        print((await client.call_tool("advise", {"question": "Anything warm?"})).text)
    for request in model.requests[1:]:
        said = [each.text for each in request.messages[-1].blocks if isinstance(each, ToolResultContent)]
        print("the tool said:", *said)


asyncio.run(main())
