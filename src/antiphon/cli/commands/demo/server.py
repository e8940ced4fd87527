"""The catalogue server of the demonstration: ``python -m antiphon.cli.commands.demo.server``, over stdio.

New products keep arriving; a tool waits for them and has each described by the client's model.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct, structs

from antiphon.errors import Rejected, ToolError
from antiphon.server.app import Server
from antiphon.server.context import Context

INTERVAL_VARIABLE = "ANTIPHON_DEMO_INTERVAL"
"""Environment variable with the seconds between two new products, about; 2 by default."""
MOST_PRODUCTS = 1_000
"""Most products that one call describes."""
_RHYTHM = (0.6, 1.4, 0.9, 1.1, 0.7, 1.3, 1.0)
"""Irregular pauses, the same in every run, as multiples of the interval."""

Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_PRODUCTS)]


class Product(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A product, with its number in the shop, and its description and the model that wrote it if there is one."""

    number: int = 0
    name: str
    price: float
    keywords: list[str]
    description: str | None = None
    model: str | None = None

    @property
    def sku(self) -> str:
        """The number as people see it."""
        return f"P-{self.number}"


def catalogue() -> list[Product]:
    """Read the products, which arrive over and over, from the data of the package."""
    return msgspec.json.decode(Path(__file__).with_name("products.json").read_bytes(), type=list[Product])


class _Shop:
    """The products by number, and those that wait for a description."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._arrivals = zip(cycle(catalogue()), cycle(_RHYTHM), strict=False)
        self._arriving = asyncio.Lock()
        self.products: dict[int, Product] = {}
        self.waiting: list[Product] = []

    async def take(self) -> Product:
        """Take a product without a description; wait until one arrives, if there is none."""
        async with self._arriving:
            if self.waiting:
                return self.waiting.pop(0)
            arrived, pause = next(self._arrivals)
            await asyncio.sleep(self._interval * pause)
            product = structs.replace(arrived, number=1001 + len(self.products))
            self.products[product.number] = product
            return product


def make_server(interval: float) -> Server:
    """Make the server of a shop where a product arrives about every ``interval`` seconds."""

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[_Shop]:
        yield _Shop(interval)

    server = Server(
        "catalogue",
        version="1.0",
        title="A shop's catalogue",
        instructions="New products keep arriving. Call describe_new_products to have them described by your model.",
        lifespan=lifespan,
    )
    server.tool(describe_new_products)
    server.resource("shop://products", name="products", mime_type="application/json")(products)
    return server


async def describe_new_products(count: Count, ctx: Context) -> str:
    """Wait for new products, have each described by the client's model, and store the descriptions.

    Args:
        count: how many products to wait for
    """
    shop: _Shop = ctx.state
    stored = 0
    for number in range(1, count + 1):
        product = await shop.take()
        await ctx.info({"event": "product", "sku": product.sku, "name": product.name, "price": product.price})
        stored += await _describe_product(product, shop, ctx)
        await ctx.progress(number, count, product.name)
    if stored < count:
        raise ToolError(f"{stored} of {count} new products described and stored")
    return f"{stored} of {count} new products described and stored"


async def _describe_product(product: Product, shop: _Shop, ctx: Context) -> bool:
    """Have one product described; return whether it was. Otherwise it waits for the next call."""
    text = ""
    try:
        reply = await ctx.sample(
            f"Create a selling product description for this product: {product.name} (price: {product.price:.2f} EUR), "
            f"keywords {', '.join(product.keywords)}",
            system_prompt="You are a helpful assistant assisting with product descriptions",
            max_tokens=300,
        )
        text = reply.text.strip()
    except Rejected:
        return False
    finally:
        if not text:
            shop.waiting.append(product)
    if text:
        shop.products[product.number] = structs.replace(product, description=text, model=reply.model)
        await ctx.info({"event": "stored", "sku": product.sku, "name": product.name})
    return bool(text)


async def products(ctx: Context) -> str:
    """Return the products that have a description, as JSON."""
    shop: _Shop = ctx.state
    return msgspec.json.encode([each for each in shop.products.values() if each.description]).decode()


if __name__ == "__main__":
    make_server(float(os.environ.get(INTERVAL_VARIABLE, "2"))).run()
