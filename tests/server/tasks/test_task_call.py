"""The handler of a task: its end, whatever becomes of its steps."""

from __future__ import annotations

import asyncio
import contextlib

from antiphon import Context, Server
from antiphon.server import CallAbandoned
from tests.support.tasking import tasking


async def test_a_step_that_ends_in_spite_of_its_cancellation_holds_up_nothing() -> None:
    """Nobody records it any more: the handler is told so where it took the step, and the task has its end."""
    server, began, raised = Server("shop"), asyncio.Event(), list[str]()

    async def charge() -> str:
        began.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "paid"

    @server.tool(task="required")
    async def tool(ctx: Context) -> str:
        try:
            return await ctx.step("charge", charge)
        except CallAbandoned as error:
            raised.append(str(error))
            raise

    async with tasking(server) as client:
        handle = await client.start("tool")
        await began.wait()
        await client.cancel(handle)
        assert (await client.until(handle, "over"))["status"] == "cancelled"
    assert raised == ["the client cancelled the task"]
