"""What stands behind the tools: the data in Redis, and the HTTP API. ``python -m benchmarks.io_bound.services PORT``.

The API is served by asyncio and httptools alone. Its processor time and that of Redis are nobody's in the results.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any, cast
from urllib.parse import parse_qs

import httptools
import uvloop

from benchmarks.io_bound import shop

__all__ = ["restore", "seed"]

CARTS, HISTORIES, RATES = 10_000, 1_000, 100
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
CHUNK = 10_000
"""Products in one command."""


async def seed(url: str) -> None:
    """Write the data into an empty Redis."""
    # Any: the library does not say what it returns.
    client: Any = cast("Any", import_module("redis.asyncio")).Redis.from_url(url)
    for first in range(1, shop.PRODUCTS + 1, CHUNK):
        scores = {f"product:{number}": shop.popularity_of(number) for number in range(first, first + CHUNK)}
        await client.zadd("bench:popular", scores)
    pipeline = client.pipeline(transaction=False)
    for number in range(1, CARTS + 1):
        cart, key = shop.cart_of(number), f"bench:cart:{shop.user_id(number)}"
        pipeline.hset(key, mapping={"items": json.dumps(cart["items"]), "total": cart["total"]})
    for number in range(1, HISTORIES + 1):
        key = f"bench:history:{shop.user_id(number)}"
        pipeline.rpush(key, *(json.dumps(order) for order in shop.history_of(number)))
    for number in range(RATES):
        pipeline.set(f"bench:ratelimit:{shop.user_id(number)}", 0)
    await pipeline.execute()
    await client.aclose()


async def restore(url: str, users: Iterable[int]) -> None:
    """Take back what these users have changed since the data were seeded."""
    client: Any = cast("Any", import_module("redis.asyncio")).Redis.from_url(url)
    pipeline = client.pipeline(transaction=False)
    for number in users:
        pipeline.set(f"bench:ratelimit:{shop.user_id(number % RATES)}", 0)
        pipeline.ltrim(f"bench:history:{shop.user_id(number)}", 0, shop.ENTRIES - 1)
    bought = shop.BASKET[0]["product_id"]
    pipeline.zadd("bench:popular", {f"product:{bought}": shop.popularity_of(bought)})
    await pipeline.execute()
    await client.aclose()


@cache
def _search(query: bytes) -> bytes:
    asked = {name: values[0] for name, values in parse_qs(query.decode()).items()}
    prices = float(asked["min_price"]), float(asked["max_price"])
    return json.dumps(shop.find_products(asked["category"], *prices, int(asked["limit"]))).encode()


@cache
def _product(number: int) -> bytes:
    return json.dumps(shop.product(number)).encode()


class Api(asyncio.Protocol):
    """One connection of a client of the API."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the parser."""
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Forget the request before."""
        self._url, self._body = b"", b""

    def on_url(self, url: bytes) -> None:
        """Keep where it goes."""
        self._url += url

    def on_body(self, data: bytes) -> None:
        """Keep what came."""
        self._body += data

    def on_message_complete(self) -> None:
        """Answer."""
        path, _, query = self._url.partition(b"?")
        if path == b"/products/search":
            said = _search(query)
        elif path == b"/cart/calculate":
            order = json.loads(self._body)
            said = json.dumps(shop.basket_total(order["user_id"], order["items"])).encode()
        elif path.startswith(b"/products/"):
            said = _product(int(path.rpartition(b"/")[2]))
        else:
            self._transport.write(MISSING)
            return
        self._transport.write(OK % len(said) + said)


async def serve(port: int) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(Api, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
