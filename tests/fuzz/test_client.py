"""Mutated frames into a whole client, over a channel: its calls end, it answers what it must, it does not grow."""

from __future__ import annotations

import asyncio
import random

import pytest

from antiphon import Client
from antiphon.errors import AntiphonError
from tests.fuzz.corpus import frames_of
from tests.fuzz.growth import Growth
from tests.fuzz.mutation import Mutator
from tests.fuzz.saboteur import Saboteur
from tests.interop.answers import Answerer

SHORT, LONG = 3_000, 100_000
RUNS = [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.slow)]
EPISODE = 500
"""Frames until the client is replaced, so that each revision and many openings are seen."""
REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


async def attempt(client: Client, kind: int) -> None:
    """Make one call; it may fail, but only with an error of this library's that says why."""
    calls = [
        lambda: client.call_tool("echo", {"text": "hi"}),
        client.list_tools,
        lambda: client.read_resource("note://welcome"),
        lambda: client.get_prompt("review", {"language": "python"}),
        lambda: client.complete("review", "language", "p"),
        client.ping,
    ]
    (done,) = await asyncio.gather(calls[kind % len(calls)](), return_exceptions=True)
    if isinstance(done, BaseException):
        if not isinstance(done, AntiphonError):
            raise done
        assert str(done)


async def episode(mutator: Mutator, number: int) -> int:
    """Let one client make calls to the saboteur; returns how many mutated frames it got."""
    chance = random.Random(number)
    saboteur = Saboteur(mutator, seed=number)
    answerer = Answerer()
    revision = REVISIONS[number % len(REVISIONS)]
    async with Client(
        saboteur,
        sampling=answerer.sample,
        elicitation=answerer.elicit,
        roots=["file:///a"],
        revision=revision,
        timeout=10,
    ) as client:
        while saboteur.sent < EPISODE:
            await asyncio.wait_for(asyncio.gather(*(attempt(client, chance.randrange(60)) for _ in range(4))), 60)
        if revision != "2026-07-28":
            await saboteur.settled()
    return saboteur.sent


@pytest.mark.parametrize("count", RUNS)
async def test_a_client_survives_and_answers(count: int, seed: int, quiet: None):
    """No crash, no hang, one reply for every ask, no task left; in the long run, no growth."""
    mutator = Mutator(frames_of("server"), seed)
    sent, number = 0, 0
    with Growth() as growth:
        while sent < count:
            sent += await episode(mutator, number)
            number += 1
            if count == LONG and number == LONG // EPISODE // 3:
                growth.begin()
    assert asyncio.all_tasks() == {asyncio.current_task()}
