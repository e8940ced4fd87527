"""Elicitation: the tool asks the user, by a form made from a type, and gets a value of that type."""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from antiphon import Client, Context, ElicitRequestParams, Origin, Server

server = Server("restaurant")


@dataclass
class Booking:
    """The form: plain fields only."""

    guests: int
    seat: Literal["window", "garden"] = "window"
    newsletter: bool = False


@server.tool
async def book(day: str, ctx: Context) -> str:
    """Book a table."""
    asked = await ctx.elicit(f"Your table on {day}, please", Booking)
    if asked.value is None:
        return "Nothing was booked." if asked.action == "decline" else "Come back when you are ready."
    return f"{day}: a table for {asked.value.guests} at the {asked.value.seat}"


async def fill_in(params: ElicitRequestParams, origin: Origin) -> dict[str, Any] | None:
    """Answer the form: a mapping accepts it, ``None`` declines."""
    if "Sunday" in params.message:
        return None
    return {"guests": 4, "seat": "garden"}


async def main() -> None:
    """Book twice."""
    async with Client(server, elicitation=fill_in) as client:
        for day in ("Friday", "Sunday"):
            print((await client.call_tool("book", {"day": day})).text)


asyncio.run(main())
