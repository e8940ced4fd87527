"""A host that can be stopped where it matters: run as ``python -m tests.support.standing PLACE TOTAL NAME``.

It asks for one completion of at most 100 tokens, under a cap of ``TOTAL`` tokens for everybody on the store, and says
where it is, one word a line: ``asked`` when its person is asked, ``sent`` when its provider is called. It goes on when
a line comes. At last it says how it ended. ``NAME`` is the name it has in the store, as of another machine, or
``own`` for that of this process.
"""

from __future__ import annotations

import asyncio
import sys

from antiphon.errors import Rejected
from antiphon.host import Approve, Budget, Cap, Host, digest, open_store
from antiphon.host.budget import input_estimate
from antiphon.host.providers.base import Completion, Usage
from antiphon.wire.sampling import text_answer
from tests.host.asks import Person, origin, request

ANSWER = 100


async def line() -> None:
    """Wait for a line."""
    await asyncio.to_thread(sys.stdin.readline)


class Provider:
    """Takes all that it may, when it is told to."""

    name = "greedy"
    tools = True
    personal = False

    async def complete(self, params, *, model=None):
        return (await self.generate(params)).result

    async def generate(self, params, *, model=None, fallbacks=()):
        print("sent", flush=True)
        await line()
        usage = Usage(input_tokens=input_estimate(params), output_tokens=params.max_tokens)
        return Completion(result=text_answer("ok", "m"), usage=usage)


class Approving(Person):
    """Approves, when it is told to."""

    async def review(self, item):
        print("asked", flush=True)
        await line()
        return Approve(digest=digest(item.params))


async def main(place: str, total: int, name: str) -> None:
    """Ask once."""
    store = open_store(place)
    if name != "own":
        store.host = name
    budget = Budget(total=Cap(tokens=total), call=Cap(), day=Cap())
    host = Host(Provider(), reviewer=Approving(lambda item: None), store=store, budget=budget)
    try:
        await host(request(max_tokens=ANSWER), origin("1", call="call-1"))
    except Rejected as refused:
        print(refused.data["reason"], flush=True)
    else:
        print("answered", flush=True)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
