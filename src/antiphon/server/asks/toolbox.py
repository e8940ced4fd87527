"""The tools of a ``ctx.sample``: functions that are run for the model, or definitions that are only offered.

Owns the handling of one use: finding the tool, validating its arguments, running it, and its result or failure in the
form for the model. ``tool_loop`` asks the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Raw

from antiphon.errors import CallDiverged, ConfigError, ConnectionClosed, LocalProtocolError, Rejected
from antiphon.json_schema.mismatch import suggest_name
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.server.calls.call import HandlerCall, within
from antiphon.server.core import Core
from antiphon.server.features.tools import ServedTool
from antiphon.wire import tools as wire
from antiphon.wire.content import TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.failure import cause_of
from antiphon.wire.sampling import SamplingMessage

SamplingTool = Callable[..., Any] | ServedTool | wire.Tool
"""A function, a tool made from one (``antiphon.server.ServedTool``), or a definition."""

TOOL_CONCURRENCY = 8
"""Most functions of one turn that run at the same time: as many asks as a client answers at the same time."""

MAX_USES = 128
"""Most uses accepted from one answer; vendors allow no more parallel tool calls."""

_ENDS_ALL = (Rejected, ConnectionClosed, CallDiverged)
"""Errors that are no result for a model: a person refused, the client is gone, or a replay diverged."""


class Toolbox:
    """The tools of one ``ctx.sample``. ``definitions`` are offered; ``runs``: whether the uses are run here.

    ``context`` is passed unchanged to functions that take it; ``concurrency`` of them run at the same time. Raises
    ``ConfigError`` if functions and definitions are mixed, or two tools have the same name.
    """

    __slots__ = ("_context", "_tools", "_turns", "definitions", "runs")

    def __init__(self, tools: Sequence[SamplingTool], context: object, concurrency: int) -> None:
        if concurrency < 1:
            raise LocalProtocolError(f"tool_concurrency must be at least 1, got {concurrency}")
        made = [
            # Not structured: a model reads the text, and would pay for the same data twice.
            tool if isinstance(tool, wire.Tool | ServedTool) else ServedTool.from_function(tool, structured=False)
            for tool in tools
        ]
        self._tools = {tool.name: tool for tool in made if isinstance(tool, ServedTool)}
        self._context = context
        self._turns = asyncio.Semaphore(concurrency)
        self.runs = len(self._tools) > 0
        self.definitions = [tool if isinstance(tool, wire.Tool) else tool.definition for tool in made]
        if self.runs and any(isinstance(tool, wire.Tool) for tool in made):
            raise ConfigError(
                "tools= holds functions, which are run for the model, and definitions, which nobody can run: give only "
                "functions (or antiphon.server.ServedTool.raw(...) with a handler), or only definitions and "
                "use the tools yourself"
            )
        names = [tool.name for tool in made]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f'tools= holds two tools named "{twice[0]}": tell them apart by name')

    async def use(self, call: HandlerCall, core: Core, uses: Sequence[ToolUseContent]) -> SamplingMessage:
        """Run the uses of one answer, concurrently where possible; return the message with all results, in order."""
        # The tasks are made in the order of the uses, so that a replay gives their asks the same names.
        tasks = [asyncio.get_running_loop().create_task(self._use(call, core, use)) for use in uses]
        try:
            results = await asyncio.gather(*tasks)
        except BaseException:
            await end_tasks(*tasks)
            raise
        return SamplingMessage(role="user", content=results)

    async def _use(self, call: HandlerCall, core: Core, use: ToolUseContent) -> ToolResultContent:
        tool = self._tools.get(use.name)
        if tool is None:
            return _make_failed_result(use, f"There is no tool {use.name[:128]!r}{suggest_name(use.name, self._tools)}")
        async with self._turns:
            if tool.may_ask:
                # A step cannot ask, because no round is sent during a step. So a replay runs the tool
                # again over its recorded answers; its result is recorded nevertheless, because later
                # asks depend on it.
                result = await self._run(core, tool, use)
                return await _keep_result(call, use, lambda: _give_result(result))
            return await _keep_result(call, use, lambda: self._run(core, tool, use))

    async def _run(self, core: Core, tool: ServedTool, use: ToolUseContent) -> ToolResultContent:
        try:
            running = tool.call(Raw(encode_value(use.input)), self._context)
            result = await (running if tool.timeout is None else within(tool.timeout, tool.name, running))
        except _ENDS_ALL:
            raise
        except Exception as error:
            cause = cause_of(error)
            if isinstance(cause, _ENDS_ALL):
                raise cause from None
            return _make_failed_result(use, core.failure_text(tool.name, cause))
        return ToolResultContent(
            tool_use_id=use.id,
            # Some vendors refuse a result without content.
            content=result.content or [TextContent(text="null")],
            structured_content=result.structured_content if not result.content else None,
            is_error=result.is_error,
        )


def _make_failed_result(use: ToolUseContent, text: str) -> ToolResultContent:
    return ToolResultContent(tool_use_id=use.id, content=[TextContent(text=text)], is_error=True)


async def _give_result(result: ToolResultContent) -> ToolResultContent:
    return result


async def _keep_result(call: HandlerCall, use: ToolUseContent, work: Callable[[], Any]) -> ToolResultContent:
    """Do a step whose result is that of a tool; without replay the result is not encoded and decoded."""
    made: list[ToolResultContent] = []

    async def step(_key: str) -> bytes:
        made.append(await work())
        return encode_value(made[0])

    raw = await call.step(f"tool/{use.name}", step)
    return made[0] if made else decode_wire(raw, ToolResultContent)
