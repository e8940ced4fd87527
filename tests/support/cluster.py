"""Servers that share their keys, as processes behind a load balancer do, and a client that goes from one to another."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from antiphon import Context, Server
from tests.support.raw_client import RawClient, raw_client, said

__all__ = ["KEY", "Cluster", "Tool", "cluster", "hungry", "noise", "prompts"]

Json = dict[str, Any]
Tool = Callable[[Context], Awaitable[str]]
KEY = b"k" * 32


class Cluster:
    """Servers that run the same tool, and a client of each."""

    def __init__(self, servers: list[Server], clients: list[RawClient]) -> None:
        self.servers = servers
        self.clients = clients

    async def begin(self, at: int = 0, **params: Any) -> Json:
        """Call the tool at one of the servers."""
        return await self.clients[at].call("tool", **params)

    async def go_on(self, at: int, round: Mapping[str, Any], answers: Mapping[str, str] | str) -> Json:
        """Retry at one of the servers; a string answers every ask."""
        given = dict.fromkeys(round["inputRequests"], answers) if isinstance(answers, str) else answers
        return await self.clients[at].retry(round, "tool", {key: said(words) for key, words in given.items()})

    async def refused(self, at: int, round: Mapping[str, Any], answers: Mapping[str, Any] | None = None) -> str:
        """Retry at one of the servers, which must refuse; return the message."""
        params = {"requestState": round["requestState"], "inputResponses": answers or {}}
        error = await self.clients[at].error("tools/call", name="tool", arguments={}, **params)
        return error["message"]

    async def diverges(self, at: int, round: Mapping[str, Any]) -> str:
        """Answer everything at one of the servers, where the handler asks for something else; return the message."""
        message = await self.refused(at, round, dict.fromkeys(round["inputRequests"], said("yes")))
        assert message.startswith("CallDiverged: ")
        return message


@asynccontextmanager
async def cluster(tool: Tool, size: int = 2, *, once: bool = False, **options: Any) -> AsyncIterator[Cluster]:
    """Run servers with one tool and the same keys."""
    servers = [Server("catalogue", keys=[KEY], **options) for _ in range(size)]
    async with AsyncExitStack() as stack:
        for server in servers:
            server.tool(name="tool", once=once)(tool)
        yield Cluster(servers, [await stack.enter_async_context(raw_client(server)) for server in servers])


def prompts(round: Mapping[str, Any]) -> dict[str, str]:
    """Return what a round asks, by key."""
    return {key: ask["params"]["messages"][0]["content"]["text"] for key, ask in round["inputRequests"].items()}


def hungry(count: int) -> Tool:
    """Make a tool that learns much."""

    async def tool(ctx: Context) -> str:
        learnt = [(await ctx.sample(f"{n}?")).text for n in range(count)]
        return str(sum(map(len, learnt)))

    return tool


def noise(size: int) -> str:
    """Make text that does not compress."""
    return random.Random(size).randbytes(size * 3 // 8).hex()[:size]
