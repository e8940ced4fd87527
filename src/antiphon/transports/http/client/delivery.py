"""Messages that get no reply: notifications, and replies to requests of the server.

Owns their POST, its repetition (each may safely arrive twice, and a lost reply would leave the server waiting for
ever), and the bound on how many are in flight.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any

from antiphon.transports.http.client.failures import BROKEN, UNREACHABLE, HttpFailure
from antiphon.transports.http.client.line import Line
from antiphon.transports.http.client.message import Outgoing, read_refusal
from antiphon.transports.inbox import Room

__all__ = ["Deliveries", "deliver"]

log = logging.getLogger("antiphon.transports")

_PATIENCE = 60.0
"""Seconds a server has to accept a message in all attempts together: 16 MiB over a slow line."""

_DELAYS = (0.1, 0.5, 2.0, 5.0)
"""Seconds before each repetition."""

_PASSING = frozenset({UNREACHABLE, BROKEN, 502, 503, 504})
"""Failures after which another attempt may succeed: a proxy answers so for a server that has just died."""

_MAX_DELIVERIES = 64
"""Most messages in flight before senders are asked to wait."""


class Deliveries:
    """The messages of one channel that are in flight, each in a task."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = Room()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start to deliver a message."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        if len(self._tasks) > _MAX_DELIVERIES:
            self._room.shut()
        task.add_done_callback(self._ended)
        return task

    @property
    def full(self) -> Awaitable[None] | None:
        """What a sender should await, if too many are in flight."""
        return self._room.full

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._room.full is not None and len(self._tasks) <= _MAX_DELIVERIES // 2:
            self._room.open()

    def cancel(self) -> None:
        """Cancel all of them, except the task that calls this."""
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()

    async def end(self, patience: float) -> None:
        """Wait up to ``patience`` seconds for those in flight, then cancel the rest."""
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
            self.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def deliver(line: Line, message: Outgoing, data: bytes) -> None:
    """Post a message until the server has accepted or refused it. Failures are logged, since no caller waits for it."""
    what = message.method or "a reply"
    try:
        async with asyncio.timeout(_PATIENCE):
            await _deliver(line, message, data)
    except TimeoutError:
        log.warning("%s did not take %s within %g s", line.web.where, what, _PATIENCE)
    except HttpFailure as failure:
        log.warning("%s was not delivered: %s", what, failure.message)
    except Exception:
        log.exception("%s was not delivered", what)


async def _deliver(line: Line, message: Outgoing, data: bytes) -> None:
    for delay in (*_DELAYS, None):
        try:
            await _post(line, message, data)
            return
        except HttpFailure as failure:
            if delay is None or failure.code not in _PASSING:
                raise
        await asyncio.sleep(delay)


async def _post(line: Line, message: Outgoing, data: bytes) -> None:
    response = await line.web.request("POST", line.post_headers(message), data)
    try:
        if response.status < 300:
            return
        gone = response.status == 404 and line.has_session(response)
        failure = (await read_refusal(line.web, response)).failure(gone=gone)
    finally:
        response.release()
    if gone:
        line.lose_session()
    raise failure
