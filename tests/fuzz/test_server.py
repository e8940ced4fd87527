"""Mutated frames into a whole server, over a channel: it answers, it does not hang, it does not grow."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.transports.queued import memory_pair
from tests.fuzz.attacker import Attacker
from tests.fuzz.corpus import frames_of
from tests.fuzz.growth import Growth
from tests.fuzz.mutation import Mutator, encoded
from tests.interop.our_server import server

SHORT, LONG = 3_000, 100_000
RUNS = [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.slow)]
EPISODE = 500
"""Frames until the connection is replaced, so that the handshake is fuzzed as well."""
VERSIONS = [None, "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


def opening(version: str | None) -> list[bytes]:
    """Make the frames of a proper handshake; ``None``: there is none, and the fuzz must find its own."""
    if version is None:
        return []
    capabilities = {"sampling": {"tools": {}}, "elicitation": {"form": {}}, "roots": {}}
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "fuzz", "version": "1"}}
    return [
        encoded({"jsonrpc": "2.0", "id": "opening", "method": "initialize", "params": params}),
        encoded({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ]


async def episode(mutator: Mutator, number: int) -> None:
    """Attack one connection of the server, and see it end properly."""
    ours, theirs = memory_pair()
    serving = asyncio.create_task(server.serve(theirs))
    attacker = Attacker(ours, mutator, seed=number)
    for frame in opening(VERSIONS[number % len(VERSIONS)]):
        await attacker.send(frame)
    await attacker.attack(EPISODE)
    await attacker.finish()
    await asyncio.wait_for(serving, 60)


@pytest.mark.parametrize("count", RUNS)
async def test_a_server_survives_and_answers(count: int, seed: int, quiet: None):
    """No crash, no hang, one reply for every request, no task left; in the long run, no growth."""
    mutator = Mutator(frames_of("client"), seed)
    episodes = count // EPISODE
    with Growth() as growth:
        async with server._service.serving():
            for number in range(episodes):
                await episode(mutator, number)
                if count == LONG and number == episodes // 3:
                    growth.begin()
    assert asyncio.all_tasks() == {asyncio.current_task()}
