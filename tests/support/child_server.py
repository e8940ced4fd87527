"""A server in a process of its own, started as people start one: ``antiphon serve``."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.support.network import until
from tests.support.ports import free_port

ROOT = Path(__file__).parent.parent.parent


def started(*arguments):
    """Start the command line in a process of its own."""
    command = [sys.executable, "-m", "antiphon", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)


@asynccontextmanager
async def served(program, folder, option="--http"):
    """Write a program into a folder and serve it; yields the process and its address, once it listens."""
    file = folder / "program.py"
    file.write_text(program)
    place = f"127.0.0.1:{free_port()}"
    process = started("serve", str(file), option, place)
    try:
        await until(lambda: listens(place))
        yield process, place
    finally:
        process.kill()
        process.communicate()


def listens(place):
    """Tell whether somebody takes connections there."""
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


async def wait_for_start(place, patience=60):
    """Wait until what ``antiphon serve`` runs there has started: it listens earlier, and joins its cluster then."""
    async with asyncio.timeout(patience), aiohttp.ClientSession() as http:
        while True:
            try:
                async with http.get(f"http://{place}/readyz") as got:
                    if got.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.02)


async def ended(process):
    """Wait for the end; return the exit code and what was said on the way."""
    _, err = await asyncio.to_thread(process.communicate, timeout=60)
    return process.returncode, err
