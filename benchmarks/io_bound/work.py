"""The tools of every Python server: the same functions, the same clients of Redis and of the HTTP API.

``REDIS_URL`` and ``API_URL`` say where these are, ``HTTP_CLIENT`` which library asks the API: ``aiohttp`` or ``httpx``.
Servers of other projects import this in environments of their own: nothing of ours may be imported here.
"""

from __future__ import annotations

import asyncio
import json
import os
from functools import cache
from importlib import import_module
from typing import Any, Protocol

__all__ = ["TOOLS"]

CONNECTIONS = 100
"""Most connections to the API: more than there are users, so that none waits and all are kept."""


class Api(Protocol):
    """A client of the HTTP API that keeps its connections."""

    async def get(self, path: str, params: dict[str, Any] | None = None) -> Any:
        """Ask for a JSON value."""
        ...

    async def post(self, path: str, value: object) -> Any:
        """Send a JSON value, and return the one that is answered."""
        ...


class AiohttpApi:
    """The API by aiohttp."""

    def __init__(self, url: str) -> None:
        aiohttp: Any = import_module("aiohttp")
        self._session = aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=CONNECTIONS))

    async def get(self, path: str, params: dict[str, Any] | None = None) -> Any:
        """Ask for a JSON value."""
        async with self._session.get(path, params=params) as response:
            return await response.json()

    async def post(self, path: str, value: object) -> Any:
        """Send a JSON value, and return the one that is answered."""
        async with self._session.post(path, json=value) as response:
            return await response.json()


class HttpxApi:
    """The API by httpx."""

    def __init__(self, url: str) -> None:
        httpx: Any = import_module("httpx")
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        self._client = httpx.AsyncClient(base_url=url, timeout=10.0, limits=limits)

    async def get(self, path: str, params: dict[str, Any] | None = None) -> Any:
        """Ask for a JSON value."""
        return (await self._client.get(path, params=params)).json()

    async def post(self, path: str, value: object) -> Any:
        """Send a JSON value, and return the one that is answered."""
        return (await self._client.post(path, json=value)).json()


# Made by the first call: in the event loop of the server, whatever its notion of a lifespan is.
@cache
def api() -> Api:
    """Return the client of the API."""
    return (HttpxApi if os.environ["HTTP_CLIENT"] == "httpx" else AiohttpApi)(os.environ["API_URL"])


@cache
def redis() -> Any:
    """Return the client of Redis, which has a pool of connections."""
    return import_module("redis.asyncio").Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


async def search_products(category: str, min_price: float, max_price: float, limit: int) -> str:
    """Search products by category and price, with their rank among the popular ones."""
    params = {"category": category, "min_price": min_price, "max_price": max_price, "limit": limit}
    found, popular = await asyncio.gather(
        api().get("/products/search", params), redis().zrevrange("bench:popular", 0, 9)
    )
    numbers = [int(member.partition(":")[2]) for member in popular]
    ranks = {number: rank for rank, number in enumerate(numbers, 1)}
    products = [
        {
            "id": one["id"],
            "sku": one["sku"],
            "name": one["name"],
            "price": one["price"],
            "rating": one["rating"],
            "popularity_rank": ranks.get(one["id"], 0),
        }
        for one in found["products"]
    ]
    return json.dumps(
        {"category": category, "total_found": found["total_found"], "products": products, "top10_popular_ids": numbers}
    )


async def get_user_cart(user_id: str) -> str:
    """Return the cart of a user, with the orders before it."""
    cart = await redis().hgetall(f"bench:cart:{user_id}")
    items = json.loads(cart["items"])
    _, orders = await asyncio.gather(
        api().get(f"/products/{items[0]['product_id']}"), redis().lrange(f"bench:history:{user_id}", 0, 4)
    )
    return json.dumps(
        {
            "user_id": user_id,
            "cart": {"items": items, "item_count": len(items), "estimated_total": float(cart["total"])},
            "recent_history": [json.loads(order) for order in orders],
        }
    )


async def checkout(user_id: str, items: list[dict[str, int]]) -> str:
    """Buy items: calculate the total, count the purchase, record the order."""
    pipeline = redis().pipeline(transaction=False)
    pipeline.incr(f"bench:ratelimit:user-{int(user_id.partition('-')[2]) % 100:05d}")
    pipeline.rpush(f"bench:history:{user_id}", json.dumps({"user_id": user_id, "items": items}))
    pipeline.zincrby("bench:popular", 1, f"product:{items[0]['product_id']}")
    total, (count, _, _) = await asyncio.gather(
        api().post("/cart/calculate", {"user_id": user_id, "items": items}), pipeline.execute()
    )
    return json.dumps(
        {
            "order_id": total["order_id"],
            "user_id": user_id,
            "total": total["total"],
            "items_count": len(items),
            "rate_limit_count": count,
            "status": "confirmed",
        }
    )


async def echo(user_id: str) -> str:
    """Return the name of the user: no input or output, so that the protocol alone is measured."""
    return json.dumps({"user_id": user_id})


async def read_popular() -> str:
    """Return the most popular products: one command to Redis."""
    popular = await redis().zrevrange("bench:popular", 0, 9)
    return json.dumps([int(member.partition(":")[2]) for member in popular])


async def read_product(product_id: int) -> str:
    """Return a product: one request to the API."""
    return json.dumps(await api().get(f"/products/{product_id}"))


TOOLS = (search_products, get_user_cart, checkout, echo, read_popular, read_product)
"""The three tools of the benchmark, and one for each part of their work."""
