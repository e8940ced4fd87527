"""A raw client that speaks the tasks extension, and what tests of tasks have in common."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from antiphon import Server
from antiphon.wire.task import TASKS
from tests.support.raw_client import ALL, RawClient, raw_client, said

__all__ = ["DECLARED", "Tasking", "tasking"]

Json = dict[str, Any]
DECLARED: Json = {**ALL, "extensions": {TASKS: {}}}
"""Everything a client can offer, the extension included."""


class Tasking:
    """A client of one server, by hand."""

    def __init__(self, raw: RawClient) -> None:
        self.raw = raw

    async def start(self, tool: str, arguments: Mapping[str, Any] | None = None, **params: Any) -> Json:
        """Call a tool, which must become a task; return the handle."""
        handle = await self.raw.call(tool, arguments, capabilities=DECLARED, **params)
        assert handle["resultType"] == "task", handle
        return handle

    async def get(self, task: str | Mapping[str, Any]) -> Json:
        """Look at a task."""
        return await self._result("tasks/get", taskId=_id(task))

    async def answer(self, task: str | Mapping[str, Any], answers: Mapping[str, Any] | str) -> Json:
        """Answer asks of a task; a string is what a model says to all that are open."""
        if isinstance(answers, str):
            answers = dict.fromkeys((await self.until(task, "input_required"))["inputRequests"], said(answers))
        return await self._result("tasks/update", taskId=_id(task), inputResponses=answers)

    async def cancel(self, task: str | Mapping[str, Any]) -> Json:
        """Cancel a task."""
        return await self._result("tasks/cancel", taskId=_id(task))

    async def until(self, task: str | Mapping[str, Any], wanted: str | Callable[[Json], bool]) -> Json:
        """Look at a task until it has a status, or is as wanted; the status "over" is any end."""
        async with asyncio.timeout(60):
            while True:
                seen = await self.get(task)
                over = wanted == "over" and seen["status"] in ("completed", "failed", "cancelled")
                if over or seen["status"] == wanted or (callable(wanted) and wanted(seen)):
                    return seen
                await asyncio.sleep(0.005)

    async def text(self, task: str | Mapping[str, Any]) -> str:
        """Wait for the end of a task, which must be a result, and return its text."""
        seen = await self.until(task, "over")
        assert seen["status"] == "completed", seen
        return seen["result"]["content"][0]["text"]

    async def error(self, method: str, **params: Any) -> Json:
        """Make a request that must fail and return its error."""
        return await self.raw.error(method, **{"capabilities": DECLARED, **params})

    async def _result(self, method: str, **params: Any) -> Json:
        reply = await self.raw.reply(self.raw.modern(method, capabilities=DECLARED, **params))
        assert "result" in reply, reply
        return reply["result"]


def _id(task: str | Mapping[str, Any]) -> str:
    return task if isinstance(task, str) else task["taskId"]


@asynccontextmanager
async def tasking(server: Server, *, principal: str | None = None) -> AsyncGenerator[Tasking]:
    """Connect such a client to a server in memory."""
    async with raw_client(server, principal=principal) as raw:
        yield Tasking(raw)
