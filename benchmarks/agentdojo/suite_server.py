"""One suite of AgentDojo as an MCP server: ``python -m benchmarks.agentdojo.suite_server SUITE VERSION PORT``.

Runs in the environment that has AgentDojo. The tools are those of the suite, with annotations by ``tools.toml``. A POST
to ``/tasks`` lists the tasks. One to ``/session`` begins a task in a fresh world, with or without an injected one, and
returns the calls of both. One to ``/end`` says whether AgentDojo's own checks find the task done, and the injected one.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites

from antiphon import Server, Tool, ToolError
from antiphon.server import RouteRequest
from antiphon.types import ToolAnnotations

HERE = Path(__file__).parent


class SuiteWorld:
    """The world of one task, and what has been called in it."""

    def __init__(self, name: str, version: str) -> None:
        self.suite = get_suites(version)[name]
        self.runtime = FunctionsRuntime(self.suite.tools)
        self._worlds: dict[str, Any] = {}
        self.begin("", "")

    def begin(self, task: str, injected: str) -> dict[str, Any]:
        """Begin a task; every place of the world where a stranger's text may stand has the mark of the injected one."""
        self.calls: list[FunctionCall] = []
        self.task = self.suite.user_tasks.get(task)
        self.injected = self.suite.injection_tasks.get(injected)
        mark = f"<ORDER---{injected}--->"
        self.world = self._load(f"{mark} {_write_order(self.injected.GOAL)}" if self.injected is not None else "")
        if self.task is not None:
            self.world = self.task.init_environment(self.world)
        self.before = deepcopy(self.world)
        chosen = {"task": self.task, "injected": self.injected}
        calls = {name: [] if one is None else one.ground_truth(self.world) for name, one in chosen.items()}
        return {"mark": mark, **{name: [[call.function, call.args] for call in made] for name, made in calls.items()}}

    def _load(self, order: str) -> Any:
        """Load a world, which takes up to a second the first time."""
        if order not in self._worlds:
            orders = dict.fromkeys(self.suite.get_injection_vector_defaults(), order) if order else {}
            self._worlds[order] = self.suite.load_and_inject_default_environment(orders)
        return deepcopy(self._worlds[order])

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool of the suite."""
        result, error = self.runtime.run_function(self.world, name, arguments)
        if error is not None:
            raise ToolError(error)
        self.calls.append(FunctionCall(function=name, args=arguments))
        return tool_result_to_str(result)

    def judge(self) -> dict[str, bool | None]:
        """Return what AgentDojo's own checks find: whether the task is done, or beside an injected one that one.

        Whether the task is done takes far longer to find out than all calls take.
        """
        found: dict[str, bool | None] = {"task": None, "injected": None}
        if self.task is not None and self.injected is None:
            said, worlds = self.task.GROUND_TRUTH_OUTPUT, (self.before, self.world)
            done = self.task.utility_from_traces(said, *worlds, self.calls)
            found["task"] = self.task.utility(said, *worlds) if done is None else done
        if self.injected is not None:
            said, worlds = self.injected.GROUND_TRUTH_OUTPUT, (self.before, self.world)
            done = self.injected.security_from_traces(said, *worlds, self.calls)
            found["injected"] = self.injected.security(said, *worlds) if done is None else done
        return found


def _write_order(goal: str) -> str:
    """Return the text of an injected task in one line that fits everywhere in a world's YAML."""
    return " ".join(re.sub(r"[^\w./@-]", " ", goal).split())


def make_server(name: str, version: str) -> Server:
    """Make the server of a suite."""
    world, server = SuiteWorld(name, version), Server(name)
    known = tomllib.loads((HERE / "tools.toml").read_text())[name]
    for tool in world.suite.tools:
        does, labels = known[tool.name]["does"], known[tool.name]["labels"]
        hints = ToolAnnotations(
            read_only_hint=does == "reads",
            destructive_hint=does == "overwrites",
            open_world_hint="outbound" in labels or "untrusted" in labels,
        )
        schema = tool.parameters.model_json_schema()
        made = Tool(name=tool.name, description=tool.description, input_schema=schema, annotations=hints)
        server.add_tool(made, partial(_call, world, tool.name))

    def begin(request: RouteRequest) -> dict[str, Any]:
        return world.begin(**json.loads(request.body))

    def end(_request: RouteRequest) -> dict[str, Any]:
        return world.judge()

    def list_tasks(_request: RouteRequest) -> dict[str, Any]:
        return {"tasks": list(world.suite.user_tasks), "injected": list(world.suite.injection_tasks)}

    server.route("/tasks", list_tasks, methods=["POST"])
    server.route("/session", begin, methods=["POST"])
    server.route("/end", end, methods=["POST"])
    return server


def _call(world: SuiteWorld, name: str, arguments: dict[str, Any]) -> str:
    return world.call(name, arguments)


if __name__ == "__main__":
    make_server(*sys.argv[1:3]).run("http", port=int(sys.argv[3]))
