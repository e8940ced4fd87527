"""A process that spends: run as ``python -m tests.support.spending PLACE COUNT TOTAL``.

It opens the store, says so, waits for a line, asks so many requests at once of 100 tokens each, and prints how each
ended. All are allowed by policy; the budget is ``TOTAL`` tokens for everybody on the store.
"""

from __future__ import annotations

import asyncio
import json
import sys

from antiphon.errors import Rejected
from antiphon.host import Budget, Cap, Host, Limits, Policy, open_store
from antiphon.host.budget import input_estimate
from antiphon.host.providers.base import Completion, Usage
from antiphon.wire.sampling import text_answer
from tests.host.asks import origin, request

ANSWER = 100
FREE = Limits(per_minute=None, concurrent=None, per_call=None, concurrent_per_call=None)


class Greedy:
    """Takes all that it may."""

    name = "greedy"
    tools = True
    personal = False

    async def complete(self, params, *, model=None):
        return (await self.generate(params)).result

    async def generate(self, params, *, model=None, fallbacks=()):
        await asyncio.sleep(0)
        usage = Usage(input_tokens=input_estimate(params), output_tokens=params.max_tokens)
        return Completion(result=text_answer("ok", "m"), usage=usage)


async def one(host: Host, number: int) -> str:
    """Ask once. Returns how it ended."""
    try:
        await host(request(max_tokens=ANSWER), origin(str(number), call=f"call-{number}"))
    except Rejected as refused:
        return refused.data["reason"]
    return "answered"


async def main(place: str, count: int, total: int) -> None:
    """Spend."""
    store = open_store(place)
    budget = Budget(total=Cap(tokens=total))
    host = Host(Greedy(), reviewer=None, policy=Policy(default="allow"), store=store, limits=FREE, budget=budget)
    await store.holds()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    outcomes = await asyncio.gather(*(one(host, number) for number in range(count)))
    await store.aclose()
    print(json.dumps(outcomes), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
