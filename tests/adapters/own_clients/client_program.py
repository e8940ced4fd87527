"""What the programs with the frameworks' own clients share: ``python -m tests.adapters.own_clients.NAME ADDRESSES``.

ADDRESSES is JSON: the URL of each revision. For each revision and case a line is written: what the agent's model got.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.adapters.matrix import TOOLS

PATIENCE = 10.0
"""Seconds for one case: what takes longer hangs."""
DrivesUrl = Callable[[str, str, Mapping[str, Any]], Awaitable[str]]
"""Has an agent call a tool of the server at a URL; returns all that its model got."""


async def run_cases(drive: DrivesUrl) -> None:
    """Run all cases that need no decision of a host, on each revision."""
    for revision, url in json.loads(sys.argv[1]).items():
        for case in sorted({*TOOLS} - {"approve", "edit", "refuse", "budget"}):
            name, arguments = TOOLS[case]
            try:
                # A call that never ends is cancelled by this; the server says whether it has heard of it.
                got = await asyncio.wait_for(drive(url, name, arguments), PATIENCE)
            except BaseException as error:  # A group of errors may hold the reason.
                got = f"{type(error).__name__}: {error} {getattr(error, 'exceptions', '')}"
            print(json.dumps({"revision": revision, "case": case, "got": got}), flush=True)


def start(drive: DrivesUrl) -> None:
    """Run the program."""
    asyncio.run(run_cases(drive))
