"""Types in, types out: the schemas come from the signature, and both sides are checked against them."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

import msgspec

from antiphon import Client, Server, ToolError

server = Server("weather")


@dataclass
class Forecast:
    """What the tool returns; it becomes the output schema."""

    city: str
    celsius: list[float]
    warning: str | None = None


@server.tool
async def forecast(city: str, days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 3) -> Forecast:
    """Forecast the weather.

    Args:
        city: name of the city
        days: how many days ahead
    """
    if city == "Atlantis":
        raise ToolError("There is no weather below the sea.")  # for the model to read
    return Forecast(city=city, celsius=[10.5 + day for day in range(days)])


async def main() -> None:
    """Show schema, result, and two errors."""
    async with Client(server) as client:
        async for tool in client.tools():
            print(
                tool.name,
                sorted(tool.input_schema["properties"]),
                "->",
                sorted((tool.output_schema or {})["properties"]),
            )
        result = await client.call_tool("forecast", {"city": "Oslo", "days": 2})
        print(result.structured_content)
        for arguments in ({"city": "Atlantis"}, {"city": "Oslo", "days": 30}):
            failed = await client.call_tool("forecast", arguments)
            print(failed.is_error, failed.text)


asyncio.run(main())
