"""Three replicas on one Redis behind nginx without affinity: clients with sessions, and a replica that is killed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client
from tests.support.child_server import started, wait_for_start
from tests.support.nginx import own_nginx
from tests.support.ports import free_port
from tests.support.redis import own_redis

pytestmark = pytest.mark.nginx

PROGRAM = '''
import os

from antiphon import Context, Server
from antiphon.server import RedisCluster

server = Server("shop", version="1", keys=[b"k" * 32], cluster=RedisCluster(os.environ["SHOP_REDIS"]))


@server.tool
async def describe(product: str, ctx: Context) -> str:
    """Write one selling sentence; nothing says that it may be called twice."""
    return (await ctx.sample(f"Describe {product}.", max_tokens=100)).text


@server.tool
def where() -> int:
    """Tell which process this is."""
    return os.getpid()


@server.resource("shop://hat")
def hat() -> str:
    """Wear it."""
    return "hat"


@server.tool
def sell(ctx: Context) -> None:
    """Change the hat."""
    server.resource_updated("shop://hat")
'''


@asynccontextmanager
async def proxied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, list[Any]]]:
    """Run Redis, three replicas and nginx; yields the address and the replicas' processes."""
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    with own_redis() as redis:
        monkeypatch.setitem(os.environ, "SHOP_REDIS", redis.url)
        ports = [free_port() for _ in range(3)]
        processes = [started("serve", str(program), "--http", f"127.0.0.1:{each}") for each in ports]
        try:
            for each in ports:
                await wait_for_start(f"127.0.0.1:{each}")
            with own_nginx(ports) as url:
                yield url, processes
        finally:
            for process in processes:
                process.kill()
                process.communicate()


async def sample(params: Any, _origin: Any) -> str:
    """Answer with what was asked."""
    return str(params.messages[-1].content.text)


@pytest.mark.parametrize("revision", ["2025-11-25", "2025-03-26", "2026-07-28"])
async def test_sessions_need_no_affinity(revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Asks are answered, and changes heard, though each request goes to another replica."""
    changed = asyncio.Event()
    async with (
        proxied(tmp_path, monkeypatch) as (url, _),
        Client(url, sampling=sample, revision=revision, timeout=60) as client,
    ):
        for number in range(12):
            result = await client.call_tool("describe", {"product": f"hat {number}"})
            assert result.text == f"Describe hat {number}."
        async with client.listen(uris=["shop://hat"]) as changes:

            async def hear() -> None:
                async for _ in changes:
                    changed.set()
                    return

            hearing = asyncio.ensure_future(hear())
            for _ in range(3):
                await client.call_tool("sell")
            async with asyncio.timeout(60):
                await changed.wait()
                await hearing


async def test_sessions_survive_the_death_of_a_replica(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every call ends: with its answer, or with an error that says why; the same sessions then go on elsewhere."""
    async with proxied(tmp_path, monkeypatch) as (url, processes):
        clients, homes = list[Client](), list[int]()
        while len(clients) < 6 or len(set(homes)) < 2:
            assert len(clients) < 20
            client = Client(url, sampling=sample, revision="2025-11-25", timeout=60)
            clients.append(await client.__aenter__())
            # A different number of requests for each, so that the proxy's turn is at another replica next.
            for _ in range(1 + len(clients) % 3):
                home = int((await client.call_tool("where")).text)
            homes.append(home)
        victim = next(each for each in processes if each.pid == homes[0])
        going = [
            asyncio.ensure_future(each.call_tool("describe", {"product": f"hat {at}"}))
            for at, each in enumerate(clients)
        ]
        victim.kill()
        outcomes = await asyncio.gather(*going, return_exceptions=True)
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, BaseException):
                assert homes[at] == victim.pid, outcome
            else:
                assert outcome.text == f"Describe hat {at}."
        after = [int((await each.call_tool("where")).text) for each in clients]
        assert victim.pid not in after
        assert [now for now, before in zip(after, homes, strict=True) if before != victim.pid] == [
            each for each in homes if each != victim.pid
        ]
        for at, each in enumerate(clients):
            assert (await each.call_tool("describe", {"product": "coat"})).text == "Describe coat.", at
            await each.__aexit__(None, None, None)
