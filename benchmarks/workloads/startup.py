"""What a server costs before it is asked much: loading, starting, memory after the start and of each idle session."""

from __future__ import annotations

import asyncio
import subprocess
import time

from benchmarks.figures import Figures
from benchmarks.load.http import connect
from benchmarks.load.http_load import open_session
from benchmarks.load.messages import call
from benchmarks.load.operations import Operation
from benchmarks.load.stdio import Pipes
from benchmarks.peers.catalogue import Peer
from benchmarks.processes import ROOT, environment, memory_of
from benchmarks.workloads.servers import Servers, Unavailable

__all__ = ["measure_sessions", "measure_startup"]

WARM_SESSIONS = 200
SETTLING = 0.3
"""Seconds in which a server may put away what opening a session left."""


async def measure_startup(servers: Servers, name: str, peer: Peer) -> Figures:
    """Load a library, and start its server on stdio: milliseconds to load, to the first reply, and the memory then.

    Raises:
        WrongAnswer: It answers something else.
        Unavailable: It does not start.
    """
    servers.drop(name)
    loaded = await asyncio.to_thread(loading, servers, peer)
    found = await spawning(servers, name, peer)
    servers.drop(name)
    return {"load_ms": loaded, **found}


def loading(servers: Servers, peer: Peer) -> float:
    """Return the milliseconds it takes to load the library, as its own interpreter counts them."""
    try:
        with servers.cores.on(servers.cores.servers):
            done = subprocess.run(
                peer.loading, capture_output=True, check=True, cwd=ROOT, env=environment(peer.env), text=True
            )
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"{peer.title}: {error}") from error
    return float(done.stdout) * 1e3


async def spawning(servers: Servers, name: str, peer: Peer) -> Figures:
    """Return the milliseconds from spawn to the first reply, and the memory after one call."""
    began = time.perf_counter()
    running = await servers.over_stdio(name, peer, modern=False)
    replied = time.perf_counter() - began
    assert running.pipes is not None
    await check_call(running.pipes)
    called = time.perf_counter() - began
    memory = memory_of(running.pids)
    return {"first_reply_ms": replied * 1e3, "first_call_ms": called * 1e3, "memory_mb": memory / 1e6}


async def check_call(pipes: Pipes) -> None:
    """Make one call."""
    operation = Operation("echo", modern=False)
    operation.verify(1, 1, await pipes.ask(1, call(1, b"echo", b'{"text":"hello 1"}', modern=False)))


async def measure_sessions(servers: Servers, name: str, peer: Peer, count: int) -> Figures:
    """Start a server over HTTP anew: its memory, and what each of ``count`` idle sessions adds to it, in kilobytes.

    Raises:
        WrongAnswer: It answers something else.
        Unavailable: It does not start.
    """
    servers.drop(name)
    running = await servers.over_http(name, peer)
    await open_sessions(running.port, 1)
    memory = memory_of(running.pids)
    # The first sessions fill what an interpreter keeps anyway.
    await open_sessions(running.port, WARM_SESSIONS)
    await asyncio.sleep(SETTLING)
    before, began = memory_of(running.pids), time.perf_counter()
    await open_sessions(running.port, count)
    rate = count / (time.perf_counter() - began)
    await asyncio.sleep(SETTLING)
    grown = memory_of(running.pids) - before
    servers.drop(name)
    return {"http_memory_mb": memory / 1e6, "session_kb": grown / count / 1e3, "sessions_per_s": rate}


async def open_sessions(port: int, count: int) -> None:
    """Open sessions and leave them alone."""
    connection = await connect(port)
    for _ in range(count):
        if not connection.usable:
            connection.close()
            connection = await connect(port)
        await open_session(connection, port)
    connection.close()
