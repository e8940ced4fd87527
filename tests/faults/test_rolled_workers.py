"""Workers are replaced under load: nothing fails, no connection is closed, and what is open ends as it would."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.support.network import Bare, call, modern_call, request_bytes
from tests.support.started_workers import PATIENCE, Started, started

SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "hats"}, "model": "m"}


class Load:
    """Clients that repeat nothing: whatever fails is an error of the test."""

    def __init__(self, server: Started, stack: AsyncExitStack) -> None:
        self.place = server.url.removeprefix("http://").removesuffix("/mcp")
        self.stack = stack
        self.calls = 0
        self.has_ended = False
        self.failed: list[object] = []

    async def connection(self) -> Bare:
        """Connect."""
        bare = await Bare.open(self.place)
        self.stack.callback(bare.vanish)
        return bare

    async def session_at(self, pid: str) -> tuple[Bare, dict[str, str]]:
        """Open sessions until one lives in this process; return a connection, and the headers that name the session."""
        while True:
            bare = await self.connection()
            session = await bare.initialize()
            bare.send(request_bytes(call("pid"), **session))
            if pid.encode() in (await bare.response())[2]:
                return bare, session

    async def ask(self, bare: Bare, request: bytes) -> None:
        """Send a call, and note what is wrong with its response."""
        bare.send(request)
        try:
            async with asyncio.timeout(PATIENCE):
                status, headers, body = await bare.response()
        except (OSError, EOFError, TimeoutError) as error:
            self.failed.append(repr(error))
            raise
        if status != 200 or "result" not in json.loads(body) or "connection" in headers:
            self.failed.append((status, headers, body))
        self.calls += 1

    async def modern(self) -> None:
        """Call over one connection, again and again."""
        bare = await self.connection()
        while not self.has_ended:
            await self.ask(bare, modern_call("pid"))

    async def fresh(self) -> None:
        """Call over connections of which each was silent while another one was used."""
        silent = await self.connection()
        while not self.has_ended:
            bare, silent = silent, await self.connection()
            await self.ask(bare, modern_call("pid"))
            bare.vanish()

    async def legacy(self) -> None:
        """Call in one session, over two connections in turns."""
        both = await self.connection(), await self.connection()
        session = await both[0].initialize()
        while not self.has_ended:
            for bare in both:
                await self.ask(bare, request_bytes(call("pid"), **session))

    async def crowd(self) -> None:
        """Call in one session over two connections at once, so that it is seldom idle."""
        both = await self.connection(), await self.connection()
        session = await both[0].initialize()

        async def one(bare: Bare, id: int) -> None:
            while not self.has_ended:
                await self.ask(bare, request_bytes(call("pid", id), **session))

        await asyncio.gather(*(one(bare, id) for id, bare in enumerate(both)))


async def event(bare: Bare) -> Any:
    """Read the next message of a stream."""
    while True:
        line = await bare.reader.readuntil(b"\n")
        if line.startswith(b"data: {"):
            return json.loads(line[6:])


@pytest.mark.slow
async def test_a_roll_under_load_loses_nothing() -> None:
    """Calls of both eras go on, and one that asks is answered by the worker that was replaced meanwhile."""
    async with started() as server, AsyncExitStack() as stack, asyncio.timeout(4 * PATIENCE):
        first, _ = sorted([await server.says("opened") for _ in range(2)], key=int)
        load = Load(server, stack)
        asking, session = await load.session_at(first)
        asking.send(request_bytes(call("ask", 7), **session))
        assert (await asking.head())[0] == 200
        asked = await event(asking)
        forms = (load.modern, load.fresh, load.legacy, load.crowd)
        loads = [asyncio.create_task(each()) for each in forms for _ in range(2)]

        async def until(calls: int) -> None:
            while load.calls < calls:
                await asyncio.wait(loads, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
                assert load.failed == []

        await until(100)
        server.process.send_signal(signal.SIGHUP)
        await server.says("opened")
        await until(load.calls + 200)
        # In the session that cannot leave yet: it waits, and is served elsewhere.
        other = await load.connection()
        later = asyncio.create_task(load.ask(other, request_bytes(call("pid", 8), **session)))
        await until(load.calls + 50)
        answering = await load.connection()
        answering.send(request_bytes({"jsonrpc": "2.0", "id": asked["id"], "result": SAMPLED}, **session))
        assert (await answering.response())[0] == 202
        assert (await event(asking))["result"]["content"][0]["text"] == f"{first} hats {first}"
        await later
        for word in ("closed", "left", "opened", "closed", "left"):
            await server.says(word)
        await until(load.calls + 100)
        load.has_ended = True
        await asyncio.gather(*loads)
        assert load.failed == []
