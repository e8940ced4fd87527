"""Two servers in one file, and neither is run."""

from antiphon import Server

print("loaded")
first = Server("first")
second = Server("second")
also_second = second


@first.tool
async def one() -> str:
    """Return one."""
    return "one"
