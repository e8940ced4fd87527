"""The server that is measured: ``server.py stdio``, or ``server.py http PORT`` (Streamable HTTP at ``/mcp``).

Its tools: ``echo(text)``, ``big(n)``: n characters, ``blob(data)``: the length of data, ``sample(text)``: what the
client's model answers. With ``EXTRA_TOOLS=n`` in the environment n more, for long lists. All results are plain text.
"""

from __future__ import annotations

import os
import sys

from antiphon import Context, Server

server = Server("bench", tool_rate=None)
tool = server.tool(structured=False)

BIG = "x" * (1 << 20)


@tool
async def echo(text: str) -> str:
    """Echo the text back."""
    return text


@tool
async def big(n: int) -> str:
    """Return n characters."""
    return BIG if n == len(BIG) else "x" * n


@tool
async def blob(data: str) -> str:
    """Return the length of data."""
    return str(len(data))


@tool
async def sample(text: str, ctx: Context) -> str:
    """Ask the client's model."""
    return (await ctx.sample(text, max_tokens=64)).text


def add_extra_tool(number: int) -> None:
    """Add one of the tools that only make the list longer."""

    async def extra(a: int, b: str, c: bool) -> str:
        return "ok"

    description = f"Synthetic tool number {number} used for the listing benchmark."
    server.tool(name=f"tool_{number:03d}", description=description, structured=False)(extra)


def main() -> None:
    """Serve as the command line says."""
    for number in range(int(os.environ.get("EXTRA_TOOLS", "0"))):
        add_extra_tool(number)
    transport = sys.argv[1] if len(sys.argv) > 1 else ""
    if transport == "http":
        server.run("http", port=int(sys.argv[2]))
        return
    if transport != "stdio":
        sys.exit("usage: server.py stdio | http PORT")
    server.run()


if __name__ == "__main__":
    main()
