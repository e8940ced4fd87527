"""The load: users who call tools over HTTP, one request in flight each, every answer checked.

Two forms. ``published`` is the sequence of the published benchmark: each call has a session of its own, which is opened
with ``initialize``, and a list of the tools follows every three calls. ``calls`` are calls alone, at 2026-07-28.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.json import decode as decode_json

from benchmarks.figures import Figures, percentile
from benchmarks.io_bound import shop
from benchmarks.load.http import Connection, connect, exchange, head
from benchmarks.load.messages import (
    INITIALIZED,
    LEGACY,
    MODERN,
    call,
    decode,
    decode_listing,
    decode_raw,
    initialize,
    list_tools,
)
from benchmarks.load.tally import Tally, WrongAnswer
from benchmarks.processes import cpu_of

__all__ = ["CALLS", "LEAST", "PUBLISHED", "SHOP_TOOLS", "USERS", "Form", "measure"]

USERS = 50
LEAST = 4 * USERS
"""Requests that are made before anything is counted, and that are counted at least: on a machine with other work a
server may answer only a few in a second."""
LOOK = 0.01
"""Seconds between two looks whether that is reached."""
PATIENCE = 120.0
"""Seconds that this may take."""
SHOP_TOOLS = ("search_products", "get_user_cart", "checkout")
"""The tools of the published benchmark, in its order."""
ALL_TOOLS = {*SHOP_TOOLS, "echo", "read_popular", "read_product"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What every user asks, again and again."""

    tools: Sequence[str] = SHOP_TOOLS
    sessions: bool = False
    """Whether each call has a session of its own, at 2025-11-25; otherwise calls are at 2026-07-28."""


PUBLISHED = Form(sessions=True)
CALLS = Form()


class User:
    """A user with a connection.

    Args:
        number: Which user it is, 1 to ``USERS``.
        port: Where the server listens.
        tally: Counts the requests.
    """

    def __init__(self, number: int, port: int, tally: Tally) -> None:
        self._number, self._port, self._tally = number, port, tally
        self._connection: Connection | None = None
        self._bought = 0
        self._id = 0
        version = b"MCP-Protocol-Version: "
        self._modern = (version + MODERN.encode(), b"Mcp-Method: tools/call")
        self._legacy = (version + LEGACY.encode(),)
        self._arguments = {tool: json.dumps(self._arguments_of(tool)).encode() for tool in ALL_TOOLS}

    def _arguments_of(self, tool: str) -> dict[str, object]:
        user = shop.user_id(self._number)
        match tool:
            case "search_products":
                return shop.SEARCH
            case "checkout":
                return {"user_id": user, "items": shop.BASKET}
            case "read_popular":
                return {}
            case "read_product":
                return {"product_id": self._number}
            case _:
                return {"user_id": user}

    async def ask(self, form: Form) -> None:
        """Ask until the tally says that it is enough."""
        while not self._tally.stopping:
            try:
                for tool in form.tools:
                    if form.sessions:
                        await self._in_session(tool)
                    else:
                        await self._call(tool, head(self._port, *self._modern, b"Mcp-Name: " + tool.encode()), True)
                if form.sessions:
                    await self._in_session("")
            except (WrongAnswer, ConnectionError, TimeoutError) as error:
                self._tally.wrong(repr(error))
                self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _send(self, start: bytes, body: bytes) -> tuple[int, list[bytes]]:
        if self._connection is None or not self._connection.usable:
            self.close()
            self._connection = await connect(self._port)
        self._connection.session = b""
        return await exchange(self._connection, start, body)

    async def _in_session(self, tool: str) -> None:
        """Open a session, call the tool in it, or list the tools without a name, and end it."""
        self._id += 1
        began = time.perf_counter()
        status, messages = await self._send(head(self._port), initialize(self._id))
        opened = decode(messages[-1]).result if status == 200 and messages else None
        if opened is None or opened.protocol_version != LEGACY:
            raise WrongAnswer(f"initialize: {status} {messages[:1]!r}"[:200])
        self._tally.right(began)
        session = self._connection.session if self._connection is not None else b""
        lines = (*self._legacy, b"Mcp-Session-Id: " + session) if session else self._legacy
        start = head(self._port, *lines)
        status, _ = await self._send(start, INITIALIZED)
        if status not in (200, 202, 204):
            raise WrongAnswer(f"initialized: {status}")
        if tool:
            await self._call(tool, start, False)
        else:
            await self._list(start)
        if session:
            await self._send(head(self._port, *lines, method=b"DELETE"), b"")

    async def _list(self, start: bytes) -> None:
        self._id += 1
        began = time.perf_counter()
        status, messages = await self._send(start, list_tools(self._id, modern=False))
        reply = decode_raw(messages[-1]) if status == 200 and messages else None
        if reply is None or reply.id != self._id or listed(bytes(reply.result)) != ALL_TOOLS:
            raise WrongAnswer(f"tools/list: {status} {messages[:1]!r}"[:200])
        self._tally.right(began)

    async def _call(self, tool: str, start: bytes, modern: bool) -> None:
        self._id += 1
        began = time.perf_counter()
        body = call(self._id, tool.encode(), self._arguments[tool], modern=modern)
        status, messages = await self._send(start, body)
        reply = decode(messages[-1]) if status == 200 and messages else None
        result = reply.result if reply is not None and reply.id == self._id else None
        if result is None or result.is_error or result.content is None or len(result.content) != 1:
            raise WrongAnswer(f"{tool}: {status} {messages[:1]!r}"[:300])
        number = self._number
        if decode_json(result.content[0].text) != shop.expected_answer(tool, number, self._bought):
            raise WrongAnswer(f"{tool} of user {number}: {result.content[0].text}"[:300])
        self._bought += tool == "checkout"
        self._tally.right(began)


def listed(result: bytes) -> set[str]:
    """Return the names of the tools in the result of a list."""
    return {tool.name for tool in decode_listing(result).tools}


async def wait_for_requests(tally: Tally, seconds: float) -> None:
    """Return after so many seconds, once enough requests were answered, or too many wrongly.

    Raises:
        WrongAnswer: The server is too slow.
    """
    until, enough = time.perf_counter() + seconds, tally.done + LEAST
    for _ in range(int((seconds + PATIENCE) / LOOK)):
        if tally.stopping or (time.perf_counter() >= until and tally.done >= enough):
            return
        await asyncio.sleep(LOOK)
    raise WrongAnswer(f"{tally.done - enough + LEAST} of {LEAST} answers came in time")


async def measure(port: int, pids: Sequence[int], form: Form, *, warm: float, seconds: float) -> Figures:
    """Let all users ask a server.

    Args:
        port: Where it listens.
        pids: Its processes.
        form: What is asked.
        warm: Seconds before anything is counted.
        seconds: Seconds that are counted.

    Returns:
        ``cpu``: seconds of the server's processor time for each request; ``rate``: requests a second by the clock;
        ``p50`` and ``p95``: seconds that a request took.

    Raises:
        WrongAnswer: An answer was not what it must be.
    """
    tally = Tally()
    users = [User(number, port, tally) for number in range(1, USERS + 1)]
    asking = [asyncio.ensure_future(user.ask(form)) for user in users]
    try:
        await wait_for_requests(tally, warm)
        tally.recording = True
        done, used, began = tally.done, cpu_of(pids), time.perf_counter()
        await wait_for_requests(tally, seconds)
        tally.recording = False
        took, spent, count = time.perf_counter() - began, cpu_of(pids) - used, tally.done - done
        tally.stopping = True
        await asyncio.gather(*asking)
    finally:
        for task in asking:
            task.cancel()
        for user in users:
            user.close()
    if tally.faults:
        raise WrongAnswer(tally.faults[0])
    p50, p95 = (percentile(tally.latencies, percent) for percent in (50, 95))
    return {"cpu": spent / count, "rate": count / took, "p50": p50, "p95": p95}
