"""Threads, each with an event loop, a server and a client of its own, do what one thread does; and what they share."""

from __future__ import annotations

import subprocess
import sys

FIRST_USE = """
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

CHANGES = """
import asyncio
import sys

from antiphon import Client, Server

THREADS, TOOLS = 4, 200
server = Server("shop")


@server.tool
def stock(thread: int) -> str:
    for number in range(TOOLS):
        server.tool(lambda: "sold", name=f"sell_{thread}_{number}")
        if number % 2:
            server.tools.remove(f"sell_{thread}_{number}")
    return "stocked"


async def main() -> None:
    async with Client(server) as client:
        stocking = [asyncio.create_task(client.call_tool("stock", {"thread": at})) for at in range(THREADS)]
        while not all(each.done() for each in stocking):
            names = [tool.name async for tool in client.tools()]
            assert len(names) == len(set(names))
            assert all(len([*server.tools]) for _ in range(100))
        assert [each.result().text for each in stocking] == ["stocked"] * THREADS
        async with Client(server) as other:
            print(len([tool async for tool in other.tools()]))


sys.setswitchinterval(1e-6)
asyncio.run(main())
"""

ONE_SERVER = """
import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from antiphon import Client, LocalProtocolError, Server

THREADS = 8
together = threading.Barrier(THREADS)


@asynccontextmanager
async def open_shop(_):
    yield


server = Server("shop", lifespan=open_shop if sys.argv[1:] else None)
server.tool(lambda: "sold", name="sell")


async def use(thread: int) -> bool:
    together.wait()
    try:
        async with Client(server) as client:
            together.wait()
            return (await client.call_tool("sell")).text == "sold"
    except LocalProtocolError:
        together.wait()
        return False


sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(THREADS) as threads:
    print(sum(threads.map(asyncio.run, map(use, range(THREADS)))))
"""


def run_several_times(program: str, *arguments: str) -> list[tuple[int, bytes, bytes]]:
    """Run a program in three new interpreters, since what threads do at once differs; return how each ended."""
    command = [sys.executable, "-X", "faulthandler", "-c", program, *arguments]
    ran = [subprocess.run(command, capture_output=True, check=False) for _ in range(3)]
    return [(each.returncode, each.stdout, each.stderr) for each in ran]


def test_threads_may_use_the_library_for_the_first_time_at_once():
    """What is made at first use, such as decoders of messages, is made whole before another thread has it."""
    assert run_several_times(FIRST_USE) == [(0, b"4\n", b"")] * 3


def test_tools_are_added_and_removed_by_threads_while_they_are_listed():
    """Each list is whole, and in the end there is what the threads have left."""
    assert run_several_times(CHANGES) == [(0, b"401\n", b"")] * 3


def test_a_server_that_has_to_be_opened_is_open_on_one_event_loop_at_a_time():
    """Of threads that open it at once, one has it, and the others are told so."""
    assert run_several_times(ONE_SERVER, "with a lifespan") == [(0, b"1\n", b"")] * 3


def test_a_server_without_a_lifespan_answers_on_several_event_loops():
    """As when a web framework with threads calls its tools, each time with ``asyncio.run``."""
    assert run_several_times(ONE_SERVER) == [(0, b"8\n", b"")] * 3
