"""What workers give: echoes of two workers on one port beside those of one.

    .venv/bin/python -m benchmarks.workers [ROUNDS]

Servers of one and of two workers are started and asked in turns, by 16 connections that each wait for their answer:
at 2026-07-28, at 2025-11-25 with a session for each connection, and with one session for all of them. Sessions are
opened over other connections than those that use them.

The load takes its processor time from the same cores, and an echo costs little more than asking for it: on two cores,
two workers cannot be twice as fast as one that has a core to itself while the load has the other. So one worker is
also measured on one core together with its load, as two are on two; and beside the clock stands what the processor time
of the servers says. Prints the best of the rounds: others on the machine only take away.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

from benchmarks.load.http import HOST, head
from benchmarks.load.messages import INITIALIZED, LEGACY, MODERN, call, initialize
from benchmarks.processes import ROOT, Cores, cpu_of, environment, family
from tests.support.ports import free_port

CONNECTIONS = 16
SECONDS = 1.0
WARM_UP = 0.5
ROUNDS = 4
START = 60.0
"""Seconds that a server has to begin."""


class Speed(NamedTuple):
    """What one server did in its turn."""

    rate: float
    """Answers a second."""
    cpu: float
    """Seconds of the servers' processor time for an answer."""
    load: float
    """Seconds of the load's for one."""


class Asking(NamedTuple):
    """How a server is asked."""

    words: str
    revision: str
    sessions: int


FORMS = (
    Asking("2026-07-28", MODERN, 0),
    Asking("2025-11-25, a session for each connection", LEGACY, CONNECTIONS),
    Asking("2025-11-25, one session for all connections", LEGACY, 1),
)


def serve(port: int, workers: int) -> None:
    """Serve on a port."""
    from benchmarks.server import server

    @server.tool(structured=False)
    async def pid() -> str:
        """Say which process this is."""
        return str(os.getpid())

    server.run("http", port=port, workers=workers)


@contextmanager
def served(workers: int) -> Generator[tuple[int, list[int]]]:
    """Run a server; yields its port and its process ids."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.workers", "serve", str(port), str(workers)],
        env=environment(),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + START
        while not _ready(port, workers):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit("the server does not begin")
            time.sleep(0.05)
        yield port, family(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ready(port: int, workers: int) -> bool:
    """Tell whether all workers of a server answer: each new connection goes to the one with the fewest."""
    request = _request(port, call(1, b"pid", b"{}", modern=True), *_names(b"pid"))
    seen: set[bytes] = set()
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        for _ in range(2 * workers):
            connection = stack.enter_context(socket.create_connection((HOST, port), 10))
            connection.sendall(request)
            seen.add(connection.recv(65_536).partition(b'"text":"')[2])
    return len(seen) == workers


def _names(tool: bytes) -> tuple[bytes, ...]:
    return b"MCP-Protocol-Version: " + MODERN.encode(), b"Mcp-Method: tools/call", b"Mcp-Name: " + tool


def _exchange(port: int, request: bytes) -> tuple[int, bytes]:
    """Send a request over a connection of its own; return the status of the response, and all of it."""
    with socket.create_connection((HOST, port), 10) as connection:
        connection.sendall(request)
        said = b"".join(iter(lambda: connection.recv(65_536), b""))
    return int(said[9:12] or 0), said


def _request(port: int, body: bytes, *lines: bytes) -> bytes:
    return b"%b%d\r\n\r\n%b" % (head(port, *lines), len(body), body)


def _session(port: int) -> bytes:
    """Open a session; return the header that names it."""
    status, said = _exchange(port, _request(port, initialize(0), b"Connection: close"))
    if status != 200:
        raise SystemExit(f"no session: {said[:300]!r}")
    lines = said.partition(b"\r\n\r\n")[0].split(b"\r\n")
    name = next(line for line in lines if line.lower().startswith(b"mcp-session-id:"))
    revision = b"MCP-Protocol-Version: " + LEGACY.encode()
    status, said = _exchange(port, _request(port, INITIALIZED, name, revision, b"Connection: close"))
    if status != 202:
        raise SystemExit(f"no session: {said[:300]!r}")
    return name


def _requests(port: int, asking: Asking) -> list[bytes]:
    """Write what each connection sends, again and again."""
    sessions = [_session(port) for _ in range(asking.sessions)]
    made: list[bytes] = []
    for number in range(CONNECTIONS):
        body = call(number + 1, b"echo", b'{"text":"number %d"}' % number, modern=asking.revision == MODERN)
        revision = b"MCP-Protocol-Version: " + LEGACY.encode()
        lines = (revision, sessions[number % len(sessions)]) if sessions else _names(b"echo")
        made.append(_request(port, body, *lines))
    return made


class Load:
    """Connections that ask a server. The cheapest there is: an answer is found in what was read, and no more."""

    def __init__(self, port: int, requests: list[bytes]) -> None:
        self._epoll = select.epoll()
        self._sockets: dict[int, tuple[socket.socket, bytes, bytes]] = {}
        for number, request in enumerate(requests):
            each = socket.create_connection((HOST, port), 10)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[each.fileno()] = each, request, b'"text":"number %d"' % number
            self._epoll.register(each.fileno(), select.EPOLLIN)
            each.sendall(request)

    def answers(self, seconds: float) -> int:
        """Ask for a while; return the number of answers."""
        count, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            for file, _ in self._epoll.poll(1):
                connection, request, text = self._sockets[file]
                said = connection.recv(65_536)
                if not said.startswith(b"HTTP/1.1 200") or text not in said:
                    raise SystemExit(f"a wrong answer: {said[:500]!r}")
                connection.sendall(request)
                count += 1
        return count

    def close(self) -> None:
        """Close all connections."""
        self._epoll.close()
        for connection, _, _ in self._sockets.values():
            connection.close()


def speed(workers: int, asking: Asking, cores: set[int]) -> Speed:
    """Start a server, and ask it, all on these cores."""
    with Cores().on(cores), served(workers) as (port, pids):
        load = Load(port, _requests(port, asking))
        load.answers(WARM_UP)
        began, used, own = time.perf_counter(), cpu_of(pids), time.process_time()
        answers = load.answers(SECONDS)
        took = time.perf_counter() - began
        found = Speed(answers / took, (cpu_of(pids) - used) / answers, (time.process_time() - own) / answers)
        load.close()
        return found


def main() -> None:
    """Measure, and print."""
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]), int(sys.argv[3]))
        return
    rounds = int(sys.argv[1]) if sys.argv[1:] else ROUNDS
    cores = os.sched_getaffinity(0)
    print(f"{CONNECTIONS} connections, {rounds} rounds, {len(cores)} cores")
    for asking in FORMS:
        found: list[list[Speed]] = [[], [], []]
        for _ in range(rounds):
            for place, speeds in zip((cores, {min(cores)}, cores), found, strict=True):
                speeds.append(speed(1 if speeds is not found[2] else 2, asking, place))
        print(f"\n{asking.words}")
        one, tight, two = (_best(each) for each in found)
        _tell("one worker", one)
        _tell("one worker and the load on one core", tight)
        _tell("two workers", two)
        print(f"  two to one by the clock: {two.rate / one.rate:.2f}")
        print(f"  two to one on one core by the clock: {two.rate / tight.rate:.2f}")
        if asking.sessions != 1:
            # A session has one home, so that only one worker does anything.
            print(f"  two to one by CPU: {2 * one.cpu / two.cpu:.2f}", flush=True)


def _best(speeds: list[Speed]) -> Speed:
    rates, cpu, load = zip(*speeds, strict=True)
    return Speed(max(rates), min(cpu), min(load))


def _tell(name: str, best: Speed) -> None:
    times = f"{best.cpu * 1e6:.0f} us of the servers' CPU, {best.load * 1e6:.0f} of the load's"
    print(f"  {name}: {best.rate:,.0f} a second; {times}")


if __name__ == "__main__":
    main()
