"""A worker: it goes on with calls of others, tells them of changes, and outlives no parent."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack

from antiphon import BY_HAND, PendingRound
from tests.support.raw_client import said
from tests.support.started_workers import PATIENCE, started
from tests.support.worker_program import URI


async def test_workers_share_connections_keys_and_notices() -> None:
    """A call that one worker began goes on in another, a change in one is heard at another, and Ctrl-C ends all."""
    async with started() as server, AsyncExitStack() as stack:
        one, other = [await server.says("opened") for _ in range(2)]
        first = await server.client_of(one, stack, sampling=BY_HAND)
        second = await server.client_of(other, stack, sampling=BY_HAND)

        step = await first.rounds.call_tool("ask")
        assert isinstance(step, PendingRound)
        [key] = step.asks
        assert (await second.rounds.resume(step, {key: said("hats")})).text == f"{one} hats {other}"

        async with first.listen(uris=[URI]) as changes:
            await second.call_tool("sell")
            async with asyncio.timeout(PATIENCE):
                async for _change in changes:
                    break
        # As a terminal does, to every process of the group.
        os.killpg(server.process.pid, signal.SIGINT)
        assert await server.rest() == ["closed", "closed", "left", "left", "left"]
        assert server.process.returncode == 0
