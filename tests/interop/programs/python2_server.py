"""A stdio server written with the official Python SDK 2.x: what our client is tested against.

Asks come in two forms: declared resolvers, which the SDK carries over both eras, and the imperative
``push_*`` tools, which exist only with the ``initialize`` handshake.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, ListRoots, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.types import (
    Completion,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ListRootsResult,
    SamplingMessage,
    TextContent,
    Tool,
)
from pydantic import BaseModel

warnings.simplefilter("ignore", MCPDeprecationWarning)

server = MCPServer("python2", version="2.3.0", instructions="Peer for interop tests.", log_level="ERROR")


class Sum(BaseModel):
    total: int


class Booking(BaseModel):
    guests: int
    window: bool = False


def says(text: str) -> SamplingMessage:
    """Make a user's message of a text."""
    return SamplingMessage(role="user", content=TextContent(type="text", text=text))


def ask_description(product: str) -> Sample:
    """Ask the client's model about a product."""
    return Sample([says(f"Describe {product}")], max_tokens=50, system_prompt="Be brief.", temperature=0.5)


def ask_with_tool(city: str) -> Sample:
    """Ask the client's model, which may use a tool."""
    weather = Tool(name="weather", description="Weather of a city", input_schema={"type": "object"})
    return Sample([says(f"Weather in {city}?")], max_tokens=50, tools=[weather])


def ask_booking(day: str) -> Elicit[Booking]:
    """Ask the user for a booking."""
    return Elicit(f"Book a table for {day}", Booking)


def ask_roots() -> ListRoots:
    """Ask the client for its folders."""
    return ListRoots()


@server.tool(structured_output=False)
async def echo(text: str) -> str:
    """Echo the text back."""
    return text


@server.tool()
async def add(a: int, b: int) -> Sum:
    """Add two integers."""
    return Sum(total=a + b)


@server.tool(structured_output=False)
async def fail(reason: str) -> str:
    """Fail as a tool."""
    raise ToolError(reason)


@server.tool(structured_output=False)
async def describe(product: str, answer: Annotated[CreateMessageResult, Resolve(ask_description)]) -> str:
    """Describe a product through the client's model."""
    return f"{answer.model}: {getattr(answer.content, 'text', '')}"


@server.tool(structured_output=False)
async def use_tool(city: str, answer: Annotated[CreateMessageResultWithTools, Resolve(ask_with_tool)]) -> str:
    """Let the client's model choose a tool."""
    blocks = answer.content if isinstance(answer.content, list) else [answer.content]
    return ",".join(f"{block.type}:{getattr(block, 'name', '')}" for block in blocks)


@server.tool(structured_output=False)
async def book(day: str, answer: Annotated[ElicitationResult[Booking], Resolve(ask_booking)]) -> str:
    """Book a table with what the user says."""
    if isinstance(answer, AcceptedElicitation):
        return f"{day}: {answer.data.guests} guests, window={answer.data.window}"
    return f"{day}: {answer.action}"


@server.tool(structured_output=False)
async def folders(answer: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Name the client's folders."""
    return ",".join(f"{root.name}={root.uri}" for root in answer.roots)


@server.tool(structured_output=False)
async def push_describe(product: str, ctx: Context[Any, Any]) -> str:
    """Describe a product through a request to the client."""
    answer = await ctx.session.create_message([says(f"Describe {product}")], max_tokens=50)
    return f"{answer.model}: {getattr(answer.content, 'text', '')}"


@server.tool(structured_output=False)
async def push_book(day: str, ctx: Context[Any, Any]) -> str:
    """Book a table through a request to the client."""
    answer = await ctx.elicit(f"Book a table for {day}", Booking)
    return f"{day}: {answer.action}"


@server.tool(structured_output=False)
async def count(to: int, ctx: Context[Any, Any]) -> str:
    """Report progress up to a number."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to, f"step {step}")
    return f"counted to {to}"


@server.tool(structured_output=False)
async def speak(text: str, ctx: Context[Any, Any]) -> str:
    """Log at two levels."""
    await ctx.debug(f"debug {text}")
    await ctx.warning(f"warning {text}")
    return "spoken"


@server.tool(structured_output=False)
async def linger() -> str:
    """Wait far longer than any caller."""
    await asyncio.sleep(3600)
    return "never"


@server.resource("note://welcome", mime_type="text/plain")
def welcome() -> str:
    """Welcome note."""
    return "Welcome!"


@server.resource("note://{title}", mime_type="text/plain")
def note(title: str) -> str:
    """Any note."""
    return f"Note {title}"


@server.prompt()
def review(language: str, code: str = "pass") -> str:
    """Review a piece of code."""
    return f"Review this {language}: {code}"


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion:
    """Complete languages."""
    known = ["python", "perl", "rust"]
    return Completion(values=[word for word in known if word.startswith(argument.value)], has_more=False)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
