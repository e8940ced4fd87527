"""State by caller: of principals over all their connections, of others by connection, within a bound."""

from __future__ import annotations

import gc
from typing import Annotated
from weakref import ref

import pytest

from antiphon import Client, Depends, Server
from antiphon.errors import ConfigError
from antiphon.server import PerCaller
from antiphon.testing import connected
from tests.support.network import until
from tests.support.raw_client import raw_client


class Basket(list[str]):
    """A list that can be referred to weakly."""


def serving(keep: PerCaller[Basket]) -> Server:
    """Make a server that keeps a basket for each caller."""
    server = Server("shop")

    @server.tool
    async def put(item: str, basket: Annotated[Basket, Depends(keep)]) -> list[str]:
        basket.append(item)
        return basket

    return server


async def put(server: Server, principal: str, item: str) -> object:
    """Put something into the basket of a principal, over a connection of its own."""
    async with raw_client(server, principal=principal) as raw:
        return (await raw.call("put", {"item": item}))["structuredContent"]


async def test_a_connection_without_a_principal_has_an_object_until_it_ends() -> None:
    """Nobody else gets it, and nothing holds it afterwards."""
    made: list[ref[Basket]] = []

    def make() -> Basket:
        basket = Basket()
        made.append(ref(basket))
        return basket

    server = serving(PerCaller(make))
    async with connected(server) as ann, Client(server) as ben:
        await ann.call_tool("put", {"item": "hat"})
        assert (await ann.call_tool("put", {"item": "tie"})).structured_content == {"result": ["hat", "tie"]}
        assert (await ben.call_tool("put", {"item": "cap"})).structured_content == {"result": ["cap"]}
    del ann, ben
    # While another thread collects, a call of the collector does nothing.
    await until(lambda: gc.collect() >= 0 and [each() for each in made] == [None, None])


async def test_a_principal_has_one_object_on_all_connections_within_the_bound() -> None:
    """The object that was not used for the longest time is dropped."""
    server = serving(PerCaller(Basket, max_callers=2))
    assert await put(server, "ann", "hat") == {"result": ["hat"]}
    assert await put(server, "ben", "cap") == {"result": ["cap"]}
    assert await put(server, "ann", "tie") == {"result": ["hat", "tie"]}
    assert await put(server, "cleo", "bag") == {"result": ["bag"]}
    assert await put(server, "ann", "bow") == {"result": ["hat", "tie", "bow"]}
    assert await put(server, "ben", "cap") == {"result": ["cap"]}


def test_a_bound_below_one_is_refused() -> None:
    """There would be nothing to return."""
    with pytest.raises(ConfigError, match="at least 1"):
        PerCaller(list, max_callers=0)
