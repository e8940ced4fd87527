"""The server other implementations are tested against, and the scenario scripts are played against.

It has one tool for each thing a server can do. Its twin, written with the official SDK, is
``programs/python2_server.py``. Run it as a program and it serves stdio, or the port it is given; with ``--survey`` it
has one tool more, which asks as often as it is told to. With ``REPLICAS_ENGINE`` in the environment, the address of a
Redis, it is one of several replicas.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from typing import Any

from antiphon import Context, SamplingMessage, Server, TextContent, Tool, ToolError, ToolResultContent
from antiphon.server import RedisCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """A sum of two integers."""

    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """What is needed to book a table."""

    guests: int
    window: bool = False


WEATHER = Tool(name="weather", description="Weather of a city", input_schema={"type": "object"})


async def echo(text: str) -> str:
    """Echo the text back.

    Args:
        text: what to echo
    """
    return text


async def add(a: int, b: int) -> Sum:
    """Add two integers."""
    return Sum(total=a + b)


async def fail(reason: str) -> str:
    """Fail as a tool."""
    raise ToolError(reason)


async def describe(product: str, ctx: Context) -> str:
    """Describe a product through the client's model."""
    answer = await ctx.sample(f"Describe {product}", system_prompt="Be brief.", max_tokens=50, temperature=0.5)
    return f"{answer.model}: {answer.text}"


async def compare(products: list[str], ctx: Context) -> str:
    """Describe several products at once."""
    answers = await asyncio.gather(*(ctx.sample(f"Describe {product}", max_tokens=50) for product in products))
    return " | ".join(answer.text for answer in answers)


async def use_tool(city: str, ctx: Context) -> str:
    """Let the client's model choose a tool, for one turn."""
    answer = await ctx.sample(f"Weather in {city}?", max_tokens=50, tools=[WEATHER])
    return ",".join(f"tool_use:{use.name}" for use in answer.tool_uses)


async def forecast(city: str, ctx: Context) -> str:
    """Let the client's model use a tool until it has an answer."""
    answer = await ctx.sample(f"Weather in {city}?", max_tokens=50, tools=[WEATHER])
    while answer.tool_uses:
        found = [TextContent(text=f"sun over {use.input['city']}") for use in answer.tool_uses]
        results = [
            ToolResultContent(tool_use_id=use.id, content=[text])
            for use, text in zip(answer.tool_uses, found, strict=True)
        ]
        history = [*answer.messages, SamplingMessage(role="user", content=results)]
        answer = await ctx.sample(history, max_tokens=50, tools=[WEATHER])
    return answer.text


async def book(day: str, ctx: Context) -> str:
    """Book a table with what the user says."""
    answer = await ctx.elicit(f"Book a table for {day}", Booking)
    if answer.action != "accept":
        return f"{day}: {answer.action}"
    return f"{day}: {answer.value.guests} guests, window={answer.value.window}"


async def folders(ctx: Context) -> str:
    """Name the client's folders."""
    return ",".join(f"{root.name}={root.uri}" for root in await ctx.list_roots())


async def count(to: int, ctx: Context) -> str:
    """Report progress up to a number.

    It pauses after each report: some clients forget a report that arrives together with the result.
    """
    for step in range(1, to + 1):
        await ctx.progress(step, to, f"step {step}")
        await asyncio.sleep(0.03)
    return f"counted to {to}"


async def speak(text: str, ctx: Context) -> str:
    """Log at two levels."""
    await ctx.debug(f"debug {text}")
    await ctx.warning(f"warning {text}")
    return "spoken"


async def linger() -> str:
    """Wait far longer than any caller."""
    await asyncio.sleep(3600)
    return "never"


async def welcome() -> str:
    """Welcome note."""
    return "Welcome!"


async def note(title: str) -> str:
    """Any note."""
    return f"Note {title}"


async def review(language: str, code: str = "pass") -> str:
    """Review a piece of code."""
    return f"Review this {language}: {code}"


async def complete_language(value: str) -> list[str]:
    """Complete languages."""
    return [word for word in ("python", "perl", "rust") if word.startswith(value)]


async def survey(topic: str, questions: int, ctx: Context) -> str:
    """Ask one question after another; each says how long the last answer was."""
    answers = [""]
    for number in range(1, questions + 1):
        question = f"{topic} {number}, after {len(answers[-1])} characters"
        answers.append((await ctx.sample(question, max_tokens=50)).text)
    return f"{questions} answers, the last: {answers[-1]}"


TOOLS = (echo, add, fail, describe, compare, use_tool, forecast, book, folders, count, speak, linger)


def ours(**options: Any) -> Server:
    """Make one, with options of ``Server`` besides."""
    made = Server("ours", version="1.0", instructions="Walk through me.", **options)
    for tool in TOOLS:
        made.tool(tool)
    made.resource("note://welcome", mime_type="text/plain")(welcome)
    made.resource("note://{title}", mime_type="text/plain")(note)
    made.prompt(review)
    made.complete("review", "language")(complete_language)
    return made


server = ours()


def main() -> None:
    """Serve until the client or a signal ends it."""
    arguments = sys.argv[1:]
    engine = os.environ.get("REPLICAS_ENGINE")
    served = server if engine is None else ours(cluster=RedisCluster(engine))
    if "--survey" in arguments:
        # Only when asked for: the scenario scripts know the list of tools by heart.
        arguments.remove("--survey")
        served.tool(survey)
    if arguments:
        served.run("http", port=int(arguments[0]))
    else:
        served.run()


if __name__ == "__main__":
    main()
