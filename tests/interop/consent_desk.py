"""An agent with the official SDK, the files that all processes share, and the person, for the checks of consent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from antiphon.host import Approve, Queue, ToolItem, digest, open_store
from antiphon.host.review.question import Question
from antiphon.host.store.chain import RecordSearch
from tests.interop.peers import HERE, PROGRAMS, Peers

SERVER = [sys.executable, str(HERE / "consent_server.py")]
GATEWAY = [sys.executable, str(HERE / "consent_gateway.py")]
SOON = 0.3
"""Seconds until a caller is told to ask again, where a check is about that."""
ERAS = {"legacy": "legacy", "modern": "2026-07-28"}


class Agent:
    """A program that calls tools with the official SDK."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._calls = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {0: asyncio.get_running_loop().create_future()}
        self.ready: Awaitable[dict[str, Any]] = self._waiting[0]
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            said = json.loads(line)
            self._waiting.pop(said["id"]).set_result(said)
        for future in self._waiting.values():
            future.set_exception(ConnectionError("the program has ended"))

    def begin(self, tool: str, meta: dict[str, Any] | None = None, **command: Any) -> asyncio.Future[dict[str, Any]]:
        """Begin a call. Members that the program knows are options, all others are arguments."""
        options = {name: command.pop(name) for name in ("progress", "seconds") if name in command}
        self._calls += 1
        future = self._waiting[self._calls] = asyncio.get_running_loop().create_future()
        assert self.process.stdin is not None
        sent = {"id": self._calls, "tool": tool, "arguments": command, "meta": meta, **options}
        self.process.stdin.write(json.dumps(sent).encode() + b"\n")
        return future

    async def call(self, tool: str, meta: dict[str, Any] | None = None, **command: Any) -> Outcome:
        """Make a call, and wait for its outcome."""
        return Outcome(await self.begin(tool, meta, **command))

    async def close(self) -> None:
        """End the program, and with it its gateway."""
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()
        await self._reading


class Outcome:
    """What a model gets of a call."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.said = said
        result: dict[str, Any] = said.get("result", {})
        self.text = said.get("error", "") + "".join(block.get("text", "") for block in result.get("content", ()))
        self.is_error = bool(result.get("isError")) or "error" in said
        self.waits: str | None = result.get("_meta", {}).get("antiphon/pendingCall")


class Desk:
    """The files that all processes share, and the person."""

    def __init__(self, root: Path, peers: Peers, mode: str) -> None:
        self.root, self.peers, self.mode = root, peers, mode
        self.ran_file = root / "ran"
        self.store = open_store(root / "host.db")
        self.queue = Queue(self.store)
        self._stack = AsyncExitStack()

    def gateway(self, *, changed: bool = False, **options: Any) -> list[str]:
        """Return the command line of a gateway over the shared store."""
        said = {"store": str(self.root / "host.db"), "within": SOON, **options}
        return [*GATEWAY, json.dumps(said), *SERVER, str(self.ran_file), *(["changed"] if changed else [])]

    async def agent(self, target: list[str] | None = None, **options: Any) -> Agent:
        """Start an agent with a gateway of its own, or at an address."""
        token = options.pop("token", "")
        command = [str(self.peers.root / "python2" / "bin" / "python"), str(PROGRAMS / "python2_calls.py"), self.mode]
        process = await asyncio.create_subprocess_exec(
            *command, *(target or self.gateway(**options)), env={**os.environ, "TOKEN": token},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 20,
        )  # fmt: skip
        agent = Agent(process)
        self._stack.push_async_callback(agent.close)
        async with asyncio.timeout(90):
            await agent.ready
        return agent

    async def question(self) -> Question:
        """Wait for the question that waits."""
        async with asyncio.timeout(90):
            async for _ in self.queue.changes(0.05):
                if waiting := await self.queue.pending():
                    return waiting[0]
        raise AssertionError

    async def decide(self, decide: Callable[[ToolItem], Any] | Any = None, by: str = "ann") -> Question:
        """Wait for the question, and decide it: by default approve."""
        question = await self.question()
        assert isinstance(question.item, ToolItem)
        said = decide(question.item) if callable(decide) else decide
        said = Approve(digest=digest(question.item.result or question.item.params)) if said is None else said
        await self.queue.decide(question.id, said, hash=question.hash, by=by)
        return question

    def ran(self, sku: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the calls with this SKU that the server has run."""
        lines = self.ran_file.read_text(encoding="utf-8").splitlines() if self.ran_file.exists() else []
        return [(tool, arguments) for tool, arguments in map(json.loads, lines) if arguments.get("sku") == sku]

    async def records(self, question: Question) -> list[tuple[str, str, str | None]]:
        """Return step, outcome and decider of the records of a question's call."""
        assert question.item is not None
        entries = await self.store.find_records(RecordSearch(after=0, identities=(question.identity,)), 1_000)
        return [(each.record.step, each.record.outcome, each.record.by) for each in entries]

    async def close(self) -> None:
        """End everything."""
        await self._stack.aclose()
        await self.store.aclose()
