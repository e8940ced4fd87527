"""A server that is sent heavy calls and tells how much memory it has. Usage: heavy.py PORT [LIMIT], LIMIT in bytes."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from antiphon import Context, Server

LIMIT = int(sys.argv[2]) if len(sys.argv) > 2 else 128 * 1024 * 1024

server = Server("heavy", max_parked_bytes=LIMIT)


@server.tool(structured=False)
async def ask(text: str, ctx: Context) -> str:
    """Ask, and so be parked with the text."""
    return (await ctx.sample("go on?")).text + text[:1]


@server.tool(structured=False)
async def asks_nothing(text: str) -> str:
    """Be called with arguments that are wrong."""
    return text[:1]


@server.tool(structured=False, requires="elicitation")
async def demanding(text: str, ctx: Context) -> str:
    """Be called by clients that lack what this needs."""
    return text[:1]


@server.tool(structured=False)
async def failing(text: str, ctx: Context) -> str:
    """Fail, with the text in the frame of the traceback."""
    raise ValueError("failed")


@server.tool(structured=False, inline=True)
def memory() -> str:
    """Return the resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return str(pages * resource.getpagesize())


@server.tool(structured=False, inline=True)
def peak() -> str:
    """Return the bytes that the process ever had: not by ``getrusage``, which counts what started it as well."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return str(int(line.split()[1]) * 1024)


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1]))
