"""A server that now and then answers wrongly: ``liar.py HOW stdio``, or ``liar.py HOW http PORT``."""

from __future__ import annotations

import itertools
import sys

from antiphon import Context, Server

HOW = sys.argv[1]
server = Server("liar", tool_rate=None)
calls = itertools.count(1)


@server.tool(structured=False)
async def echo(text: str) -> str:
    """Echo the text, but for every twentieth."""
    if HOW == "never" or next(calls) % 20:
        return text
    if HOW == "fails":
        raise ValueError("no")
    return text + "!"


@server.tool(structured=False)
async def sample(text: str, ctx: Context) -> str:
    """Ask the client's model; lie about what was asked."""
    return (await ctx.sample(text if HOW == "never" else "hello 1", max_tokens=64)).text


if sys.argv[2] == "http":
    server.run("http", port=int(sys.argv[3]))
else:
    server.run()
