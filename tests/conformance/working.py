"""What the everything server does as tasks: the tools that the scenarios of the tasks extension look for."""

from __future__ import annotations

import asyncio

from asking import NAME

from antiphon import Context, Server, ToolError
from antiphon.errors import InternalError

__all__ = ["add_working"]

CONFIRM = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}


def add_working(server: Server) -> None:
    """Add everything that works as a task, and one that does not."""
    server.tool(greet)
    for function in (slow_compute, protocol_error_job, confirm_delete, multi_input):
        server.tool(task="allowed")(function)
    server.tool(task="required")(failing_job)
    server.tool(task="later")(test_tool_with_task)


async def greet(name: str) -> str:
    """Greet, at once."""
    return f"Hello, {name}!"


async def slow_compute(seconds: float, ctx: Context, label: str = "") -> str:
    """Take some time."""
    await ctx.progress(0, seconds, label)
    await asyncio.sleep(seconds)
    return f"Computed {label}"


async def failing_job() -> str:
    """Fail as a tool."""
    await asyncio.sleep(1)
    raise ToolError("This job always fails")


async def protocol_error_job() -> str:
    """Fail as a request."""
    raise InternalError("This job ends with a protocol error")


async def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask once."""
    answer = await ctx.elicit(f"Delete {filename}?", CONFIRM)
    return f"{answer.action}: {filename}"


async def multi_input(ctx: Context) -> str:
    """Ask two things at once."""
    first, second = await asyncio.gather(ctx.elicit("Name?", NAME), ctx.elicit("Sure?", CONFIRM))
    return f"{first.action}, {second.action}"


async def test_tool_with_task(ctx: Context) -> str:
    """Ask for a name in a round, and go on as a task."""
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    await ctx.go_on_as_task(required=True)
    return f"Worked for {answer.value}"
