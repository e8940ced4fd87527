"""The server of the examples in this folder: replace it with yours.

Its secrets are files: SHOP_KEYS_FILE has the keys that seal the states of calls, one a line, 32 characters each, the
newest first. SHOP_STORE_FILE, if it is set, has the URL of the database in which replicas keep what is too long for a
state; SHOP_CLUSTER_FILE that of the Redis or PostgreSQL by which any of them takes any client's requests.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from antiphon import Context, Server, SqlStateStore
from antiphon.server import Cluster, PostgresCluster, RedisCluster


def secret(name: str) -> list[str]:
    """Return the lines of the file that a variable names; none if it names none."""
    file = os.environ.get(name)
    return Path(file).read_text(encoding="utf-8").split() if file else []


def cluster(url: str) -> Cluster:
    """Return this replica's part in what all share."""
    return RedisCluster(url) if url.startswith("redis") else PostgresCluster(url)


KEYS = [line.encode() for line in secret("SHOP_KEYS_FILE")]
STORE = next((SqlStateStore(url) for url in secret("SHOP_STORE_FILE")), None)
CLUSTER = next((cluster(url) for url in secret("SHOP_CLUSTER_FILE")), None)


@asynccontextmanager
async def lifespan(_server: Server) -> AsyncIterator[None]:
    """Close the store when the server ends."""
    yield
    if STORE is not None:
        await STORE.aclose()


server = Server("shop", version="1.0", keys=KEYS, state_store=STORE, cluster=CLUSTER, lifespan=lifespan)


@server.tool
async def describe(product: str, ctx: Context) -> str:
    """Write one selling sentence about a product."""
    reply = await ctx.sample(f"Describe {product}.", max_tokens=100)
    return reply.text


@server.tool
def price(product: str) -> str:
    """Say what a product costs."""
    return f"{product}: 12.00"
