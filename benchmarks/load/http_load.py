"""A caller over HTTP: one connection, one request in flight, the next as soon as the answer was checked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress

from benchmarks.load.http import Connection, connect, exchange, head
from benchmarks.load.messages import INITIALIZED, LEGACY, MODERN, Incoming, decode, discover, initialize
from benchmarks.load.operations import Operation
from benchmarks.load.tally import Tally, WrongAnswer

__all__ = ["HttpCaller", "open_session"]


async def open_session(connection: Connection, port: int) -> bytes:
    """Open a legacy session and return its id.

    Raises:
        WrongAnswer: The server has none, or speaks another revision.
    """
    connection.session = b""
    status, messages = await exchange(connection, head(port), initialize(0))
    opened = decode(messages[-1]) if status == 200 and messages else None
    if opened is None or opened.result is None or opened.result.protocol_version != LEGACY or not connection.session:
        raise WrongAnswer(f"initialize: {status} {messages[:1]!r}"[:200])
    status, _ = await exchange(connection, legacy_head(port, connection.session), INITIALIZED)
    if status not in (200, 202, 204):
        raise WrongAnswer(f"initialized: {status}")
    return connection.session


def legacy_head(port: int, session: bytes, method: bytes = b"POST") -> bytes:
    """Write the head of a request within a session."""
    lines = (b"MCP-Protocol-Version: " + LEGACY.encode(), b"Mcp-Session-Id: " + session)
    return head(port, *lines, method=method)


class HttpCaller:
    """Keep one request in flight on one connection; a second one carries the answers to a legacy server's asks."""

    def __init__(self, tally: Tally, operation: Operation, port: int, numbers: Iterator[int]) -> None:
        self._tally, self._operation, self._port, self._numbers = tally, operation, port, numbers
        self._side: Connection | None = None
        self._session = b""
        self._answers: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = self._id = 0
        self._right = False
        self._retry: bytes | None = None
        self._began = 0.0
        self.alive = False

    async def open(self) -> None:
        """Connect, and open a session if the era has them.

        Raises:
            WrongAnswer: The server does not speak the revision.
        """
        self._connection = await connect(self._port)
        if self._operation.modern:
            await self._discover()
        else:
            self._session = await open_session(self._connection, self._port)
            self._head = legacy_head(self._port, self._session)
            if self._operation.kind == "sample":
                await self._open_side()
        self._listen()

    async def _discover(self) -> None:
        version = b"MCP-Protocol-Version: " + MODERN.encode()
        method = b"Mcp-Method: "
        status, messages = await exchange(
            self._connection, head(self._port, version, method + b"server/discover"), discover(0)
        )
        found = decode(messages[-1]).result if messages else None
        if status != 200 or found is None or MODERN not in (found.supported_versions or []):
            raise WrongAnswer(f"server/discover: {status} {messages[:1]!r}"[:200])
        name = [b"Mcp-Name: " + self._operation.name] if self._operation.method == b"tools/call" else []
        self._head = head(self._port, version, method + self._operation.method, *name)

    async def _open_side(self) -> None:
        self._side = await connect(self._port)
        self._side.on_message = lambda data: self._tally.wrong(f"beside: {data[:100]!r}")
        self._side.on_done = self._side_done

    def _listen(self) -> None:
        self._connection.on_message = self._message
        self._connection.on_done = self._done
        self._connection.on_lost = self._lost

    def go(self) -> None:
        """Send the first request."""
        self.alive = True
        self._next()

    def _next(self) -> None:
        self._number = self._id = next(self._numbers)
        self._right, self._retry = False, None
        body = self._operation.request(self._number)
        self._began = time.perf_counter()
        self._connection.request(self._head, body)

    def _message(self, data: bytes) -> None:
        try:
            message = self._operation.read(data)
            if message.method is not None:
                self._asked(message)
            elif message.result is not None and message.result.result_type == "input_required":
                self._id = next(self._numbers)
                self._retry = self._operation.retry(self._id, self._number, message.result)
            else:
                self._operation.verify(self._id, self._number, message)
                self._right = True
        except WrongAnswer as error:
            self._tally.wrong(error)

    def _asked(self, ask: Incoming) -> None:
        number, answer = self._operation.reply(ask)
        if number != self._number or self._side is None:
            raise WrongAnswer(f"prompt of {number} for {self._number}")
        self._answers.append(answer)
        self._send_answer()

    def _send_answer(self) -> None:
        if self._side is not None and self._answers and not self._side.busy:
            self._side.request(self._head, self._answers.pop(0))

    def _side_done(self, status: int) -> None:
        if status not in (200, 202, 204):
            self._tally.wrong(f"HTTP {status} for an answer")
        self._send_answer()

    def _done(self, status: int) -> None:
        if self._retry is not None:
            body, self._retry = self._retry, None
            self._connection.request(self._head, body)
            return
        if status == 200 and self._right:
            self._tally.right(self._began)
        else:
            self._tally.wrong(f"HTTP {status}, right: {self._right}")
        if self._tally.stopping:
            self.alive = False
        elif self._connection.usable:
            self._next()
        else:
            self._reconnect()

    def _lost(self) -> None:
        if self._connection.busy:
            self._tally.wrong("connection lost within a response")
            self.alive = False
        elif self.alive:
            self._reconnect()

    def _reconnect(self) -> None:
        """Go on with a new connection, as any client of a server that closes them has to."""

        async def anew() -> None:
            self._connection.close()
            self._connection = await connect(self._port)
            self._listen()
            self._next()

        task = asyncio.ensure_future(anew())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End the session, and close the connections."""
        if self._session and self._connection.usable and not self._connection.busy:
            # A server may refuse to have its sessions ended; that is its business.
            with suppress(ConnectionError, TimeoutError):
                await exchange(self._connection, legacy_head(self._port, self._session, b"DELETE"), b"")
        for connection in (self._connection, self._side):
            if connection is not None:
                connection.close()
