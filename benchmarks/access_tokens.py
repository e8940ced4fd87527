"""What an access token adds to a call: an echo over HTTP with a signed token, beside one without.

    .venv/bin/python -m benchmarks.access_tokens [ROUNDS]

Two processes of ``server.py`` are asked in turns, and ratios are formed within a round. Prints the median of the rounds
and their range, by the clock and by the processor time of the servers, which other work on the machine moves less.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from joserfc import jwt
from joserfc.jwk import ECKey

from benchmarks.load.http import Connection, connect, exchange, head
from benchmarks.load.messages import MODERN, call
from benchmarks.processes import cpu_of
from tests.support.ports import free_port

ISSUER, AUDIENCE, KEYS = "https://issuer.example", "https://bench.example/mcp", "ANTIPHON_BENCHMARK_KEYS"
CONNECTIONS = 16
SECONDS = 0.5
"""Seconds that one server is asked, within a round."""
ROUNDS = 40


class Speed(NamedTuple):
    """What one server did in its turn."""

    rate: float
    """Answers a second."""
    per_cpu: float
    """Answers a second of its processor time."""


def serve(port: int) -> None:
    """Serve on a port; with keys in the environment, only to those whose tokens they have signed."""
    from antiphon import ResourceServer
    from antiphon.auth import Issuer
    from benchmarks.server import server

    keys = os.environ.get(KEYS)
    if keys is None:
        server.run("http", port=port)
        return
    issuer = Issuer(url=ISSUER, jwks=json.loads(keys))
    server.run("http", port=port, auth=ResourceServer(issuer, AUDIENCE))


def token(key: ECKey) -> bytes:
    """Sign a token that lasts for the whole run."""
    now = int(time.time())
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "client_id": "load", "iat": now, "exp": now + 86_400}
    return jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": "load"}, said, key).encode()


class Asked:
    """One server, and who asks it."""

    def __init__(self, port: int, pid: int, *lines: bytes) -> None:
        self._port, self._pid, self._lines = port, pid, lines
        self._ids = count(1)
        self._connections: list[Connection] = []

    async def open(self) -> None:
        """Connect, once it listens."""
        for _ in range(CONNECTIONS):
            async with asyncio.timeout(30):
                while True:
                    try:
                        self._connections.append(await connect(self._port))
                    except OSError:
                        await asyncio.sleep(0.05)
                    else:
                        break

    async def speed(self) -> Speed:
        """Ask on all connections for a while."""
        began, used = time.perf_counter(), cpu_of([self._pid])
        answers = sum(await asyncio.gather(*(self._ask(each, began + SECONDS) for each in self._connections)))
        return Speed(answers / (time.perf_counter() - began), answers / (cpu_of([self._pid]) - used))

    async def _ask(self, connection: Connection, until: float) -> int:
        answers = 0
        names = (b"MCP-Protocol-Version: " + MODERN.encode(), b"Mcp-Method: tools/call", b"Mcp-Name: echo")
        while time.perf_counter() < until:
            id = next(self._ids)
            text = b"number %d" % id
            body = call(id, b"echo", b'{"text":"%b"}' % text, modern=True)
            status, messages = await exchange(connection, head(self._port, *names, *self._lines), body)
            if status != 200 or b'"text":"%b"' % text not in messages[-1]:
                raise SystemExit(f"a wrong answer: {status} {messages!r}"[:300])
            answers += 1
        return answers


async def measure(without: Asked, signed: Asked, rounds: int) -> list[Speed]:
    """Ask both in turns; return for each round what is left of the speed with a token."""
    for each in (without, signed):
        await each.open()
        await each.speed()
    left: list[Speed] = []
    for number in range(rounds):
        turn = (without, signed) if number % 2 else (signed, without)
        speeds = {each: await each.speed() for each in turn}
        ours, base = speeds[signed], speeds[without]
        left.append(Speed(ours.rate / base.rate, ours.per_cpu / base.per_cpu))
    return left


@contextmanager
def served(keys: str | None) -> Generator[tuple[int, int]]:
    """Run a server; yields its port and its process id."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.access_tokens", "serve", str(port)],
        env={**os.environ, **({} if keys is None else {KEYS: keys})},
    )
    try:
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Measure, and print."""
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]))
        return
    rounds = int(sys.argv[1]) if sys.argv[1:] else ROUNDS
    key = ECKey.generate_key("P-256", {"kid": "load"}, private=True)
    keys = json.dumps({"keys": [key.as_dict(private=False)]})
    with served(None) as plain, served(keys) as protected:
        signed = Asked(*protected, b"Authorization: Bearer " + token(key))
        left = asyncio.run(measure(Asked(*plain), signed, rounds))
    for name, found in zip(("by the clock", "by CPU"), zip(*left, strict=True), strict=True):
        print(f"{name}: {statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f}, {rounds} rounds)")


if __name__ == "__main__":
    main()
