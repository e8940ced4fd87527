"""A server of two workers. Usage: worker_program.py PORT.

Standard output says which processes began and ended to serve.
With ANTIPHON_BROKEN in its environment its workers fail before they serve; with ANTIPHON_BEHIND, so many bytes may wait
for one that reads nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon import Context, Server
from antiphon.replicas.engines import unix
from antiphon.types import ToolAnnotations

URI = "shop://stock"


def say(word: str) -> None:
    """Write a line at once, so that lines of several processes do not mix."""
    os.write(1, f"{word} {os.getpid()}\n".encode())


@asynccontextmanager
async def lifespan(_server: Server) -> AsyncIterator[None]:
    """Say when this process serves."""
    if "ANTIPHON_BROKEN" in os.environ:
        raise RuntimeError("the shop is closed")
    say("opened")
    yield
    say("closed")


server = Server("shop", lifespan=lifespan)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def pid() -> str:
    """Say which process this is."""
    return str(os.getpid())


@server.tool
async def ask(ctx: Context) -> str:
    """Note which process began, ask, and say which one ended."""
    began = await ctx.step("begin", lambda: str(os.getpid()))
    answer = await ctx.sample("?")
    return f"{began} {answer.text} {os.getpid()}"


@server.resource(URI)
def stock() -> str:
    """Say what there is."""
    return "hats"


@server.tool
async def sell() -> None:
    """Change the stock."""
    server.resource_updated(URI)


if __name__ == "__main__":
    unix.MAX_BEHIND = int(os.environ.get("ANTIPHON_BEHIND", unix.MAX_BEHIND))
    server.run("http", port=int(sys.argv[1]), workers=2)
    say("left")
