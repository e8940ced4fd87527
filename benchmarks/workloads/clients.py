"""Clients against one fixed fast server, over HTTP, over stdio and in memory. Each runs as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import subprocess
import time

from benchmarks.figures import Figures
from benchmarks.load.tally import WrongAnswer
from benchmarks.machine import Busy
from benchmarks.peers.catalogue import SERVERS, Peer
from benchmarks.processes import ROOT, cpu_of, environment, family, place
from benchmarks.workloads.servers import Servers, Unavailable

__all__ = ["CLIENT_KEYS", "FIXED", "TRANSPORTS", "measure_client", "run", "takes_client"]

TRANSPORTS = {"http": "client over HTTP", "stdio": "client over stdio", "mem": "call in memory"}
CLIENT_KEYS = [f"client-{transport}" for transport in TRANSPORTS]
FIXED = "bare"
"""The server: the fastest there is."""
PATIENCE = 60.0
LOOK = 0.01


def takes_client(transport: str, peer: Peer) -> bool:
    """Say whether a client is measured there: the limit has no server in memory."""
    return not (peer.limit and transport == "mem")


async def measure_client(servers: Servers, transport: str, peer: Peer, seconds: float) -> Figures:
    """Let a client call for so many seconds one at a time, then with 32 in flight.

    Raises:
        WrongAnswer: It got or gave one, or failed otherwise.
        Unavailable: It cannot be started.
    """
    target, pids = "-", list[int]()
    if transport == "http":
        running = await servers.over_http(FIXED, SERVERS[FIXED])
        target, pids = f"http://127.0.0.1:{running.port}/mcp", running.pids
    elif transport == "stdio":
        target = json.dumps(SERVERS[FIXED].stdio)
    command = [*peer.stdio, transport, target, f"{seconds:g}s"]
    busy, ours, began = Busy.now(), cpu_of(pids) + cpu_of_ended(), time.perf_counter()
    out, errors, code = await run(servers, command, peer, placed=transport == "stdio")
    shares = busy.since(cpu_of(pids) + cpu_of_ended() - ours, time.perf_counter() - began)
    try:
        line = json.loads(out.strip().splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise WrongAnswer(f"{peer.title}, {TRANSPORTS[transport]}: ended with {code}: {errors[-200:]}") from error
    return {name: value for name, value in line.items() if name != "version"} | shares


def cpu_of_ended() -> float:
    """Add up the seconds of CPU of this process, of the children that ended, and of theirs."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


async def run(
    servers: Servers, command: list[str], peer: Peer, *, placed: bool, patience: float = PATIENCE
) -> tuple[str, str, int | None]:
    """Run a client on the core of the load, and the server it starts on that of the servers."""
    with servers.cores.on(servers.cores.load):
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(peer.env), cwd=ROOT
            )
        except OSError as error:
            raise Unavailable(f"{peer.title}: {error}") from error
    moving = asyncio.ensure_future(move_children(servers, process.pid)) if placed else None
    try:
        out, errors = await asyncio.wait_for(process.communicate(), patience)
    except TimeoutError as error:
        process.kill()
        raise WrongAnswer(f"{peer.title}: no figures in {patience:.0f} s") from error
    finally:
        if moving is not None:
            moving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await moving
    return out.decode(), errors.decode(errors="replace"), process.returncode


async def move_children(servers: Servers, pid: int) -> None:
    """Wait for a process to start another, and give that one a core of its own."""
    for _ in range(int(PATIENCE / LOOK)):
        if children := family(pid)[1:]:
            place(children, servers.cores.servers)
            return
        await asyncio.sleep(LOOK)
