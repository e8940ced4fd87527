"""Threads, each with an event loop, a server and a client of its own, do what one thread does."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from antiphon import Client, Context, Server

THREADS = 4
together = threading.Barrier(THREADS)


@dataclass
class Line:
    product: str
    notes: "list[Note]"


@dataclass
class Note:
    text: str
    answers: "Line | None" = None


def make_server() -> Server:
    server = Server("shop")

    @server.tool
    async def order(lines: dict[str, Line]) -> list[Line]:
        return list(lines.values())

    @server.tool
    def describe(note: Note) -> Note:
        return note

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.sample("Describe a hat.", max_tokens=5)).text

    @server.resource("stock://{product}")
    async def stock(product: str) -> str:
        return product

    @server.prompt
    async def sell(product: str) -> str:
        return product

    return server


async def answer(params, origin):
    return "A hat."


async def use(thread: int) -> None:
    line = {"product": "hat", "notes": [{"text": "blue"}]}
    async with Client(make_server(), sampling=answer) as client:
        together.wait()
        await client.list_tools()
        assert (await client.call_tool("order", {"lines": {"a": line}})).structured_content is not None
        assert not (await client.call_tool("describe", {"note": {"text": "red", "answers": line}})).is_error
        assert (await client.call_tool("ask")).text == "A hat."
        assert (await client.read_resource("stock://hat")).contents
        assert (await client.get_prompt("sell", {"product": "hat"})).messages


sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(THREADS) as threads:
    print(len([*threads.map(asyncio.run, map(use, range(THREADS)))]))
"""


def test_threads_may_use_the_library_for_the_first_time_at_once():
    """What is made at first use, such as decoders of messages, is made whole before another thread has it."""
    for _ in range(3):
        ran = subprocess.run([sys.executable, "-X", "faulthandler", "-c", PROGRAM], capture_output=True, check=False)
        assert (ran.returncode, ran.stdout) == (0, b"4\n"), ran.stderr.decode()
