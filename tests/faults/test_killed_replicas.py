"""Three replicas behind nginx, one of them killed every 2 seconds, with asks in flight: every call ends, no step twice.

``ANTIPHON_KILLED_FOR=300`` runs it for as many seconds, ``ANTIPHON_KILLED_ON=postgres`` on the other engine; with
``-s`` it prints what is in docs/how-to/more-than-one-machine.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from antiphon import Client
from antiphon.errors import AntiphonError
from tests.faults.test_killed_workers import working
from tests.support.nginx import own_nginx
from tests.support.postgres import shared_postgres
from tests.support.redis import own_redis

pytestmark = pytest.mark.nginx

SECONDS = float(os.environ.get("ANTIPHON_KILLED_FOR", "20"))
KILL_EVERY = 2.0
OPEN = {"2025-11-25": 12, "2025-06-18": 4, "2026-07-28": 6}
"""Clients that call all the time, by revision."""
IDLE = 20
"""Sessions that do nothing until the end."""
TOOLS = ("order", "look_up", "plain")
AN_END = 60.0
"""Seconds after which a call counts as one without an end."""
ENGINE = os.environ.get("ANTIPHON_KILLED_ON", "redis")


class Outcome(NamedTuple):
    """How a call ended."""

    revision: str
    tool: str
    number: int
    ended: float
    text: str | None
    error: AntiphonError | None


class Run:
    """The load, and what has come of it."""

    def __init__(self, url: str, chance: random.Random) -> None:
        self._url = url
        self._chance = chance
        self._numbers = iter(range(1_000_000))
        self.outcomes: list[Outcome] = []
        self.asked: Counter[str] = Counter()
        self.is_over = False

    async def _answer(self, params: Any, _origin: Any) -> str:
        question = str(params.messages[-1].content.text)
        self.asked[question] += 1
        # Sometimes longer than the time between two deaths.
        await asyncio.sleep(self._chance.choice((0.02, 0.1, 0.5, 2.5)))
        return f"answer-to-{question}"

    def count_results(self) -> int:
        """Return how many calls have succeeded."""
        return sum(each.error is None for each in self.outcomes)

    async def call_on(self, revision: str) -> None:
        """Call one tool after another; begin a new session if the server could not be reached at all."""
        while not self.is_over:
            with suppress(AntiphonError):
                async with Client(self._url, sampling=self._answer, revision=revision, timeout=AN_END) as client:
                    # A client sends a lost request again if its tool is marked, which it learns here.
                    await client.list_tools()
                    while not self.is_over:
                        await self._call(client, revision)

    async def _call(self, client: Client, revision: str) -> None:
        tool, number = self._chance.choice(TOOLS), next(self._numbers)
        text = error = None
        try:
            text = (await client.call_tool(tool, {"number": number})).text
        except AntiphonError as failed:
            error = failed
        self.outcomes.append(Outcome(revision, tool, number, time.monotonic(), text, error))


class Idle:
    """A session of a client that speaks with nobody meanwhile, as plain messages."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._session = ""

    async def open(self) -> None:
        """Greet a replica."""
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        status, head, _ = await self._post({"id": 0, "method": "initialize", "params": params})
        assert status == 200
        self._session = next(line.split(": ")[1] for line in head if line.lower().startswith("mcp-session-id"))
        assert (await self._post({"method": "notifications/initialized"}))[0] == 202

    async def use(self) -> bool:
        """Call a tool; tell whether the session is still what it was."""
        status, _, body = await self._post({"id": 1, "method": "tools/call", "params": {"name": "where"}})
        return status == 200 and "result" in json.loads(body)

    async def _post(self, message: dict[str, Any]) -> tuple[int, list[str], str]:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        named = f"Mcp-Session-Id: {self._session}\r\nMCP-Protocol-Version: 2025-11-25\r\n" if self._session else ""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(
                f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n{named}"
                f"Accept: application/json, text/event-stream\r\nConnection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            async with asyncio.timeout(AN_END):
                head, _, rest = (await reader.read()).decode().partition("\r\n\r\n")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        lines = head.split("\r\n")
        return int(lines[0].split()[1]), lines, rest


class Log:
    """What the handlers have done."""

    def __init__(self, path: Path) -> None:
        self.bodies: dict[int, list[int]] = defaultdict(list)
        """By number of the call, the processes in which its function ran."""
        self.again: list[str] = []
        """Steps that ran after they were recorded."""
        recorded: dict[tuple[str, str], str] = {}
        for line in path.read_text().splitlines():
            what, number, name, value = line.split()
            if what == "body":
                self.bodies[int(number)].append(int(value))
            elif what == "got":
                if recorded.setdefault((number, name), value) != value:
                    self.again.append(line)
            elif (number, name) in recorded:
                self.again.append(line)


@contextmanager
def engine() -> Iterator[str]:
    """Start an engine; yields its address."""
    if ENGINE == "postgres":
        yield shared_postgres()
        return
    with own_redis() as redis:
        yield redis.url


@pytest.mark.timeout(SECONDS + 240)
async def test_calls_end_and_sessions_live_while_replicas_are_killed(tmp_path: Path):
    """No call without an end, no recorded step twice, no unmarked function twice; sessions that rest are unharmed."""
    killed: dict[int, float] = {}
    with engine() as address:
        async with AsyncExitStack() as stack:
            workers = await stack.enter_async_context(working("killed_replicas", address, tmp_path / "log"))
            url = stack.enter_context(own_nginx(workers.ports))
            resting = [Idle(int(urlsplit(url).port or 0)) for _ in range(IDLE)]
            for each in resting:
                await each.open()
            run = Run(url, random.Random(11))
            clients = [asyncio.create_task(run.call_on(name)) for name, count in OPEN.items() for _ in range(count)]
            until = time.monotonic() + SECONDS
            # On a busy machine, until so many calls have succeeded that this has tested something.
            while time.monotonic() < until or run.count_results() <= SECONDS:
                await asyncio.sleep(KILL_EVERY)
                killed[await workers.kill()] = time.monotonic()
                assert not [each for each in clients if each.done()], [await each for each in clients if each.done()]
            run.is_over = True
            async with asyncio.timeout(2 * AN_END):
                await asyncio.gather(*clients)
            rested = [await each.use() for each in resting]
    log = Log(tmp_path / "log")
    print(table(run, log, killed, rested))
    assert [each for each in run.outcomes if "not answered within" in str(each.error)] == []
    assert log.again == []
    assert [n for n, tool in numbers(run, "plain") if len(log.bodies[n]) > 1 and tool.revision < "2026"] == []
    assert all(rested)
    assert run.count_results() > SECONDS
    for each in run.outcomes:
        check_text(each)


def numbers(run: Run, tool: str) -> list[tuple[int, Outcome]]:
    """Return the calls of a tool."""
    return [(each.number, each) for each in run.outcomes if each.tool == tool]


def check_text(outcome: Outcome) -> None:
    """Check that a result is made of the answers to this call's own questions."""
    if outcome.text is None:
        return
    said = [word for word in outcome.text.split() if word.startswith("answer-to-")]
    wanted = ["one"] if outcome.tool == "plain" else ["one", "two"]
    assert said == [f"answer-to-{outcome.number}/{each}" for each in wanted], outcome


def table(run: Run, log: Log, killed: dict[int, float], rested: list[bool]) -> str:
    """Put what has happened into lines."""
    lines = [f"{ENGINE}: {len(killed)} kills in {SECONDS:g} s, {len(run.outcomes)} calls"]
    for revision in OPEN:
        for tool in TOOLS:
            calls = [each for each in run.outcomes if (each.revision, each.tool) == (revision, tool)]
            failed = [each for each in calls if each.error is not None]
            went_on = [each for each in calls if each.error is None and len(log.bodies[each.number]) > 1]
            lines.append(f"{revision} {tool}: {len(calls)} calls, {len(went_on)} went on, {len(failed)} errors")
    known = sorted(
        each.ended - killed[pid]
        for each in run.outcomes
        if each.error is not None
        for pid in log.bodies[each.number][-1:]
        if pid in killed and each.ended > killed[pid]
    )
    if known:
        lines.append(
            f"a client knew of a death after {known[len(known) // 2]:.2f} s (median), {known[-1]:.2f} s (most)"
        )
    errors = Counter(f"{type(each.error).__name__}: {each.error}"[:110] for each in run.outcomes if each.error)
    lines += [f"  {count} x {text}" for text, count in errors.most_common(12)]
    lines.append(f"steps again after they were recorded: {len(log.again)}")
    lines.append(f"sessions that rested: {len(rested)}, of which unharmed: {sum(rested)}")
    lines.append(
        f"questions asked more than once: {sum(count > 1 for count in run.asked.values())} of {len(run.asked)}"
    )
    return "\n".join(lines)
