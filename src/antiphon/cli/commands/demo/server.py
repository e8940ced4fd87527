"""The catalogue server of the demonstration: a program of its own, over stdio.

``python -m antiphon.cli.commands.demo.server --store FILE --interval SECONDS``. New products keep arriving
in its store, whoever is connected; a tool waits for them and has each described by the client's model.

The products and their descriptions are in a SQLite file, used from one thread: a statement takes far less than a
millisecond, so it needs no thread of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct

from antiphon.errors import AntiphonError, ConfigError, Rejected, ResourceNotFound, ToolError
from antiphon.server.app import Server
from antiphon.server.context import Context

__all__ = [
    "MOST_PRODUCTS",
    "STORE_VARIABLE",
    "Arrival",
    "Product",
    "Shop",
    "Store",
    "catalogue",
    "make_server",
    "serve",
]

STORE_VARIABLE = "ANTIPHON_DEMO_STORE"
"""Environment variable that names the file of the shop to its server."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS products (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    price REAL NOT NULL,
    keywords TEXT NOT NULL,
    description TEXT,
    model TEXT
)
"""
_SELECT = "SELECT number, name, price, keywords, description, model FROM products"
_FIRST_NUMBER = 1001

MOST_PRODUCTS = 1_000
"""Most products that one call describes."""
_MOST_WAITING = 50
"""Most products that wait for a description; no more arrive meanwhile."""
_RHYTHM = (0.6, 1.4, 0.9, 1.1, 0.7, 1.3, 1.0)
"""Irregular pauses, the same in every run, as multiples of the interval."""
_SYSTEM_PROMPT = "You are a helpful assistant assisting with product descriptions"

Count = Annotated[int, msgspec.Meta(ge=1, le=MOST_PRODUCTS)]


class Arrival(Struct, frozen=True, kw_only=True):
    """A product as announced by its maker."""

    name: str
    price: float
    keywords: list[str]


class Product(Arrival, frozen=True, kw_only=True, omit_defaults=True):
    """A product in the shop, with its description if there is one, and the model that wrote it."""

    sku: str
    description: str | None = None
    model: str | None = None


def catalogue() -> list[Arrival]:
    """Read the products, which arrive over and over, from the data of the package."""
    data = files("antiphon.cli.commands.demo").joinpath("products.json").read_bytes()
    return msgspec.json.decode(data, type=list[Arrival])


class Store:
    """The products of one shop."""

    def __init__(self, path: str | Path) -> None:
        """Open the file, or create it.

        Raises:
            ConfigError: it is no such file, or cannot be written.
        """
        self._path = path
        database: sqlite3.Connection | None = None
        try:
            database = sqlite3.connect(path, isolation_level=None)
            database.execute(_SCHEMA)
        except sqlite3.Error as error:
            if database is not None:
                database.close()
            raise ConfigError(f"{path}: {error}") from None
        self._database = database

    def add(self, arrival: Arrival) -> Product:
        """Add a new product, and return it with its number."""
        last = self._database.execute("SELECT max(number) FROM products").fetchone()[0]
        number = _FIRST_NUMBER if last is None else last + 1
        self._database.execute(
            "INSERT INTO products (number, name, price, keywords) VALUES (?, ?, ?, ?)",
            (number, arrival.name, arrival.price, json.dumps(arrival.keywords)),
        )
        return _product(number, arrival.name, arrival.price, json.dumps(arrival.keywords), None, None)

    def describe(self, sku: str, description: str, model: str) -> None:
        """Store a description and the model that wrote it."""
        self._database.execute(
            "UPDATE products SET description = ?, model = ? WHERE number = ?", (description, model, _number(sku))
        )

    def get(self, sku: str) -> Product | None:
        """Return one product, or ``None``."""
        row = self._database.execute(f"{_SELECT} WHERE number = ?", (_number(sku),)).fetchone()
        return _product(*row) if row is not None else None

    def described(self) -> list[Product]:
        """Return the products that have a description, the oldest first."""
        return self._all(f"{_SELECT} WHERE description IS NOT NULL ORDER BY number")

    def undescribed(self) -> list[Product]:
        """Return the products without a description, the oldest first."""
        return self._all(f"{_SELECT} WHERE description IS NULL ORDER BY number")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _all(self, query: str) -> list[Product]:
        return [_product(*row) for row in self._database.execute(query)]


def _product(
    number: int, name: str, price: float, keywords: str, description: str | None, model: str | None
) -> Product:
    return Product(
        sku=f"P-{number}",
        name=name,
        price=price,
        keywords=json.loads(keywords),
        description=description,
        model=model,
    )


def _number(sku: str) -> int:
    digits = sku.removeprefix("P-")
    return int(digits) if digits.isdecimal() and len(digits) < 10 else -1


class Shop:
    """The store, and the products that wait for a description."""

    def __init__(self, store: Store, interval: float) -> None:
        self.store = store
        self._interval = interval
        self._waiting: asyncio.Queue[Product] = asyncio.Queue(_MOST_WAITING)

    async def keep_arriving(self) -> None:
        """Let products arrive for ever, at irregular intervals around the given one."""
        for product in self.store.undescribed():
            await self._waiting.put(product)
        for arrival, pause in zip(cycle(catalogue()), cycle(_RHYTHM), strict=False):
            await asyncio.sleep(self._interval * pause)
            await self._waiting.put(self.store.add(arrival))

    async def next(self) -> Product:
        """Wait for a product without a description, and take it."""
        return await self._waiting.get()

    def put_back(self, product: Product) -> None:
        """Return a product that could not be described; without room it waits until the next start."""
        with contextlib.suppress(asyncio.QueueFull):
            self._waiting.put_nowait(product)


def make_server(path: str, interval: float) -> Server:
    """Make the server with a store in this file, where a product arrives about every ``interval`` seconds."""

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncGenerator[Shop]:
        shop = Shop(Store(path), interval)
        arrivals = asyncio.create_task(shop.keep_arriving())
        try:
            yield shop
        finally:
            arrivals.cancel()
            await asyncio.wait([arrivals])
            shop.store.close()

    server = Server(
        "catalogue",
        version="1.0",
        title="A shop's catalogue",
        instructions="New products keep arriving. Call describe_new_products to have them described by your model.",
        lifespan=lifespan,
    )
    server.tool(describe_new_products)
    server.resource("shop://products", name="products", mime_type="application/json")(products)
    server.resource("shop://products/{sku}", name="product", mime_type="application/json")(product)
    return server


async def describe_new_products(count: Count, ctx: Context) -> str:
    """Wait for new products, have each described by the client's model, and store the descriptions.

    Args:
        count: how many products to wait for
    """
    shop: Shop = ctx.state
    stored = 0
    for number in range(1, count + 1):
        arrived = await shop.next()
        await ctx.info({"event": "product", **_fields(arrived)})
        stored += await _describe(arrived, shop, ctx)
        await ctx.progress(number, count, arrived.name)
    if stored < count:
        raise ToolError(f"{stored} of {count} new products described and stored")
    return f"{stored} of {count} new products described and stored"


async def _describe(product: Product, shop: Shop, ctx: Context) -> bool:
    """Have one product described; tell whether it was.

    After a refusal the product is unchanged, and others continue.
    """
    try:
        reply = await ctx.sample(
            f"Create a selling product description for this product: {product.name} (price: {product.price:.2f} EUR), "
            f"keywords {', '.join(product.keywords)}",
            system_prompt=_SYSTEM_PROMPT,
            max_tokens=300,
        )
    except Rejected:
        shop.put_back(product)
        return False
    except BaseException:
        # The call was given up, so the next call may describe this product.
        shop.put_back(product)
        raise
    if not reply.text.strip():
        shop.put_back(product)
        return False
    shop.store.describe(product.sku, reply.text, reply.model)
    await ctx.info({"event": "stored", "sku": product.sku, "name": product.name})
    return True


def _fields(product: Product) -> dict[str, object]:
    return {"sku": product.sku, "name": product.name, "price": product.price, "keywords": product.keywords}


async def products(ctx: Context) -> str:
    """Return the products that have a description, as JSON."""
    shop: Shop = ctx.state
    return msgspec.json.encode(shop.store.described()).decode()


async def product(sku: str, ctx: Context) -> str:
    """Return one product, as JSON."""
    shop: Shop = ctx.state
    found = shop.store.get(sku)
    if found is None:
        raise ResourceNotFound(f"There is no product {sku}", data={"uri": f"shop://products/{sku}"})
    return msgspec.json.encode(found).decode()


def serve() -> None:
    """Serve over stdio, as the command line says."""
    parser = argparse.ArgumentParser(description="The catalogue server of the demonstration.")
    given = os.environ.get(STORE_VARIABLE)
    parser.add_argument("--store", required=given is None, default=given, help="SQLite file of the shop")
    parser.add_argument("--interval", type=float, default=2.0, help="seconds between two new products, about")
    options = parser.parse_args()
    try:
        make_server(options.store, options.interval).run()
    except AntiphonError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    serve()
