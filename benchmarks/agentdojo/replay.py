"""Sessions through a gateway: the calls of a task, then those of an injected one, and which of them a person was asked.

A session has a gateway and a host of its own, made from an ``antiphon.toml`` with the labels and ``default = "flow"``.
What was allowed before is in a store that all sessions of a suite share, so that only the first one asks about tools
because they are new.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tomllib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import aiohttp

from antiphon import Client
from antiphon.errors import AntiphonError
from antiphon.gateway import Gateway
from antiphon.host import Approve, Deny, Scripted, ToolItem, digest
from antiphon.host.config import load_config
from antiphon.host.configured_host import ConfiguredHost
from antiphon.host.store import MemoryStore
from benchmarks.agentdojo.environment import ROOT, make_environment
from benchmarks.processes import environment, stop
from tests.support.ports import free_port

HERE = Path(__file__).parent
VERSION = "v1.2.2"
"""The newest of the benchmark's versions that the package has."""
SUITES = ("workspace", "travel", "banking", "slack")
PATIENCE = 300.0
"""Seconds a suite may take to start; loading AgentDojo takes five, and a machine may be busy."""
Why = Literal["flow", "overwrites", "new"]
"""Why a person is asked: all three labels meet, the tool overwrites something, or it is used for the first time."""
TOOLS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "tools.toml").read_text())
INJECTED: dict[str, Any] = tomllib.loads((HERE / "injected.toml").read_text())


def write_config(suite: str, more: str = "") -> str:
    """Write the ``antiphon.toml`` of somebody who uses a suite's tools."""
    lines = ["[policy]", 'default = "flow"', more]
    for name, tool in TOOLS[suite].items():
        labels = ", ".join(f'"{label}"' for label in tool["labels"])
        lines += ["", "[[policy.labels]]", f'name = "{name}"', f"labels = [{labels}]"]
    return "\n".join([*lines, ""])


@dataclass
class Person:
    """A reviewer who allows or denies everything, and notes what was asked and why."""

    allows: bool = True
    available: bool = True
    asked: list[tuple[str, Why]] = field(default_factory=list)

    async def confirm(self, item: ToolItem) -> Approve | Deny:
        """Note the question, and decide."""
        hints = item.origin.tool.annotations if item.origin.tool is not None else None
        if any(risk.kind == "flow" for risk in item.risks):
            why: Why = "flow"
        else:
            why = "overwrites" if hints is not None and hints.destructive_hint else "new"
        self.asked.append((item.params.name, why))
        return Approve(digest=digest(item.params)) if self.allows else Deny()

    async def review(self, item: Any) -> Deny:
        """Deny: no suite asks for a model."""
        return Deny()

    async def elicit(self, item: Any) -> Any:
        """Fail: no suite asks its user."""
        raise AssertionError(item)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a session."""

    tool: str
    asked: Why | None
    """Why a person was asked; ``None``: it ran at once."""
    text: str


@dataclass(frozen=True, kw_only=True)
class Session:
    """What happened in a session."""

    suite: str
    order: str
    """The injected task; empty without one."""
    task: list[Call]
    injected: list[Call]
    mark: str
    done: dict[str, bool | None]
    """What AgentDojo finds done in the end: the task, and the injected one."""

    @property
    def has_read(self) -> bool:
        """Whether the task's calls have brought the injected text."""
        return any(self.mark in call.text for call in self.task)

    @property
    def is_stopped(self) -> bool:
        """Whether no call of the injected task that sends or changes something ran without a question.

        The address of a page that is fetched counts as sent.
        """
        known = TOOLS[self.suite]
        acting = [c for c in self.injected if known[c.tool]["does"] != "reads" or "outbound" in known[c.tool]["labels"]]
        if not acting:
            raise SystemExit(f"an injected task of {self.suite} neither sends nor changes anything")
        return all(call.asked is not None for call in acting)


class Suite:
    """A suite that is served, and what a person has allowed of it."""

    def __init__(self, name: str, url: str, http: aiohttp.ClientSession, config: Path) -> None:
        self.name, self._url, self._http = name, url, http
        self.store = MemoryStore()
        self._config = load_config(os.environ, file=config)

    async def post(self, path: str, **body: str) -> dict[str, Any]:
        """Say something to the suite beside its tools."""
        async with self._http.post(f"{self._url}{path}", json=body) as response:
            response.raise_for_status()
            return await response.json()

    async def list_tasks(self) -> dict[str, list[str]]:
        """Return the names of all tasks and of all injected ones."""
        return await self.post("/tasks")

    async def allow_all(self) -> int:
        """Call every tool once, so that none is new any more; returns how often the person was asked for that."""
        await self.post("/session", task="", injected="")
        person = Person()
        async with self._connect(person) as client:
            for name in TOOLS[self.name]:
                # Without arguments most calls fail at the server, after the person has allowed them.
                await _call(client, person, name, {})
        return len(person.asked)

    async def replay(self, task: str, injected: str = "") -> Session:
        """Replay a task, and after it an injected one, whose questions the person denies."""
        begun = await self.post("/session", task=task, injected=injected)
        person = Person()
        async with self._connect(person) as client:
            made = [await _call(client, person, *call) for call in begun["task"]]
            person.allows = False
            theirs = [await _call(client, person, *call) for call in self._find_calls(injected, begun)]
        done = await self.post("/end")
        return Session(suite=self.name, order=injected, task=made, injected=theirs, mark=begun["mark"], done=done)

    def _find_calls(self, injected: str, begun: dict[str, Any]) -> list[Any]:
        written: list[str] = INJECTED[self.name].get("calls", {}).get(injected.rpartition("_")[2], [])
        return begun["injected"] or [[name, INJECTED["arguments"].get(name, {})] for name in written]

    @asynccontextmanager
    async def _connect(self, person: Person) -> AsyncGenerator[Client]:
        async with (
            ConfiguredHost(self._config, {}, provider=Scripted([]), reviewer=person, store=self.store) as host,
            Client(Gateway({self.name: f"{self._url}/mcp"}, host, names="none").server) as client,
        ):
            yield client


async def _call(client: Client, person: Person, name: str, arguments: dict[str, Any]) -> Call:
    before = len(person.asked)
    try:
        text = (await client.call_tool(name, arguments)).text
    except AntiphonError as error:
        text = str(error)
    asked = person.asked[before:]
    return Call(tool=name, asked=asked[0][1] if asked else None, text=text)


def _start_server(command: list[str], env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as said:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=env, cwd=ROOT)


@asynccontextmanager
async def serve_suite(name: str, folder: Path, more: str = "") -> AsyncGenerator[Suite]:
    """Serve a suite from the environment that has AgentDojo.

    Args:
        name: name of the suite.
        folder: where its ``antiphon.toml`` and its log are written.
        more: more lines for ``antiphon.toml``, such as rules.
    """
    python, port = await asyncio.to_thread(make_environment), free_port()
    config = folder / f"{name}.toml"
    config.write_text(write_config(name, more))
    command = [str(python), "-m", "benchmarks.agentdojo.suite_server", name, VERSION, str(port)]
    env = environment({"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"})
    process = await asyncio.to_thread(_start_server, command, env, folder / f"{name}.log")
    try:
        async with aiohttp.ClientSession() as http:
            suite = Suite(name, f"http://127.0.0.1:{port}", http, config)
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        await suite.list_tasks()
                    except aiohttp.ClientConnectionError:
                        if process.poll() is not None:
                            raise SystemExit((folder / f"{name}.log").read_text()[-2000:]) from None
                        await asyncio.sleep(0.1)
                    else:
                        break
            yield suite
    finally:
        stop(process)
