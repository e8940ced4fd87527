"""A server that greets on standard output."""

from antiphon import Server

print("Welcome!", flush=True)
server = Server("noisy")


@server.tool
async def add(a: int) -> int:
    """Add nothing."""
    return a


if __name__ == "__main__":
    server.run()
