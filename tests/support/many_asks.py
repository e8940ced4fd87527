"""A host that is asked many times at once, and says how the asks ended. Usage: PLACE COUNT."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

import msgspec

from antiphon.host import Host, Limits, Queue, open_store
from tests.host.asks import origin, request

NONE = Limits(per_minute=None, concurrent=None, pending_reviews=None, per_call=None, concurrent_per_call=None)


async def main(place: str, count: int) -> None:
    """Ask, wait for the answers, and print how many there are of each kind."""
    store = open_store(place)
    host = Host("echo", reviewer=Queue(store), limits=NONE, store=store, review_timeout=None)
    asker = origin()
    asks = (host(request(f"question {n}"), msgspec.structs.replace(asker, id=str(n))) for n in range(count))
    ends = await asyncio.gather(*asks, return_exceptions=True)
    print(dict(Counter(type(end).__name__ for end in ends)))
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
