"""What the programs with the frameworks' own clients share: ``python -m tests.adapters.own_clients.NAME ADDRESSES``.

ADDRESSES is JSON: the URL of each revision. The program runs each case on each revision, and writes a line of JSON when
a case begins, when its user is asked about the call, and when it ends, with what the agent's model got. After each line
it waits for one of its standard input, so that the program which measures can look at the server meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable

from tests.adapters.matrix import TOOLS

__all__ = ["DECISIONS", "start", "tell_asked"]

PATIENCE = 60.0
"""Seconds for one case: what takes longer hangs."""
DECISIONS = ("approve", "edit", "refuse")
"""The cases in which the framework asks its user about the call."""
DrivesCase = Callable[[str, str], Awaitable[str]]
"""Has an agent call the tool of a case on the server at a URL; returns all that its model got."""


async def tell(**event: object) -> str:
    """Tell what happens, and wait until the other side has looked at the server; return what it answers."""
    print(json.dumps(event), flush=True)
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


async def tell_asked() -> None:
    """Tell that the user is asked about the call, which must not have run yet."""
    await tell(event="asked")


async def run_cases(drive: DrivesCase) -> None:
    """Run all cases on each revision."""
    for revision, url in json.loads(sys.argv[1]).items():
        for case in TOOLS:
            await tell(event="begun", revision=revision, case=case)
            running = asyncio.ensure_future(asyncio.wait_for(drive(url, case), PATIENCE))
            if case == "cancel":
                while not running.done() and await tell(event="running") != "waits":
                    await asyncio.wait([running], timeout=0.05)
                running.cancel()
            try:
                got = await running
            except BaseException as error:  # A group of errors may hold the reason.
                got = f"{type(error).__name__}: {error} {getattr(error, 'exceptions', '')}"
            await tell(event="ended", case=case, got=got)


def start(drive: DrivesCase) -> None:
    """Run the program."""
    asyncio.run(run_cases(drive))
