"""A server in 15 lines. Try it: ``antiphon call examples/server.py add a=2 b=40``."""

from antiphon import Server

server = Server("adder", version="1.0")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


if __name__ == "__main__":
    server.run()
