"""Two hundred clients at once, of both eras: every call has its own answer, and the server does not grow."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import AsyncExitStack

import pytest

from antiphon import Client
from tests.support.child_server import ended, served

CLIENTS = 200
REVISIONS = ["2025-11-25", "2026-07-28"]
GROWTH = 16 * 1024
"""KiB that the server may have grown between two moments with the same clients at work: what is kept for streams that
may be resumed is bounded, but not yet at its bound."""

SHORT, LONG = 3, 60
RUNS = [
    pytest.param(SHORT, id="short", marks=pytest.mark.slow),
    pytest.param(LONG, id="long", marks=pytest.mark.endurance),
]

PROGRAM = '''
from antiphon import Context, Server

# What a call that asked came to is kept for its retry: here briefly, so that there are soon as many as there will be;
# yet longer than a client takes for a round where 200 of them share a core.
server = Server("busy", version="1", parked_for=10)


@server.tool
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool
async def count(to: int, ctx: Context) -> str:
    """Count, and tell."""
    for number in range(1, to + 1):
        await ctx.progress(number, to)
    return f"counted to {to}"


@server.tool
async def ask(question: str, ctx: Context) -> str:
    """Ask the client's model."""
    return (await ctx.sample(question, max_tokens=5)).text
'''


async def answer(params, _origin):
    """Answer with the question, so that an answer that went astray is noticed."""
    return f"re: {params.messages[0].content.text}"


class User:
    """One client at work; counts what it asked for and what it got."""

    def __init__(self, client, name):
        self.client = client
        self.name = name
        self.sent = 0
        self.right = 0
        self.reports_missing = 0

    async def work(self, until):
        """Make calls of every kind in turn, at least one of each, until a moment of the loop's clock."""
        ways = [self.echo, self.count, self.ask, self.list]
        clock = asyncio.get_running_loop().time
        while clock() < until or self.sent % len(ways):
            self.sent += 1
            self.right += await ways[self.sent % len(ways)](f"{self.name}.{self.sent}")

    async def echo(self, word):
        return (await self.client.call_tool("echo", {"text": word})).text == word

    async def count(self, _word):
        told = []
        result = await self.client.call_tool("count", {"to": 3}, progress=lambda *report: told.append(report[0]))
        self.reports_missing += 3 - len(told)
        return result.text == "counted to 3"

    async def ask(self, word):
        return (await self.client.call_tool("ask", {"question": word})).text == f"re: {word}"

    async def list(self, _word):
        return {tool.name for tool in (await self.client.list_tools()).tools} == {"echo", "count", "ask"}


def resident(process):
    """Return the memory of a process in KiB."""
    listed = subprocess.run(["ps", "-o", "rss=", "-p", str(process.pid)], capture_output=True, text=True, check=True)
    return int(listed.stdout)


async def work_all(users, seconds):
    """Let all work side by side."""
    until = asyncio.get_running_loop().time() + seconds
    await asyncio.gather(*(user.work(until) for user in users))


@pytest.mark.parametrize("seconds", RUNS)
async def test_two_hundred_clients_at_once(tmp_path, seconds):
    """No error, no answer lost or mixed up, and as much memory at the end as at the beginning."""
    async with served(PROGRAM, tmp_path) as (process, place), AsyncExitStack() as stack:
        clients = [Client(f"http://{place}/mcp", revision=REVISIONS[n % 2], sampling=answer) for n in range(CLIENTS)]
        await asyncio.gather(*(stack.enter_async_context(client) for client in clients))
        users = [User(client, number) for number, client in enumerate(clients)]
        await work_all(users, seconds / 4)
        before = await asyncio.to_thread(resident, process)
        await work_all(users, seconds * 3 / 4)
        after = await asyncio.to_thread(resident, process)
        await stack.aclose()
        process.terminate()
        code, err = await ended(process)
    sent = sum(user.sent for user in users)
    print(f"{sent} calls, {before} KiB, then {after} KiB")
    assert sum(user.right for user in users) == sent
    assert sum(user.reports_missing for user in users) == 0
    assert (code, err.count("\n")) == (0, 1)
    assert after - before < GROWTH
