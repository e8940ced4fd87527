"""LangChain and LangGraph: ``create_agent(model, await tools.list_tools())``; ``langchain_models`` has its models.

Needs ``antiphon[langchain]``.
"""

from __future__ import annotations

import asyncio
from typing import Any, Unpack, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langchain_core.tools import BaseTool, ToolException
from langgraph.types import interrupt

from antiphon.adapters.agent_tools import AgentOptions, AgentTools, Tools, Undecided
from antiphon.adapters.langchain_models import convert_content
from antiphon.errors import ConfigError
from antiphon.host.agent_run.offered_tools import OfferedTool
from antiphon.host.providers.vendor.translation import translate_block
from antiphon.wire.tools import CallToolResult

__all__ = ["AntiphonTools"]

_MAX_STEPS, _MAX_MADE = 1000, 100
"""Most steps that are remembered, and most results kept for steps that are repeated (200,000 characters each)."""
_CALL = "antiphon_call"
"""Key of a step's configuration for the id and the arguments of the call that is made in it."""


class AntiphonTools(AgentTools):
    """The tools of servers for LangChain's agents and LangGraph. Use it as ``async with``.

    With ``approval="framework"``, ``interrupt()`` asks for what the policy leaves open, with the request that
    LangChain's ``HumanInTheLoopMiddleware`` makes, before anything is sent. LangGraph repeats a step after an
    interrupt, so such a step makes one call: the agents of ``create_agent`` do so, and a ``ToolNode`` with several
    calls in one step refuses all but the first.

    Args:
        tools: a ``Client`` or several, a ``Gateway``, or the path of a file that lists servers.
        options: ``host``, ``approval`` and ``on_progress``; see ``AgentOptions``.
    """

    framework = "langchain"

    def __init__(self, tools: Tools, **options: Unpack[AgentOptions]) -> None:
        super().__init__(tools, **options)
        self._steps: dict[tuple[object, ...], object] = {}
        """The call of each step that may be interrupted."""
        self._made: dict[tuple[object, ...], tuple[asyncio.Lock, list[CallToolResult]]] = {}

    async def list_tools(self) -> list[BaseTool]:
        """List the tools that a model may call, by names that models take."""
        return [
            _LangChainTool(
                name=name,
                description=offered.tool.description or offered.tool.title or name,
                args_schema=offered.tool.input_schema,
                handle_tool_error=True,
                response_format="content_and_artifact",
                metadata={"_meta": offered.tool.meta} if offered.tool.meta else None,
                adapter=self,
                offered=offered,
            )
            for name, offered in (await self._offer()).items()
        ]

    async def call(self, offered: OfferedTool, arguments: dict[str, Any], config: RunnableConfig) -> CallToolResult:
        """Call a tool in a step of a graph, and interrupt the graph for a decision if the framework decides.

        Args:
            offered: the tool.
            arguments: its arguments.
            config: the step's configuration.

        Raises:
            ToolException: the call was refused or has failed, or shares its step with another.
        """
        where = config.get("configurable", {})
        step = (where.get("thread_id"), where.get("checkpoint_ns"))
        call, is_repeatable = (*step, where.get(_CALL, (None,))[0]), self._defers and step[1] is not None
        # Two calls of one step may be equal, but for the id that the model gave them.
        while len(self._steps) > _MAX_STEPS:
            del self._steps[next(iter(self._steps))]
        asked = call, offered.name, arguments
        if is_repeatable and self._steps.setdefault(step, asked) != asked:
            raise ToolException("Not run: a person decides about calls. Make one call at a time.")
        # Something else may interrupt the step, after this call or while it waits: it is made once nevertheless.
        made, is_known = (*call, offered.name, repr(arguments)), is_repeatable or None not in call[1:]
        lock, ran = self._made.setdefault(made, (asyncio.Lock(), [])) if is_known else (asyncio.Lock(), [])
        if len(self._made) > _MAX_MADE:
            del self._made[next(iter(self._made))]
        async with lock:
            try:
                if is_repeatable and await self._find_question(call) is not None:
                    # The step is repeated with a decision, which counts even if the call is allowed by now.
                    raise Undecided
                result = ran[0] if ran else await self._call(offered, arguments, call)
            except Undecided:
                arguments, approved, reason = _ask_user(offered, arguments)
                result = ran[0] if ran else await self._call(offered, arguments, call, approved=approved, reason=reason)
            ran[:] = [result]
        if result.is_error:
            raise ToolException(result.text or "The tool has failed")
        return result


class _LangChainTool(BaseTool):
    adapter: Any
    offered: OfferedTool

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        made = merge_configs(ensure_config(config), {"configurable": {_CALL: _read_call(input)}})
        return await super().ainvoke(input, made, **kwargs)

    async def _arun(self, /, config: RunnableConfig, **_: Any) -> tuple[Any, Any]:
        # Not the keywords: an argument of a server's tool may be called "config", too.
        arguments = config.get("configurable", {})[_CALL][1]
        result: CallToolResult = await self.adapter.call(self.offered, arguments, config)
        return [convert_content(translate_block(block)) for block in result.content], result.structured_content

    def _run(self, *_: Any, **__: Any) -> Any:
        raise ToolException("Tools of servers are asynchronous: use ainvoke()")


def _read_call(given: object) -> tuple[object, dict[str, Any]]:
    """Return the id and the arguments of a model's call; what is not of this type is the arguments alone."""
    call = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    return (call.get("id"), call["args"]) if call.get("type") == "tool_call" else (None, call)


def _ask_user(offered: OfferedTool, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool, str | None]:
    """Return the arguments to run with, whether to run, and why not. Only a clear yes to this very tool runs it."""
    # The request that LangChain's user interfaces know.
    request = {"name": offered.name, "args": arguments, "description": offered.tool.description or offered.name}
    config = {"action_name": offered.name, "allowed_decisions": ["approve", "edit", "reject"]}
    answer = interrupt({"action_requests": [request], "review_configs": [config]})
    try:
        [decision] = answer["decisions"]
        kind, edited = decision["type"], decision.get("edited_action")
        if kind == "edit":
            return dict(edited["args"]), edited.get("name", offered.name) == offered.name, "another tool was named"
        return arguments, kind == "approve", decision.get("message")
    except (TypeError, KeyError, ValueError, AttributeError):
        raise ConfigError(
            'resume the graph with {"decisions": [{"type": "approve"}]}, "reject" with a "message", or "edit" with an '
            f'"edited_action"; got {type(answer).__name__}'
        ) from None
