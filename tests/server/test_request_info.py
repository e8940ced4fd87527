"""Facts of the request a handler serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.server.request_info import RequestFacts
from antiphon.wire.common import Implementation
from tests.support.raw_client import raw_client, said

CLIENT_INFO = "io.modelcontextprotocol/clientInfo"


def telling(read: Callable[[RequestFacts], Any], seen: list[Any]) -> Server:
    """Make a server with a tool that reads a fact."""
    server = Server("s")

    @server.tool
    async def fact(ctx: Context) -> str:
        seen.append(read(ctx.request))
        return "read"

    return server


async def legacy(read: Callable[[RequestFacts], Any], revision: str = "2025-11-25", **params: Any) -> Any:
    """Return a fact of a legacy request."""
    seen: list[Any] = []
    async with raw_client(telling(read, seen)) as client:
        await client.handshake(revision)
        await client.reply(client.request("tools/call", name="fact", arguments={}, **params))
    return seen[0]


async def modern(read: Callable[[RequestFacts], Any], **params: Any) -> Any:
    """Return a fact of a modern request."""
    seen: list[Any] = []
    async with raw_client(telling(read, seen)) as client:
        await client.call("fact", **params)
    return seen[0]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_the_revision_is_that_of_the_request(revision: str) -> None:
    """By name."""
    seen: list[Any] = []
    async with Client(telling(lambda facts: facts.revision, seen), revision=revision) as client:
        await client.call_tool("fact")
    assert seen == [revision]


async def test_id_and_method_are_the_requests() -> None:
    """As they travelled."""
    assert await legacy(lambda facts: (facts.id, facts.method)) == (2, "tools/call")
    assert await modern(lambda facts: (facts.id, facts.method)) == (1, "tools/call")


async def test_a_legacy_client_said_who_it_is_in_the_handshake() -> None:
    """Once for all."""
    assert await legacy(lambda facts: facts.client) == Implementation(name="raw", version="1")


async def test_a_modern_client_says_it_with_each_request_or_not_at_all() -> None:
    """It may stay unknown."""
    info = {"name": "me", "version": "2"}
    assert await modern(lambda facts: facts.client, meta={CLIENT_INFO: info}) == Implementation(name="me", version="2")
    assert await modern(lambda facts: facts.client) is None


async def test_capabilities_are_those_of_the_request() -> None:
    """Declared in the handshake, or with the request."""
    assert (await legacy(lambda facts: facts.capabilities)).sampling is not None
    assert (await modern(lambda facts: facts.capabilities)).sampling is not None
    assert (await modern(lambda facts: facts.capabilities, capabilities={"roots": {}})).sampling is None


async def test_meta_comes_as_it_was_sent() -> None:
    """Names of anybody's included, whatever is in them."""
    foreign = {"example.org/trace": {"a": [1, None]}, "traceparent": "00-1-2-01"}
    meta = await modern(lambda facts: facts.meta, meta=foreign)
    assert {key: meta[key] for key in foreign} == foreign
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert await legacy(lambda facts: facts.meta, _meta=foreign) == foreign


async def test_absent_meta_is_empty() -> None:
    """Nobody has to check."""
    assert await legacy(lambda facts: facts.meta) == {}


async def test_nobody_has_proven_anything_over_memory_and_pipes() -> None:
    """There is no principal."""
    assert await legacy(lambda facts: facts.principal) is None
    assert await modern(lambda facts: facts.principal) is None


async def test_after_a_round_the_facts_are_those_of_the_retry() -> None:
    """Each request speaks for itself; between them the last one known does."""
    seen: list[Any] = []
    server = Server("s")

    @server.tool
    async def fact(ctx: Context) -> str:
        seen.append(ctx.request.meta.get("n"))
        await ctx.sample("?", key="k")
        seen.append(ctx.request.meta.get("n"))
        return "read"

    async with raw_client(server) as client:
        round = await client.call("fact", meta={"n": 1})
        await client.retry(round, "fact", {"k": said("x")}, meta={"n": 2})
    assert seen == [1, 2]
