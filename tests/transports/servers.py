"""Server programs for the tests of the stdio server: a prelude, a body, a loop."""

from __future__ import annotations

import subprocess
import sys

PRELUDE = """
import asyncio, os, subprocess, sys
from antiphon.channel import Frame, Oversized
from antiphon.transports.stdio import server as stdio_server
from antiphon.transports.stdio.server import StdioServerChannel

async def send(channel, data):
    room = channel.send(Frame(data))
    if room is not None:
        await room

async def echo(channel):
    while frames := await channel.receive():
        for frame in frames:
            await send(channel, b'{"oversized":%d}' % frame.size if isinstance(frame, Oversized) else frame)
"""

RUN = """
if sys.argv[1] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""

ECHO = """
async def main():
    channel = await StdioServerChannel.open(parent_check=0.02)
    await send(channel, b'{"ready":1}')
    await echo(channel)
    print(channel.closed_error())
    await channel.close()
"""


def command(loop: str, body: str) -> list[str]:
    """Return the command line of a server."""
    return [sys.executable, "-W", "default", "-c", PRELUDE + body + RUN, loop]


def start(loop: str, body: str, **files) -> subprocess.Popen[bytes]:
    """Start a server with pipes, to talk to it step by step."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | files
    return subprocess.Popen(command(loop, body), **pipes)


def run(loop: str, body: str, sent: bytes = b"", **files) -> tuple[list[bytes], str]:
    """Run a server to its end; return the lines it answered and its stderr."""
    process = start(loop, body, **files)
    with process:
        out, err = process.communicate(sent, timeout=60)
    assert process.returncode == 0, err.decode()
    return (out or b"").splitlines(), err.decode()
