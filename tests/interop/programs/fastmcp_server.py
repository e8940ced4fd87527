"""A server of FastMCP with a tool, a resource and a prompt: over HTTP, at the port that is named."""

from __future__ import annotations

import sys

from fastmcp import FastMCP

server = FastMCP("sums")


@server.tool
def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@server.resource("note://welcome")
def welcome() -> str:
    """Say welcome."""
    return "Welcome."


@server.prompt
def greet() -> str:
    """Greet somebody."""
    return "Say hello."


if __name__ == "__main__":
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
