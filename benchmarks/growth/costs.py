"""Measures what the simulation needs: processor time and bytes of calls, messages and sessions that are restored.

    python -m benchmarks.growth.costs [--engines redis,postgres] [--seconds N] > benchmarks/growth/costs.json

Calls are measured with many at once, since replicas and engine then take several messages in one go. As a check, the
same replicas also serve calls that arrive at each of them in turn; ``python -m benchmarks.growth`` predicts that rate.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, cast

import uvloop

from benchmarks.cluster import Engine, Replica, at_once, echo, engine, opening, operations, replicas, session_at
from benchmarks.load.http import connect
from benchmarks.machine import describe
from benchmarks.processes import Cores, cpu_of, place

WIDTH = 16
"""Calls at once."""
RESTORED = 1_000
"""Sessions that go on elsewhere."""


ROUNDS = 3
"""How often each way of calls is measured, in turn."""
OPENED = 3_000
"""Sessions that are opened."""


class Spent(NamedTuple):
    """What calls took, each: milliseconds of processor time, by where; and all of them together."""

    by_replica: list[float]
    engine: float
    rate: float
    median: float
    p99: float


async def traffic(url: str) -> tuple[int, int]:
    """Return the bytes that Redis has read and sent, and the commands it has carried out; nothing for PostgreSQL."""
    if not url.startswith("redis"):
        return 0, 0
    # Any: redis-py does not say what it returns.
    client: Any = cast("Any", import_module("redis.asyncio")).Redis.from_url(url)
    info = await client.info()
    await client.aclose()
    return info["total_net_input_bytes"] + info["total_net_output_bytes"], info["total_commands_processed"]


async def calls(
    all_of_them: Sequence[Replica], engine: Engine, seconds: float, routes: Callable[[int], tuple[int, int]]
) -> tuple[Spent, float, float]:
    """Make calls for a while; ``routes`` says for each of them where its session lives and where it arrives.

    Returns what they took, and each one's bytes and commands at the engine.
    """
    homes = sorted({routes(number)[0] for number in range(len(all_of_them) ** 2)})
    sessions = {home: [await session_at(all_of_them[home].port) for _ in range(WIDTH)] for home in homes}
    numbers, times = itertools.count(1), list[float]()

    async def caller(which: int, until: float) -> None:
        connections = [await connect(each.port) for each in all_of_them]
        while time.perf_counter() < until:
            number = next(numbers)
            home, at = routes(number)
            began = time.perf_counter()
            await echo(connections[at], all_of_them[at].port, sessions[home][which], number)
            times.append(time.perf_counter() - began)
        for connection in connections:
            connection.close()

    async def all_at_once(length: float) -> None:
        until = time.perf_counter() + length
        await asyncio.gather(*(caller(which, until) for which in range(WIDTH)))

    await all_at_once(0.5)
    times.clear()
    bytes_before, commands_before = await traffic(engine.url)
    before = [cpu_of([each.pid]) for each in all_of_them], cpu_of(engine.pids())
    began = time.perf_counter()
    await all_at_once(seconds)
    took, done = time.perf_counter() - began, len(times)
    after = [cpu_of([each.pid]) for each in all_of_them], cpu_of(engine.pids())
    bytes_after, commands_after = await traffic(engine.url)
    each = [1000 * (now - then) / done for now, then in zip(after[0], before[0], strict=True)]
    cut = statistics.quantiles(times, n=100)
    spent = Spent(each, 1000 * (after[1] - before[1]) / done, done / took, 1000 * cut[49], 1000 * cut[98])
    return spent, (bytes_after - bytes_before) / done, (commands_after - commands_before) / done


async def restored(all_of_them: list[Replica], engine: Engine) -> tuple[float, float]:
    """Kill a replica, and use its sessions elsewhere; return what each takes there and at the engine, with its call."""
    gone, other = all_of_them[2], all_of_them[0]
    sessions = [await session_at(gone.port) for _ in range(RESTORED)]
    gone.process.kill()
    gone.process.wait()
    await asyncio.sleep(3)
    connection = await connect(other.port)
    before = cpu_of([other.pid]), cpu_of(engine.pids())
    for number, session in enumerate(sessions):
        await echo(connection, other.port, session, number)
    after = cpu_of([other.pid]), cpu_of(engine.pids())
    connection.close()
    return 1000 * (after[0] - before[0]) / RESTORED, 1000 * (after[1] - before[1]) / RESTORED


async def single(engine: Engine, count: int = 2_000) -> dict[str, float]:
    """Return the engine's milliseconds for single operations, so many at once."""
    mine, other = engine.cluster(), engine.cluster()
    for each in (mine, other):
        await each.open()
        each.listen("topic", lambda _sender, _data: None)
    found: dict[str, float] = {}
    for name, operation in operations(mine, other).items():
        before = cpu_of(engine.pids())
        # Events of one stream are stored in order.
        await at_once(operation, range(count), 1 if "event" in name else WIDTH)
        found[name.split()[0]] = 1000 * (cpu_of(engine.pids()) - before) / count
    for each in (mine, other):
        await each.close()
    return found


def middle(rounds: Sequence[Spent]) -> Spent:
    """Return the medians of several rounds."""
    by_replica = [statistics.median(column) for column in zip(*(each.by_replica for each in rounds), strict=True)]
    engine, rate, median, p99 = (
        statistics.median(column) for column in zip(*(each[1:] for each in rounds), strict=True)
    )
    return Spent(by_replica, engine, rate, median, p99)


async def measured(found: Engine, cores: Cores, seconds: float) -> dict[str, Any]:
    """Measure one engine."""
    operation = await single(found)
    routes: dict[str, Callable[[int], tuple[int, int]]] = {
        "home": lambda _: (0, 0),
        "one way": lambda _: (0, 1),
        "elsewhere": lambda number: ((number + 1) % 3, number % 3),
        "turns": lambda number: (number // 3 % 3, number % 3),
    }
    runs: dict[str, list[Spent]] = {name: [] for name in routes}
    size = commands = 0.0
    async with replicas(found.url, cores) as all_of_them:
        for _ in range(ROUNDS):
            for name, route in routes.items():
                spent, *more = await calls(all_of_them, found, seconds, route)
                runs[name].append(spent)
                if name == "elsewhere":
                    size, commands = more
        before = cpu_of([each.pid for each in all_of_them])
        await opening([each.port for each in all_of_them], OPENED)
        opened = 1000 * (cpu_of([each.pid for each in all_of_them]) - before) / OPENED
        restore = await restored(all_of_them, found)
    home, one_way, elsewhere, turns = (middle(runs[name]) for name in routes)
    lookup = operation["get"] + operation["ask"]
    # With the processor always busy, a call takes the time of one: also what the system does for no process.
    share = 1000 / elsewhere.rate / (sum(elsewhere.by_replica) + elsewhere.engine)
    arriving = sum(elsewhere.by_replica) * one_way.by_replica[1] / sum(one_way.by_replica)
    return {
        "costs": {
            "home": home.by_replica[0],
            "arrival": share * arriving,
            "away": share * (sum(elsewhere.by_replica) - arriving),
            "lookup": lookup,
            "message": max(0.0, share * elsewhere.engine - lookup) / 2,
            "operation": operation["ask"],
            "store": operation["replace"],
            "restore": max(0.0, restore[0] - home.by_replica[0]),
            "open": opened,
            "relay_bytes": size,
        },
        "commands": commands,
        "publish": operation["publish"],
        "append": operation["append"],
        "system": share,
        "turns": {"rate": turns.rate, "median": turns.median, "p99": turns.p99},
    }


async def main() -> None:
    """Measure, and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default="redis,postgres")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    cores, result = Cores(), dict[str, Any]()
    place([os.getpid()], cores.load)
    result["machine"] = describe()
    for name in options.engines.split(","):
        with engine(name, cores) as found:
            result[found.name] = await measured(found, cores, options.seconds)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    uvloop.run(main())
