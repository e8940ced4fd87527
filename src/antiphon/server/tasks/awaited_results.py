"""``tasks/result`` of 2025-11-25: a client waits for the end of its task, and is asked meanwhile by ordinary requests.

Each ask of a task, which the extension puts into ``inputRequests``, is sent here as a request on the stream of the
request that waits. While no client waits, an ask stays open in the task; the client that waits next is asked, in any
process, and its answer is stored like one of ``tasks/update``. So tasks of both kinds are kept, run and continued
alike.

Source: 2025-11-25 basic/utilities/tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager

import msgspec
from msgspec import DecodeError, Raw

from antiphon.engine.connection import Connection
from antiphon.errors import (
    AntiphonError,
    ConnectionClosed,
    InternalError,
    MissingCapability,
    NotInRevision,
    PeerError,
)
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import read_reply
from antiphon.server.calls.journal import Kind
from antiphon.server.tasks.served_tasks import ServedTasks
from antiphon.server.tasks.stored_tasks import OutOfRoom
from antiphon.server.tasks.task_record import TaskAsk, TaskRecord
from antiphon.wire.envelope import ErrorObject, decode, encode
from antiphon.wire.failure import from_wire, to_wire
from antiphon.wire.methods import METHODS
from antiphon.wire.task import RELATED_TASK, TaskParams, as_experiment
from antiphon.wire.tools import CallToolResult

__all__ = ["AwaitedResults"]

log = logging.getLogger("antiphon.server")

Peer = Connection[ServerSession]
Owned = Callable[[Request, Peer, str], Awaitable[TaskRecord]]
"""Returns a task, if it is the sender's."""

_LOOK = 5.0
"""Seconds between two reads of a task without news, because the end of its time to live is no news."""

_STORE_AGAIN = 1.0
"""Seconds between two attempts to store an answer, while the store fails."""


class AwaitedResults:
    """The requests of this process that wait for the end of a task."""

    def __init__(self, tasks: ServedTasks, owned: Owned) -> None:
        self._tasks = tasks
        self._owned = owned
        self._asked: dict[str, _Asked] = {}

    async def result(self, request: Request, peer: Peer) -> CallToolResult:
        """Serve ``tasks/result``.

        Raises:
            InvalidParams: there is no such task (any more).
            PeerError: its call has failed, or it was cancelled.
        """
        params: TaskParams = request.params
        with self._tasks.news(params.task_id) as news, self._held(params.task_id) as asked:
            waiting = _Waiting(self._tasks, asked, request, peer)
            try:
                while True:
                    news.clear()
                    record = await self._owned(request, peer, params.task_id)
                    await waiting.take(record, news)
                    if record.is_over:
                        return _outcome(record)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK):
                            await news.wait()
            finally:
                await waiting.end()

    @contextlib.contextmanager
    def _held(self, id: str) -> Generator[_Asked]:
        asked = self._asked.setdefault(id, _Asked(lambda: self._held(id)))
        asked.holders += 1
        try:
            yield asked
        finally:
            asked.holders -= 1
            if not asked.holders:
                del self._asked[id]


class _Asked:
    """The asks of one task that this process has sent, kept while a request waits for the task.

    A waiting request may read the task just before an answer to another one is stored, and must not ask that again.
    """

    def __init__(self, hold: Callable[[], AbstractContextManager[_Asked]]) -> None:
        self.keys: set[str] = set()
        """Keys of asks that were sent to a client, answered or not."""
        self.holders = 0
        self.hold = hold


class _Waiting:
    """One waiting request."""

    def __init__(self, tasks: ServedTasks, asked: _Asked, request: Request, peer: Peer) -> None:
        self._tasks = tasks
        self._asked = asked
        self._request = request
        self._peer = peer
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._told: tuple[str, str | None] | None = None

    async def take(self, record: TaskRecord, news: asyncio.Event) -> None:
        """Send what is new of a task: its status, and its asks; withdraw asks that are not open any more."""
        if self._told != (record.status, record.message):
            self._told = record.status, record.message
            notice = METHODS["notifications/tasks/status"]
            told = as_experiment(self._tasks.seen(record))
            wait = self._peer.send(self._peer.session.notify(notice, told, self._request), self._request)
            if wait is not None:
                await wait
        open_keys = {ask.key for ask in record.asks} if record.status == "input_required" else set[str]()
        for key, asking in self._asking.items():
            if key not in open_keys:
                asking.cancel()
        for ask in record.asks:
            if ask.key in open_keys and ask.key not in self._asking and ask.key not in self._asked.keys:
                self._asked.keys.add(ask.key)
                self._asking[ask.key] = asyncio.ensure_future(self._ask(record, ask, news))

    async def end(self) -> None:
        """Withdraw the open asks; the task keeps them for the next request that waits."""
        for asking in self._asking.values():
            asking.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def _ask(self, record: TaskRecord, ask: TaskAsk, news: asyncio.Event) -> None:
        is_answered = False
        try:
            kind, given = await self._put(record, ask)
            is_answered = True
            # Stored even if the waiting request is cancelled now, so that a person is not asked again.
            await asyncio.shield(self._tasks.aside(self._store(record, ask, kind, given)))
        except (MissingCapability, NotInRevision):
            # This client is not the one that made the call; one that offers it may come.
            log.info("a task asks for what the client that waits for it does not offer")
        except ConnectionClosed:
            pass
        except AntiphonError as error:
            log.warning("an ask of a task could not be answered: %s", type(error).__name__)
        finally:
            if not is_answered:
                self._asked.keys.discard(ask.key)
            for other in self._tasks.awaiting(record.id) - {news}:
                other.set()

    async def _store(self, record: TaskRecord, ask: TaskAsk, kind: Kind, given: bytes) -> None:
        with self._asked.hold():
            while not self._tasks.closed:
                try:
                    await self._tasks.answered(record, {ask.key: (kind, given)})
                except OutOfRoom as error:
                    if kind == "error":
                        raise
                    kind, given = "error", encode(to_wire(error))
                except PeerError:
                    # The time of the task is over.
                    return
                except Exception as error:
                    log.warning("an answer to a task could not be stored: %s", type(error).__name__)
                    await asyncio.sleep(_STORE_AGAIN)
                else:
                    return

    async def _put(self, record: TaskRecord, ask: TaskAsk) -> tuple[Kind, bytes]:
        """Ask the client; return its answer, or the error that it answers with."""
        spec, session = METHODS[ask.method], self._peer.session
        session.check_ask(spec, decode(Raw(ask.params), spec.params), self._request)
        # "The receiver MUST include the related-task metadata in the request to associate it with the task."
        related = {RELATED_TASK: {"taskId": record.id}}
        outgoing = session.ask(spec, Raw(ask.params), self._request, is_checked=True, meta=related)
        try:
            given = await self._peer.request(outgoing)
            read_reply(given, spec)
        except PeerError as error:
            return "error", encode(ErrorObject(code=error.code, message=error.message, data=error.data))
        return "answer", bytes(given)


def _outcome(record: TaskRecord) -> CallToolResult:
    """Return "exactly what the underlying request would have returned", with the task that it belongs to."""
    if record.status == "failed":
        failure = from_wire(decode(Raw(record.outcome), ErrorObject))
        failure.remote = False
        raise failure
    if record.status == "cancelled":
        raise InternalError("The task was cancelled")
    try:
        result = decode(Raw(record.outcome), CallToolResult)
    except DecodeError:
        raise InternalError("The result of the task cannot be read") from None
    related = {RELATED_TASK: {"taskId": record.id}}
    return msgspec.structs.replace(result, meta={**(result.meta or {}), **related})
