"""What an engine costs that three replicas share: calls, notices to all clients, idle sessions, single operations.

    python -m benchmarks.cluster [--engines redis,postgres] [--seconds N] [--rounds N] [--sessions N]

The page goes to standard output. Each engine is started for this (``redis-server`` and PostgreSQL must be installed),
with empty data. The load has a core of its own; the replicas and the engine share the other one. On a machine that
has other work as well, the processor time of a call is the figure to compare.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

import uvloop

from antiphon.replicas.engines.base import Cluster
from antiphon.server import PostgresCluster, RedisCluster
from benchmarks.load.http import Connection, connect, exchange
from benchmarks.load.http_load import legacy_head, open_session
from benchmarks.load.messages import call
from benchmarks.machine import describe
from benchmarks.processes import Cores, cpu_of, environment, family, place, start, stop
from benchmarks.workloads.servers import listens
from tests.support.ports import free_port
from tests.support.postgres import own_postgres
from tests.support.redis import own_redis

WIDTH = 16
"""Calls at once, where throughput is measured."""
REPLICAS = 3
LISTENERS = 10
"""Clients of each replica that hear notices."""
WARM = 20
"""Notices that are not counted."""
PATIENCE = 60.0
SERVER = """
import os, sys
from antiphon import Server
from antiphon.server import PostgresCluster, RedisCluster

url = os.environ["ENGINE"]
cluster = None if not url else RedisCluster(url) if url.startswith("redis") else PostgresCluster(url)
server = Server("bench", tool_rate=None, keys=[b"k" * 32], cluster=cluster)

@server.tool(structured=False)
async def echo(text: str) -> str:
    return text

@server.tool(structured=False)
async def change() -> str:
    server.resource_updated("bench://thing")
    return "changed"

@server.resource("bench://thing")
def thing() -> str:
    return "thing"

server.run("http", port=int(sys.argv[1]), max_sessions=1_000_000)
"""
SUBSCRIBE = b'{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"bench://thing"}}'


class Engine(NamedTuple):
    """An engine that runs for this."""

    name: str
    url: str
    pids: Callable[[], list[int]]
    """Its processes, as far as they use processor time."""

    def cluster(self) -> Cluster:
        """Return a further replica's part in it."""
        return RedisCluster(self.url) if self.name == "Redis" else PostgresCluster(self.url)

    async def size(self) -> int:
        """Return the bytes it has for what it keeps."""
        # Any: neither library says what it returns.
        if self.name == "Redis":
            client: Any = cast("Any", import_module("redis.asyncio")).Redis.from_url(self.url)
            info = await client.info("memory")
            await client.aclose()
            return int(info["used_memory"])
        connection: Any = await cast("Any", import_module("asyncpg")).connect(self.url)
        try:
            return int(await connection.fetchval("SELECT pg_total_relation_size('antiphon_records')"))
        finally:
            await connection.close()


@contextmanager
def engine(name: str, cores: Cores) -> Generator[Engine]:
    """Run an engine on the core of the replicas."""
    before = set(family(os.getpid())) | set(family(1))
    with cores.on(cores.servers):
        if name == "redis":
            with own_redis() as redis:
                [pid] = [each for each in family(os.getpid()) if named(each) == "redis-server"]
                yield Engine("Redis", redis.url, lambda: [pid])
            return
        with own_postgres() as postgres:
            [main] = [
                each for each in family(1) if each not in before and named(each) == "postgres" and not is_child(each)
            ]
            yield Engine("PostgreSQL", postgres.address, lambda: family(main))


def named(pid: int) -> str:
    """Return the name of a process; empty if there is none."""
    try:
        return (Path("/proc") / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def is_child(pid: int) -> bool:
    """Tell whether a process of PostgreSQL was started by another one of it."""
    return named(int(re.findall(r"PPid:\s+(\d+)", (Path("/proc") / str(pid) / "status").read_text())[0])) == "postgres"


class Replica(NamedTuple):
    """A replica that listens."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def memory(self) -> int:
        """Return the bytes that it holds by itself."""
        text = (Path("/proc") / str(self.pid) / "smaps_rollup").read_text()
        return sum(int(found) for found in re.findall(r"^Private_\w+:\s+(\d+) kB", text, re.MULTILINE)) * 1024


@asynccontextmanager
async def replicas(url: str, cores: Cores, count: int = REPLICAS) -> AsyncGenerator[list[Replica]]:
    """Run replicas of the server; without an engine where the URL is empty."""
    found: list[Replica] = []
    try:
        for _ in range(count):
            port = free_port()
            command = [sys.executable, "-c", SERVER, str(port)]
            found.append(Replica(start(command, cores, env=environment({"ENGINE": url}), pipes=False), port))
        async with asyncio.timeout(PATIENCE):
            for each in found:
                while not listens(each.port):
                    if each.process.poll() is not None:
                        raise SystemExit("a replica does not start")
                    await asyncio.sleep(0.05)
        yield found
    finally:
        for each in found:
            stop(each.process)


# --- calls --------------------------------------------------------------------------------------------------------


class Calls(NamedTuple):
    """What was found about one way that a call takes."""

    p50: float
    """Milliseconds of one call after another."""
    here: float
    """Milliseconds of processor time where it arrives, home included if that is the same."""
    home: float
    """Milliseconds of processor time at the home."""
    engine: float
    rate: float
    """Calls a second, ``WIDTH`` at once."""


async def session_at(port: int) -> bytes:
    """Open a session at a replica; its connection is closed."""
    connection = await connect(port)
    try:
        return await open_session(connection, port)
    finally:
        connection.close()


async def echo(connection: Connection, port: int, session: bytes, number: int) -> None:
    """Make one call, and check its answer."""
    body = call(number, b"echo", b'{"text":"hello"}', modern=False)
    status, messages = await exchange(connection, legacy_head(port, session), body)
    if status != 200 or not messages or b'"hello"' not in messages[-1]:
        raise SystemExit(f"wrong answer: {status} {messages[:1]!r}"[:300])


async def measured(arrive: Replica, home: Replica, engine: Engine | None, seconds: float) -> Calls:
    """Measure calls of sessions that live at ``home`` and arrive at ``arrive``."""
    sessions = [await session_at(home.port) for _ in range(WIDTH)]
    connections = [await connect(arrive.port) for _ in sessions]
    for connection, session in zip(connections, sessions, strict=True):
        await echo(connection, arrive.port, session, 0)
    times: list[float] = []

    def spent() -> tuple[float, float, float]:
        return cpu_of([arrive.pid]), cpu_of([home.pid]), cpu_of(engine.pids()) if engine is not None else 0.0

    before, until = spent(), time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 5:
        began = time.perf_counter()
        await echo(connections[0], arrive.port, sessions[0], len(times) + 1)
        times.append(time.perf_counter() - began)
    each = [1000 * (now - then) / len(times) for now, then in zip(spent(), before, strict=True)]
    done, began = 0, time.perf_counter()

    async def calls(connection: Connection, session: bytes) -> None:
        nonlocal done
        number = len(times) + 1
        while time.perf_counter() < began + seconds:
            number += 1
            await echo(connection, arrive.port, session, number)
            done += 1

    await asyncio.gather(*(calls(*pair) for pair in zip(connections, sessions, strict=True)))
    rate = done / (time.perf_counter() - began)
    for connection in connections:
        connection.close()
    return Calls(statistics.median(times) * 1000, each[0], 0.0 if home is arrive else each[1], each[2], rate)


async def call_rows(engine: Engine, cores: Cores, seconds: float, rounds: int) -> None:
    """Print what calls cost, in turns: without an engine, at the home of their session, and elsewhere."""
    found: dict[str, list[Calls]] = {"without an engine": [], "at the home of its session": [], "elsewhere": []}
    async with replicas("", cores, 1) as [alone], replicas(engine.url, cores) as [one, other, _]:
        for _ in range(rounds):
            found["without an engine"].append(await measured(alone, alone, None, seconds))
            found["at the home of its session"].append(await measured(one, one, engine, seconds))
            found["elsewhere"].append(await measured(other, one, engine, seconds))
    print(
        "\n| an echo | p50 ms | CPU ms where it arrives | at home | in the engine | "
        f"calls/s, {WIDTH} at once | ratio |\n|---|{'---:|' * 6}"
    )
    base = found["without an engine"]
    for name, figures in found.items():
        middle = [statistics.median(column) for column in zip(*figures, strict=True)]
        ratio = statistics.median(mine.rate / its.rate for mine, its in zip(figures, base, strict=True))
        print(
            f"| {name} | {middle[0]:.3f} | {middle[1]:.3f} | {middle[2]:.3f} | {middle[3]:.3f} | {middle[4]:,.0f} "
            f"| {ratio:.2f} |",
            flush=True,
        )


# --- notices ------------------------------------------------------------------------------------------------------


async def listener(port: int, heard: Callable[[float], None]) -> list[Connection]:
    """Open a session that subscribes, and a stream of it that calls back at each notice."""
    connection = await connect(port)
    session = await open_session(connection, port)
    status, _ = await exchange(connection, legacy_head(port, session), SUBSCRIBE)
    if status != 200:
        raise SystemExit(f"subscribe: {status}")
    stream = await connect(port)

    def take(message: bytes) -> None:
        if b"notifications/resources/updated" in message:
            heard(time.perf_counter())

    stream.on_message = take
    stream.request(legacy_head(port, session, b"GET"), b"")
    return [connection, stream]


async def notice_rows(engine: Engine, cores: Cores, count: int) -> None:
    """Print how long notices take to all clients of all replicas."""
    async with replicas(engine.url, cores) as all_of_them:
        began, left, done = 0.0, 0, asyncio.Event()
        near: list[float] = []
        far: list[float] = []

        def hear(times: list[float]) -> Callable[[float], None]:
            def heard(now: float) -> None:
                nonlocal left
                times.append(now - began)
                left -= 1
                if not left:
                    done.set()

            return heard

        opened: list[Connection] = []
        for number, each in enumerate(all_of_them):
            for _ in range(LISTENERS):
                opened += await listener(each.port, hear(far if number else near))
        port = all_of_them[0].port
        session = await session_at(port)
        caller = await connect(port)
        for number in range(count + WARM):
            if number == WARM:
                near.clear()
                far.clear()
            left, began = REPLICAS * LISTENERS, time.perf_counter()
            done.clear()
            await exchange(caller, legacy_head(port, session), call(number + 1, b"change", b"{}", modern=False))
            async with asyncio.timeout(PATIENCE):
                await done.wait()
            await asyncio.sleep(0.01)
        for connection in (*opened, caller):
            connection.close()
    print(f"\n| a notice, from the call to {LISTENERS} clients each | p50 ms | p99 ms |\n|---|---:|---:|")
    for name, times in (("of the same replica", near), ("of the two others", far)):
        cut = statistics.quantiles(times, n=100)
        print(f"| {name} | {1000 * statistics.median(times):.1f} | {1000 * cut[98]:.1f} |", flush=True)


# --- sessions -----------------------------------------------------------------------------------------------------


async def opening(ports: list[int], count: int) -> float:
    """Open sessions at the replicas in turns, ``WIDTH`` at once; return the seconds it took."""
    left, began = iter(range(count)), time.perf_counter()

    async def worker() -> None:
        connections = {port: await connect(port) for port in ports}
        for number in left:
            port = ports[number % len(ports)]
            await open_session(connections[port], port)
        for connection in connections.values():
            connection.close()

    await asyncio.gather(*(worker() for _ in range(WIDTH)))
    return time.perf_counter() - began


async def session_rows(engine: Engine | None, cores: Cores, count: int) -> None:
    """Print what idle sessions cost in memory, and to open."""
    url = "" if engine is None else engine.url
    async with replicas(url, cores) as found:
        ports = [each.port for each in found]
        await opening(ports, 300)
        memory = sum(each.memory() for each in found)
        kept = 0 if engine is None else await engine.size()
        before = cpu_of([each.pid for each in found]), 0.0 if engine is None else cpu_of(engine.pids())
        took = await opening(ports, count)
        after = cpu_of([each.pid for each in found]), 0.0 if engine is None else cpu_of(engine.pids())
        # The engine may free and collect for a moment.
        await asyncio.sleep(1)
        memory = sum(each.memory() for each in found) - memory
        kept = 0 if engine is None else await engine.size() - kept
    name = "no engine" if engine is None else engine.name
    cpu = [1000 * (now - then) / count for now, then in zip(after, before, strict=True)]
    print(
        f"| {name} | {memory / count / 1000:.1f} | {kept / count / 1000:.1f} | {cpu[0]:.3f} | {cpu[1]:.3f} "
        f"| {count / took:,.0f} |",
        flush=True,
    )


# --- operations ---------------------------------------------------------------------------------------------------


def operations(mine: Cluster, other: Cluster) -> dict[str, Callable[[int], Awaitable[object]]]:
    """Return what is measured of the engine by itself."""
    record, event = b"r" * 500, b"e" * 300
    return {
        "get a record of 500 bytes": lambda _: mine.get("key"),
        "put one": lambda number: mine.put(f"key/{number % 1000}", record, 60),
        "replace one": lambda _: mine.replace("key", record, 60, expected=record),
        "ask whether a replica is alive": lambda _: mine.is_alive(other.replica),
        "append an event of 300 bytes": lambda number: mine.append("stream", number + 1, event),
        "send a message of 1,000 bytes, which is read": lambda _: mine.send(other.replica, "topic", b"m" * 1000),
        "publish one to 2 others, which read it": lambda _: mine.publish("topic", b"m" * 1000),
    }


async def operation_rows(engine: Engine, count: int) -> None:
    """Print what single operations cost."""
    mine, other, third = [engine.cluster() for _ in range(3)]
    for each in (mine, other, third):
        await each.open()
        each.listen("topic", lambda _sender, _data: None)
    await mine.put("key", b"r" * 500, 60)
    print(
        f"\n| an operation | p50 ms, one after another | a second, {WIDTH} at once | CPU ms in the replicas | "
        "in the engine |\n|---|---:|---:|---:|---:|"
    )
    for name, operation in operations(mine, other).items():
        times: list[float] = []
        for number in range(count):
            began = time.perf_counter()
            await operation(number)
            times.append(time.perf_counter() - began)
        before, began, more = (time.process_time(), cpu_of(engine.pids())), time.perf_counter(), 4 * count
        # Events of one stream are stored in order.
        await at_once(operation, range(count, count + more), 1 if "event" in name else WIDTH)
        rate = more / (time.perf_counter() - began)
        after = time.process_time(), cpu_of(engine.pids())
        cpu = [(now - then) * 1000 / more for now, then in zip(after, before, strict=True)]
        median = 1000 * statistics.median(times)
        print(f"| {name} | {median:.3f} | {rate:,.0f} | {cpu[0]:.3f} | {cpu[1]:.3f} |", flush=True)
    for each in (mine, other, third):
        await each.close()


async def at_once(operation: Callable[[int], Awaitable[object]], numbers: Iterable[int], width: int) -> None:
    """Carry an operation out for each number, so many at once."""
    left = iter(numbers)

    async def some() -> None:
        for number in left:
            await operation(number)

    await asyncio.gather(*(some() for _ in range(width)))


async def run(options: argparse.Namespace) -> None:
    """Measure everything, and print the page."""
    cores, machine = Cores(), describe()
    place([os.getpid()], cores.load)
    print(
        "# What replicas and their engine cost\n\n"
        f"Python {machine['python']}, {machine['cores']} cores ({machine['processor']}), {machine['date']}; "
        f"load when begun {os.getloadavg()[0]:.1f}. `python -m benchmarks.cluster`"
    )
    for name in options.engines.split(","):
        with engine(name, cores) as one:
            print(f"\n## {one.name}", flush=True)
            if "calls" in options.only:
                await call_rows(one, cores, options.seconds, options.rounds)
            if "notices" in options.only:
                await notice_rows(one, cores, options.notices)
            if "operations" in options.only:
                await operation_rows(one, options.operations)
            if "sessions" in options.only:
                print(
                    f"\n| {options.sessions:,} idle sessions in {REPLICAS} replicas | kB each, in the replicas "
                    "| in the engine | CPU ms to open one, in the replicas | in the engine | opened a second |\n"
                    f"|---|{'---:|' * 5}"
                )
                await session_rows(None, cores, options.sessions)
                await session_rows(one, cores, options.sessions)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Measure replicas that share an engine.")
    parser.add_argument("--engines", default="redis,postgres")
    parser.add_argument("--only", default="calls,notices,operations,sessions")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--notices", type=int, default=200)
    parser.add_argument("--operations", type=int, default=500)
    parser.add_argument("--sessions", type=int, default=10_000)
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
