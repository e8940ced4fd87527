"""A host that works until it is killed: run as ``python -m tests.support.soaking PLACE LOG LEASE NAME``.

It asks without end, four at once, for servers that change every few seconds, each with a cap that all hosts share. Some
asks are allowed by policy, some reviewed; its own person approves. ``NAME`` is the name it has in the store, as of
another machine, or ``own``. What its provider took is written to LOG before anybody is told.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from itertools import count
from pathlib import Path

from antiphon.errors import AntiphonError
from antiphon.host import Approve, Budget, Cap, Host, Limits, Policy, Rule, digest
from antiphon.host.budget import input_estimate
from antiphon.host.providers.base import Completion, Usage
from antiphon.host.store.sql_store import SqlStore
from antiphon.sql.database_store import runner_at
from antiphon.wire.origin import Origin, OriginCall
from antiphon.wire.sampling import text_answer
from tests.host.asks import Person, request

CAP = 20_000
"""Tokens that all hosts together may spend for one server: reached within seconds."""
FREE = Limits(per_minute=None, concurrent=None, per_call=None, concurrent_per_call=None)


class Provider:
    """Takes a moment, and as much as it likes of what it may."""

    name = "soaking"
    tools = True
    personal = False

    def __init__(self, log: int) -> None:
        self._log = log

    async def complete(self, params, *, model=None):
        return (await self.generate(params)).result

    async def generate(self, params, *, model=None, fallbacks=()):
        usage = Usage(input_tokens=input_estimate(params), output_tokens=random.randrange(params.max_tokens))
        taken = usage.input_tokens + usage.output_tokens
        os.write(self._log, f"sent {params.metadata['ask']} {params.metadata['server']} {taken}\n".encode())
        await asyncio.sleep(random.random() * 0.05)
        return Completion(result=text_answer("ok", "m"), usage=usage)


class Hasty(Person):
    """Approves after a moment."""

    async def review(self, item):
        await asyncio.sleep(random.random() * 0.1)
        return Approve(digest=digest(item.params))


async def main(place: str, log_path: str, lease: float, name: str) -> None:
    """Ask."""
    log = os.open(log_path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    store = SqlStore(runner_at(place, extra="host"), lease=lease)
    if name != "own":
        store.host = name
    host = Host(
        Provider(log),
        reviewer=Hasty(lambda item: None),
        policy=Policy(rules=(Rule(effect="allow", server="command:even-*"),)),
        store=store,
        limits=FREE,
        budget=Budget(server=Cap(tokens=CAP), call=Cap(), day=Cap()),
    )
    numbers = count()

    async def ask() -> None:
        while True:
            number = next(numbers)
            server = f"command:{'even' if number % 2 else 'odd'}-{int(time.time()) // 3}"
            id = f"{os.getpid()}-{number}"
            origin = Origin(
                id=id, identity=server, target=server, call=OriginCall(id=id, method="tools/call", name="x")
            )
            try:
                await host(request(max_tokens=200, metadata={"ask": id, "server": server}), origin)
            except AntiphonError:
                # Refused by the budget, or the store could not be reached: the next one may go.
                await asyncio.sleep(0.05)
            else:
                os.write(log, f"answered {id}\n".encode())

    await asyncio.gather(*(ask() for _ in range(4)))


if __name__ == "__main__":
    Path(sys.argv[2]).touch()
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]))
