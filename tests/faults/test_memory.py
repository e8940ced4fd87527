"""Memory of a server that is sent heavy calls: what is parked stays within its limit, what has ended is let go of."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import CoroutineType, FrameType
from typing import Any

import aiohttp
import pytest

from antiphon import Context, Server
from tests.support.ports import free_port
from tests.support.raw_client import RawClient, raw_client

MIB = 1024 * 1024
BESIDE = 64 * MIB
"""What a process may have beside the limit: the interpreter, and what is free but was not yet given back."""
COPIES = 3
"""How often the text of a call may be there while it is read: as it arrives, as one body, and as an argument."""

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "parked, the oldest evicted": ("ask", {}),
    "an argument too much": ("ask", {"more": 1}),
    "an argument too much, for a tool that asks nothing": ("asks_nothing", {"more": 1}),
    "a capability too little": ("demanding", {}),
    "failed": ("failing", {}),
    "unknown": ("nobody_has_this", {}),
}


def body_of(tool: str, arguments: dict[str, Any]) -> bytes:
    """Write a modern call."""
    params = {"_meta": META, "name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


class Heavy:
    """The server's process, as seen by a client."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Make one modern call; return the reply."""
        return await self.send(tool, body_of(tool, arguments))

    async def send(self, tool: str, body: bytes) -> dict[str, Any]:
        """Make a call whose body is known; return the reply."""
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-method": "tools/call",
            "mcp-name": tool,
            "mcp-protocol-version": "2026-07-28",
        }
        async with self._session.post(self._url, data=io.BytesIO(body), headers=headers) as response:
            return await response.json()

    async def memory(self, reading: str = "memory") -> int:
        """Return the bytes that the process has, by its own reading; ``"peak"``: that it ever had."""
        reply = await self.call(reading, {})
        return int(reply["result"]["content"][0]["text"])


@asynccontextmanager
async def heavy(limit: int) -> AsyncIterator[Heavy]:
    """Run the server in a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", "tests.faults.heavy", str(port), str(limit)]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with aiohttp.ClientSession() as session:
            server = Heavy(f"http://127.0.0.1:{port}/mcp", session)
            async with asyncio.timeout(60):
                while True:
                    try:
                        await server.memory()
                        break
                    except aiohttp.ClientError:
                        assert process.returncode is None
                        await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=0.05)
            yield server
    finally:
        process.kill()
        await process.wait()


async def most(server: Heavy, kind: str, size: int, count: int) -> int:
    """Make calls of one kind, one after the other; return the most memory that was seen among them."""
    tool, more = KINDS[kind]
    body = body_of(tool, {"text": "x" * size, **more})
    seen = 0
    for number in range(count):
        reply = await server.send(tool, body)
        assert reply["id"] == 1
        if number % 8 == 7:
            seen = max(seen, await server.memory())
    return seen


@pytest.mark.parametrize("size", [2_000_000, 100_000])
async def test_memory_stays_within_its_limit(size: int) -> None:
    """Parked, evicted and failed calls: the process has its limit, and what it needs beside."""
    limit = 16 * MIB
    async with heavy(limit) as server:
        seen = {kind: await most(server, kind, size, 48) for kind in KINDS}
    assert {kind: bytes for kind, bytes in seen.items() if bytes > limit + BESIDE + COPIES * size} == {}


@pytest.mark.slow
@pytest.mark.parametrize("size", [8_000_000, 1_000_000, 100_000])
async def test_memory_stays_within_its_limit_for_long(size: int) -> None:
    """The same with the limit by default and 400 calls of each kind; the peak that the system saw has one call more."""
    limit = 128 * MIB
    seen: dict[str, int] = {}
    peaks: dict[str, int] = {}
    async with heavy(limit) as server:
        for kind in KINDS:
            seen[kind] = await most(server, kind, size, 400)
            peaks[kind] = await server.memory("peak")
    allowed = limit + BESIDE + COPIES * size
    assert {kind: bytes for kind, bytes in seen.items() if bytes > allowed} == {}
    assert {kind: bytes for kind, bytes in peaks.items() if bytes > allowed + size} == {}


# --- what is left of a call ---------------------------------------------------------------------------------------


def make_server() -> Server:
    """Make a server whose calls end in every way."""
    server = Server("ends", max_parked=1)

    @server.tool(name="ask")
    async def ask(ctx: Context, text: str = "") -> str:
        return (await ctx.sample("go on?")).text

    @server.tool(name="failing")
    async def failing(ctx: Context, text: str = "") -> str:
        raise ValueError("failed") from OSError("behind it")

    @server.tool(name="slow", timeout=0.001)
    async def slow(ctx: Context, text: str = "") -> str:
        await asyncio.Event().wait()
        return text

    @server.tool(name="refused")
    async def refused(ctx: Context, text: str = "") -> str:
        await ctx.elicit("who?", bool)
        return text

    @server.prompt(name="failing")
    async def prompt(ctx: Context) -> str:
        raise ValueError("failed")

    @server.resource("failing://{text}")
    async def resource(text: str, ctx: Context) -> str:
        raise ValueError("failed")

    return server


async def evicted(client: RawClient) -> None:
    """Push a parked call out by another one."""
    await client.call("ask")
    await client.call("ask")


async def cancelled(client: RawClient) -> None:
    """Withdraw a legacy call that waits for an answer."""
    id = client.request("tools/call", name="ask", arguments={})
    await client.asked()
    client.send({"method": "notifications/cancelled", "params": {"requestId": id}})
    await client.reply(client.request("ping"))


def modern(method: str, **params: Any) -> Callable[[RawClient], Awaitable[object]]:
    """Make a modern request that is answered, whatever with."""
    return lambda client: client.reply(client.modern(method, **params))


def legacy(method: str, **params: Any) -> Callable[[RawClient], Awaitable[object]]:
    """Make a request of a legacy session that is answered, whatever with."""
    return lambda client: client.reply(client.request(method, **params))


ENDS: dict[str, Callable[[RawClient], Awaitable[object]]] = {
    "evicted": evicted,
    "cancelled": cancelled,
    "arguments": modern("tools/call", name="ask", arguments={"more": 1}),
    "failed": modern("tools/call", name="failing", arguments={}),
    "too slow": modern("tools/call", name="slow", arguments={}),
    "unknown": modern("tools/call", name="nobody", arguments={}),
    "incapable": modern("tools/call", name="refused", arguments={}, capabilities={}),
    "prompt": modern("prompts/get", name="failing", arguments={}),
    "resource": modern("resources/read", uri="failing://x"),
    "a state of nobody's": modern("tools/call", name="ask", arguments={}, requestState="x", inputResponses={}),
    "legacy arguments": legacy("tools/call", name="ask", arguments={"more": 1}),
    "legacy failed": legacy("tools/call", name="failing", arguments={}),
    "legacy too slow": legacy("tools/call", name="slow", arguments={}),
    "legacy resource": legacy("resources/read", uri="failing://x"),
}


def is_of_a_call(thing: object) -> bool:
    """Tell whether something holds a call, or what came with it; libraries leave cycles of their own behind."""
    return isinstance(thing, FrameType | CoroutineType) or type(thing).__module__.startswith("antiphon")


@pytest.mark.parametrize("end", ENDS)
async def test_what_has_ended_needs_no_collector(end: str) -> None:
    """No reference cycle is left behind: the collector of a server looks seldom, and a call can be of megabytes."""
    server = make_server()
    async with raw_client(server) as client:
        await client.handshake()
        for _ in range(3):
            await ENDS[end](client)
        gc.collect()
        gc.disable()
        try:
            for _ in range(4):
                await ENDS[end](client)
            for _ in range(4):
                await client.reply(client.request("ping"))
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = [type(each).__name__ for each in gc.garbage if is_of_a_call(each)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert left == []
