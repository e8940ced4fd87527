"""A stock uvicorn that serves us ends when it is told to, whatever clients have left open."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.child_server import ended, listens
from tests.support.network import request_bytes, until
from tests.support.ports import free_port

PROGRAM = '''
import contextlib

from antiphon import Context, Server
from starlette.applications import Starlette
from starlette.routing import Mount

server = Server("mounted", version="1")


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the client's model."""
    return (await ctx.sample("?", max_tokens=5)).text


app = server.asgi()
mounted = Starlette(routes=[Mount("/", app=server.asgi())])
'''

OPENING: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"sampling": {}},
    "clientInfo": {"name": "c", "version": "1"},
}


@contextlib.asynccontextmanager
async def under_uvicorn(folder: Path, app: str, *options: str) -> AsyncIterator[tuple[Any, str]]:
    """Serve the program with the command line of uvicorn; yields the process and its address."""
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", f"program:{app}", "--port", str(port), "--log-level", "info", *options]
    process = await asyncio.to_thread(
        subprocess.Popen, command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        await until(lambda: listens(f"127.0.0.1:{port}"), 60)
        yield process, f"127.0.0.1:{port}"
    finally:
        # Its workers hold the pipe as well: without them it comes to its end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


async def head(reader: asyncio.StreamReader) -> dict[str, str]:
    """Read the head of a response; return its headers."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}


class Legacy:
    """A legacy client that can die. It opens its session and asks on one connection, so with one process of several."""

    def __init__(self, place: str) -> None:
        self._host, _, port = place.rpartition(":")
        self._port = int(port)
        self._open: list[asyncio.StreamWriter] = []
        self._session: dict[str, str] = {}

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        self._open.append(writer)
        return reader, writer

    async def begin(self) -> None:
        """Open a session."""
        self._reader, self._writer = await self._connection()
        self._writer.write(request_bytes({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": OPENING}))
        headers = await head(self._reader)
        await self._reader.readexactly(int(headers["content-length"]))
        self._session = {"mcp_session_id": headers["mcp-session-id"]}
        self._writer.write(request_bytes({"jsonrpc": "2.0", "method": "notifications/initialized"}, **self._session))
        await head(self._reader)

    async def ask(self) -> None:
        """Make a call, and read what it asks."""
        params = {"name": "ask", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        self._writer.write(request_bytes(message, **self._session))
        await self._reader.readuntil(b"sampling/createMessage")

    async def listen(self) -> None:
        """Listen to what the server has to say."""
        reader, writer = await self._connection()
        writer.write(request_bytes(b"", "GET", accept="text/event-stream", **self._session))
        await head(reader)

    async def die(self) -> None:
        """Cut every connection."""
        for writer in self._open:
            writer.transport.abort()


@pytest.mark.parametrize("app", ["app", "mounted"])
@pytest.mark.parametrize("left", ["died while it was asked", "is asked", "listens"])
async def test_uvicorn_ends_whatever_is_open(tmp_path: Path, app: str, left: str) -> None:
    """It says nothing to an application before every response has ended: we notice by ourselves."""
    async with under_uvicorn(tmp_path, app) as (process, place), asyncio.timeout(60):
        client = Legacy(place)
        await client.begin()
        await (client.listen() if left == "listens" else client.ask())
        if left.startswith("died"):
            await client.die()
        process.send_signal(signal.SIGTERM)
        code, said = await ended(process)
        await client.die()
    assert "Traceback" not in said
    assert code in (0, -signal.SIGTERM)


async def test_it_ends_within_the_grace_it_names(tmp_path: Path) -> None:
    """A second or two: nothing is left for uvicorn to cancel."""
    async with under_uvicorn(tmp_path, "app", "--timeout-graceful-shutdown", "3") as (process, place):
        client = Legacy(place)
        await client.begin()
        await client.ask()
        async with asyncio.timeout(60):
            process.send_signal(signal.SIGTERM)
            _, said = await ended(process)
        await client.die()
    assert "Traceback" not in said
    assert "graceful shutdown exceeded" not in said


async def test_workers_end_as_well(tmp_path: Path) -> None:
    """Two processes of uvicorn's, one of which has a client that died in the middle of an ask."""
    async with under_uvicorn(tmp_path, "app", "--workers", "2") as (process, place), asyncio.timeout(80):
        client = Legacy(place)
        await client.begin()
        await client.ask()
        await client.die()
        process.send_signal(signal.SIGTERM)
        _, said = await ended(process)
    assert "Traceback" not in said
