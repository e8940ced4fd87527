"""The servers of one run, kept up between measurements: an idle one costs no CPU, and turns can be short."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load.stdio import Pipes
from benchmarks.peers.catalogue import Peer
from benchmarks.processes import Cores, environment, family, start, stop
from tests.support.ports import free_port

__all__ = ["Running", "Servers", "Unavailable"]

PATIENCE = 60.0
"""Seconds a server may take until it listens."""
LOOK = 0.02
"""Seconds between two looks whether it does."""


class Unavailable(Exception):
    """A server does not start."""


@dataclass(slots=True, kw_only=True)
class Running:
    """A server that is up."""

    process: subprocess.Popen[bytes]
    port: int = 0
    pipes: Pipes | None = None
    warm: set[str] = field(default_factory=set[str])
    """What it was asked long enough: some interpreters compile while they run, and are slow at first."""

    @property
    def pids(self) -> list[int]:
        """The process, and all it started."""
        return family(self.process.pid)

    def stop(self) -> None:
        """End it."""
        if self.pipes is not None:
            self.pipes.close()
        stop(self.process)


def listens(port: int) -> bool:
    """Say whether somebody takes connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Servers:
    """Start servers when they are first asked for.

    Args:
        cores: Where they run.
        logs: A folder for what they print, one file for each.
    """

    def __init__(self, cores: Cores, logs: Path) -> None:
        self.cores, self._logs = cores, logs
        self._up: dict[tuple[str, str, int], Running] = {}

    async def over_http(self, name: str, peer: Peer, extra: int = 0) -> Running:
        """Return a server that listens.

        Raises:
            Unavailable: It ended, or never listened.
        """
        key = (name, "http", extra)
        if key not in self._up:
            port = free_port()
            self._up[key] = Running(process=self._start(name, peer, (*peer.http, str(port)), extra), port=port)
            try:
                await self._listening(name, self._up[key])
            except Unavailable:
                self._up.pop(key).stop()
                raise
        return self._up[key]

    async def _listening(self, name: str, running: Running) -> None:
        for _ in range(int(PATIENCE / LOOK)):
            if running.process.poll() is not None:
                raise Unavailable(f"{name} over HTTP ended with {running.process.returncode}")
            if listens(running.port):
                return
            await asyncio.sleep(LOOK)
        raise Unavailable(f"{name} over HTTP does not listen")

    async def over_stdio(self, name: str, peer: Peer, extra: int = 0, *, modern: bool) -> Running:
        """Return a server with an open session; each era has a process of its own.

        Raises:
            Unavailable: It ended, or did not greet.
        """
        key = (name, "stdio-modern" if modern else "stdio", extra)
        if key not in self._up:
            process = self._start(name, peer, peer.stdio, extra)
            self._up[key] = Running(process=process, pipes=(pipes := Pipes(process)))
            await pipes.open()
            try:
                await pipes.greet(modern=modern)
            except (ConnectionError, TimeoutError) as error:
                self._up.pop(key).stop()
                raise Unavailable(f"{name} over stdio: {error}") from error
        return self._up[key]

    def _start(self, name: str, peer: Peer, command: tuple[str, ...], extra: int) -> subprocess.Popen[bytes]:
        tools = {"EXTRA_TOOLS": str(extra)} if extra else {}
        env = environment({**peer.env, **tools})
        with (self._logs / f"{name}.log").open("ab") as log:
            try:
                return start(command, self.cores, env=env, pipes=command == peer.stdio, log=log)
            except OSError as error:
                raise Unavailable(f"{name}: {error}") from error

    def drop(self, name: str) -> None:
        """End the servers of one peer."""
        for key in [key for key in self._up if key[0] == name]:
            self._up.pop(key).stop()

    def close(self) -> None:
        """End all."""
        while self._up:
            self._up.popitem()[1].stop()
