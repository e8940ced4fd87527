"""Programs with the official SDKs that call tools as they are told, and what a model gets of a call."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.machine.asyncio_tasks import settle_future
from tests.interop.peers import Peers

PENDING = "antiphon/pendingCall"
Target = str | list[str]
"""An address, or the command line of a program over stdio."""


class Column(NamedTuple):
    """An SDK and the era that it speaks, or a host."""

    program: str
    mode: str
    letter: str
    """Stands for it in the table."""

    @property
    def name(self) -> str:
        """Its name, without spaces."""
        return f"{self.program.partition('_')[0]}-{self.mode}"

    @property
    def is_host(self) -> bool:
        """Whether a model decides what it sends: then that is names and arguments, but no ``_meta``."""
        return self.mode == HOST


HOST = "host"
OTHER_ERAS = (Column("python2_calls", "2026-07-28", "P"), Column("ts2_calls", "legacy", "T"))
COLUMNS = [
    Column("python2_calls", "legacy", "P"),
    Column("ts2_calls", "2026-07-28", "T"),
    *OTHER_ERAS,
    Column("claude-code", HOST, "C"),
    Column("gemini", HOST, "G"),
]


class Outcome:
    """What a model gets of a call."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.said = said
        self.result: dict[str, Any] = said.get("result", {})
        blocks = self.result.get("content") or self.result.get("contents") or ()
        self.text = said.get("error", "") + "".join(block.get("text", "") for block in blocks)
        self.is_error = bool(self.result.get("isError")) or "error" in said
        self.waits: str | None = self.result.get("_meta", {}).get(PENDING)
        self.reports: list[str | None] = said.get("reports", [])

    def __repr__(self) -> str:
        """What a failed check shows."""
        return json.dumps(self.said)[:2_000]


class Caller:
    """A running program with an official SDK, which connects to each target once for each token."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._commands = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, peers: Peers, column: Column, home: Path) -> Caller:
        """Start one, whose home and temporary files are elsewhere."""
        variables = {**os.environ, "ANTIPHON_INTEROP_DIR": str(peers.root), "HOME": str(home)}
        process = await asyncio.create_subprocess_exec(
            *peers.program(column.program),
            column.mode,
            env=variables,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=1 << 22,
        )
        return cls(process)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            settle_future(self._waiting.pop(said["id"]), None, said)
        for future in self._waiting.values():
            settle_future(future, ConnectionError("the program has ended"), None)

    async def begin(
        self, target: Target, do: str, *, is_given_up: bool = False, **members: Any
    ) -> asyncio.Future[dict[str, Any]]:
        """Send a command; the future has its answer. Any call can be given up."""
        if self._reading.done():
            raise ConnectionError("the program has ended")
        self._commands += 1
        future = self._waiting[self._commands] = asyncio.get_running_loop().create_future()
        self._send(id=self._commands, target=target, do=do, **members)
        return future

    def give_up(self, calling: asyncio.Future[dict[str, Any]]) -> None:
        """Give up a call that was begun."""
        self._send(do="give up", id=next(id for id, each in self._waiting.items() if each is calling))

    def _send(self, **members: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(members).encode() + b"\n")

    async def close(self) -> None:
        """End the program, and with it what it has started."""
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()
        await self._reading
