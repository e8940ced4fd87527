"""A server of two workers as a process: what it says, and clients of one worker or the other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from antiphon import Client
from tests.support.ports import free_port

__all__ = ["PATIENCE", "Started", "started"]

ROOT = Path(__file__).parents[2]
PATIENCE = 60
"""Seconds for whatever is waited for: a machine may be busy."""


class Started:
    """A server of two workers, and what it has said."""

    def __init__(self, process: Process, url: str) -> None:
        self.process = process
        self.url = url

    async def says(self, word: str) -> str:
        """Wait for the next line of standard output, which begins with this word; return the rest."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await self.process.stdout.readline()).decode()
        assert line.startswith(word), line
        return line.split()[1]

    async def rest(self) -> list[str]:
        """Wait until every process that could write to standard output has ended; return the words that began lines."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            left = (await self.process.stdout.read()).decode()
            await self.process.wait()
        return sorted(line.split()[0] for line in left.splitlines())

    async def client_of(self, pid: str, stack: AsyncExitStack, **options: Any) -> Client:
        """Connect until the connection is served by one of the processes; earlier connections stay open."""
        async with asyncio.timeout(PATIENCE):
            while True:
                client = await stack.enter_async_context(Client(self.url, revision="2026-07-28", **options))
                if (await client.call_tool("pid")).text == pid:
                    return client


@asynccontextmanager
async def started(**environment: str) -> AsyncGenerator[Started]:
    """Start the server in a process group of its own, which is killed at the end."""
    port = free_port()
    command = [sys.executable, "-m", "tests.support.worker_program", str(port)]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE if environment else DEVNULL,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    try:
        yield Started(process, f"http://127.0.0.1:{port}/mcp")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            await process.communicate()
