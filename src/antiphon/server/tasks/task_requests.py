"""The requests of clients about tasks: to make a call a task, and to poll, answer and cancel it.

For all but the principal that made a task, the task does not exist. For ``tasks/result`` of 2025-11-25 each ask of
a task is sent as a request on the stream of the request that waits, and its answer is stored like one of
``tasks/update``; while no client waits, an ask stays open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import CoroutineType
from typing import Any

import msgspec
from msgspec import DecodeError, Raw, Struct

from antiphon import errors
from antiphon.engine.connection import LATER, Connection, Later
from antiphon.machine.asyncio_tasks import end_tasks, wait_at_most
from antiphon.protocol.events import Request
from antiphon.protocol.server_offer import declares_extension
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import Handled, make_undeclared_error, read_answer, read_reply
from antiphon.server.calls.journal import Kind
from antiphon.server.served_subscriptions import MAX_SUBSCRIPTIONS, Subscriptions
from antiphon.server.tasks.served_tasks import ServedTasks, wish_of
from antiphon.server.tasks.stored_tasks import OutOfRoom, unknown_task
from antiphon.server.tasks.task_call import STORE_AGAIN
from antiphon.server.tasks.task_record import TaskAsk, TaskRecord
from antiphon.server.tasks.task_states import TaskEvent
from antiphon.wire import task as wire
from antiphon.wire.common import ClientCapabilities, EmptyResult, Wire
from antiphon.wire.envelope import ErrorObject, decode_wire, encode_value, from_wire, to_wire
from antiphon.wire.methods import METHODS
from antiphon.wire.subscriptions import SubscriptionFilter
from antiphon.wire.tools import CallToolResult, fail_tool

log = logging.getLogger("antiphon.server")

Peer = Connection[ServerSession]


def check_declared(client: ClientCapabilities | None) -> None:
    """Raise ``MissingCapability`` unless a client declares the extension in its request."""
    if not declares_extension(client, wire.TASKS):
        raise make_undeclared_error()


class TaskRequests:
    """The requests of clients about the tasks of one server."""

    def __init__(self, tasks: ServedTasks, subscriptions: Subscriptions) -> None:
        self._tasks = tasks
        self._subscriptions = subscriptions
        self._served: Mapping[str, Callable[[Request, Peer], CoroutineType[Any, Any, Wire]]] = {
            "tasks/get": self.get,
            "tasks/update": self.update,
            "tasks/cancel": self.cancel,
            "tasks/result": AwaitedResults(tasks, self.owned).result,
        }

    def serve(self, request: Request, peer: Peer) -> CoroutineType[Any, Any, Wire]:
        """Serve a request by its method."""
        return self._served[request.method.name](request, peer)

    # --- calls --------------------------------------------------------------------------------------------------

    def as_task(
        self, request: Request, peer: Peer, handled: Handled, serve: Callable[[], Later]
    ) -> CallToolResult | CoroutineType[Any, Any, wire.CreateTaskResult | Later] | None:
        """Make a call a task if its client can have one; ``None``: the caller serves it as any other."""
        if request.revision.asks_for_tasks:
            return self._as_wished(request, peer, handled)
        if handled.task == "never":
            return None
        if request.revision.modern and declares_extension(request.capabilities, wire.TASKS):
            if handled.task == "allowed":
                return self._begin_or_serve(request, peer, handled, serve)
            return None if handled.task == "later" else self._tasks.begin(peer, request, handled)
        if handled.task != "required":
            return None
        if request.revision.modern:
            check_declared(request.capabilities)
        return fail_tool(f"{handled.name} needs a client that offers the extension {wire.TASKS}")

    async def _begin_or_serve(
        self, request: Request, peer: Peer, handled: Handled, serve: Callable[[], Any]
    ) -> wire.CreateTaskResult | Later:
        """Make a call a task; serve it at once if the store has no room or cannot be written."""
        try:
            return await self._tasks.begin(peer, request, handled)
        except (OutOfRoom, errors.TemporarilyUnavailable):
            return serve()

    def _as_wished(
        self, request: Request, peer: Peer, handled: Handled
    ) -> CoroutineType[Any, Any, wire.CreateTaskResult] | None:
        is_wished = wish_of(request) is not None
        if is_wished and handled.task in ("allowed", "required"):
            return self._tasks.begin(peer, request, handled)
        # 2025-11-25: "Receivers that do not declare the task capability MUST process requests of that type normally";
        # others "SHOULD return a -32601 (Method not found) error", and "MUST" where a task is required.
        if is_wished and self._tasks.core.capabilities().tasks is not None:
            raise errors.MethodNotFound(f"{handled.name} cannot be called as a task")
        if handled.task == "required":
            raise errors.MethodNotFound(f"{handled.name} must be called as a task")
        return None

    # --- tasks --------------------------------------------------------------------------------------------------

    def listen(self, request: Request, peer: Peer) -> Later:
        """Serve ``subscriptions/listen`` for tasks: send the state of each that the client may see, now and later."""
        if request.tasks is not None:
            # Tasks of another server, which middleware has looked up.
            return self._subscriptions.listen_to_tasks(request, peer, request.tasks)
        self._tasks.aside(self._listen(request, peer, request.params.notifications))
        return LATER

    async def _listen(self, request: Request, peer: Peer, wanted: SubscriptionFilter) -> None:
        try:
            tasks = await self.visible(request, peer, list(wanted.task_ids or ())[:MAX_SUBSCRIPTIONS])
            if request.cancelled or peer.is_over:
                return
            self._subscriptions.listen_to_tasks(request, peer, tasks)
            if tasks and self._tasks.wake is not None:
                # They may run in another process, whose reports of progress the worker has to poll.
                self._tasks.wake()
        except Exception as error:
            peer.reply_error(request, error)

    async def get(self, request: Request, peer: Peer) -> wire.GetTaskResult:
        """Serve ``tasks/get``."""
        params: wire.TaskParams = request.params
        return self._tasks.seen(await self.owned(request, peer, params.task_id))

    async def update(self, request: Request, peer: Peer) -> EmptyResult:
        """Serve ``tasks/update``: answers to asks that are not open (any more) are ignored."""
        params: wire.UpdateTaskParams = request.params
        record = await self.owned(request, peer, params.task_id)
        asks = {ask.key: ask for ask in record.asks if ask.key in params.input_responses}
        answers = {key: params.input_responses[key] for key in asks}
        for key, ask in asks.items():
            read_answer(key, answers[key], METHODS[ask.method])
        if asks:
            await self._tasks.answered(record, {key: ("answer", bytes(answer)) for key, answer in answers.items()})
        return EmptyResult()

    async def cancel(self, request: Request, peer: Peer) -> Wire:
        """Serve ``tasks/cancel``: the handler is cancelled, and decides what becomes of it."""
        params: wire.TaskParams = request.params
        record = await self.owned(request, peer, params.task_id)
        now = await self._tasks.clock()
        if request.revision.asks_for_tasks:
            return await self._cancel_at_once(record, now)
        after = await self._tasks.change(record.id, lambda seen: _cancel_record(seen, now))
        if after is not None:
            self._tasks.stop(after)
        return EmptyResult()

    async def _cancel_at_once(self, record: TaskRecord, now: float) -> wire.GetTaskResult:
        """Cancel a task in the way of 2025-11-25, whatever becomes of its handler; ``InvalidParams`` if it is over."""
        # "Receivers MUST reject cancellation requests for tasks already in a terminal status with error code -32602"
        # and "MUST transition the task to `cancelled` status before sending the response".
        is_ours = False

        def change(seen: TaskRecord) -> TaskRecord | None:
            nonlocal is_ours
            is_ours = not seen.is_over
            stopped = seen.moved(TaskEvent.CANCEL, now)
            if stopped.is_over:
                return stopped if is_ours else None
            return stopped.ended(TaskEvent.UNWIND, b"", stopped.message, self._tasks.options.keep, now)

        after = await self._tasks.change(record.id, change)
        if after is None:
            raise unknown_task()
        if not is_ours:
            raise errors.InvalidParams(f"The task cannot be cancelled: it is {after.status}")
        call = self._tasks.calls.get(record.id)
        if call is not None:
            call.end("the client cancelled the task")
        return self._tasks.seen(after)

    async def visible(self, request: Request, peer: Peer, ids: Sequence[str]) -> dict[str, wire.GetTaskResult]:
        """Return the tasks with these ids that a client may see, in the form for clients."""
        check_declared(request.capabilities)
        found = {id: await self._tasks.stored.get(id) for id in dict.fromkeys(ids)}
        return {
            id: self._tasks.seen(task)
            for id, task in found.items()
            if task is not None and task.owner == peer.principal
        }

    async def owned(self, request: Request, peer: Peer, id: str) -> TaskRecord:
        """Return a task of the client that asks, which has to declare the extension."""
        if request.revision.modern:
            check_declared(request.capabilities)
        record = await self._tasks.stored.get(id)
        # The same error for another client's task as for none, so that ids cannot be probed.
        if record is None or record.owner != peer.principal:
            raise unknown_task()
        return record


def _cancel_record(record: TaskRecord, now: float) -> TaskRecord | None:
    after = record.moved(TaskEvent.CANCEL, now)
    return None if record.is_over or after.state is record.state else after


Owned = Callable[[Request, Peer, str], Awaitable[TaskRecord]]
"""Returns a task, if it is the sender's."""

_LOOK = 5.0
"""Seconds between two reads of a task without news, because the end of its time to live is no news."""


class AwaitedResults:
    """The requests of this process that wait for the end of a task."""

    def __init__(self, tasks: ServedTasks, owned: Owned) -> None:
        self._tasks = tasks
        self._owned = owned
        self._asked: dict[str, _SentAsks] = {}

    async def result(self, request: Request, peer: Peer) -> CallToolResult:
        """Serve ``tasks/result``, which raises the error of a task that failed or was cancelled."""
        params: wire.TaskParams = request.params
        with self._tasks.news(params.task_id) as news, self._hold_asks(params.task_id) as asked:
            waiting = _WaitingResult(self._tasks, asked, request, peer)
            try:
                while True:
                    news.clear()
                    record = await self._owned(request, peer, params.task_id)
                    await waiting.take(record, news)
                    if record.is_over:
                        return _read_outcome(record)
                    await wait_at_most(_LOOK, news.wait())
            finally:
                await waiting.end()

    @contextlib.contextmanager
    def _hold_asks(self, id: str) -> Generator[_SentAsks]:
        asked = self._asked.setdefault(id, _SentAsks(lambda: self._hold_asks(id)))
        asked.holders += 1
        try:
            yield asked
        finally:
            asked.holders -= 1
            if not asked.holders:
                del self._asked[id]


class _SentAsks(Struct, eq=False):
    """The asks of one task that this process has sent, kept while a request waits for the task.

    A waiting request may read the task just before an answer to another one is stored, and must not ask that again.
    """

    hold: Callable[[], AbstractContextManager[_SentAsks]]
    keys: set[str] = set()
    """Keys of asks that were sent to a client, answered or not."""
    holders: int = 0


class _WaitingResult(Struct, eq=False):
    _tasks: ServedTasks
    _asked: _SentAsks
    _request: Request
    _peer: Peer
    _asking: dict[str, asyncio.Task[None]] = {}
    _told: tuple[str, str | None] | None = None

    async def take(self, record: TaskRecord, news: asyncio.Event) -> None:
        """Send what is new of a task: its status, and its asks; withdraw asks that are not open any more."""
        if self._told != (record.status, record.message):
            self._told = record.status, record.message
            notice = METHODS["notifications/tasks/status"]
            told = wire.as_experiment(self._tasks.seen(record))
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
        await end_tasks(*self._asking.values())

    async def _ask(self, record: TaskRecord, ask: TaskAsk, news: asyncio.Event) -> None:
        is_answered = False
        try:
            kind, given = await self._send_ask(record, ask)
            is_answered = True
            # Stored even if the waiting request is cancelled now, so that a person is not asked again.
            await asyncio.shield(self._tasks.aside(self._store(record, ask, kind, given)))
        except (errors.MissingCapability, errors.NotInRevision):
            # This client is not the one that made the call; one that offers it may come.
            log.info("a task asks for what the client that waits for it does not offer")
        except errors.ConnectionClosed:
            pass
        except errors.AntiphonError as error:
            log.warning("an ask of a task could not be answered: %s", type(error).__name__)
        finally:
            if not is_answered:
                self._asked.keys.discard(ask.key)
            for other in self._tasks.awaited.get(record.id, set()) - {news}:
                other.set()

    async def _store(self, record: TaskRecord, ask: TaskAsk, kind: Kind, given: bytes) -> None:
        with self._asked.hold():
            while not self._tasks.closed:
                try:
                    await self._tasks.answered(record, {ask.key: (kind, given)})
                except OutOfRoom as error:
                    if kind == "error":
                        raise
                    kind, given = "error", encode_value(to_wire(error))
                except errors.PeerError:
                    # The time of the task is over.
                    return
                except Exception as error:
                    log.warning("an answer to a task could not be stored: %s", type(error).__name__)
                    await asyncio.sleep(STORE_AGAIN)
                else:
                    return

    async def _send_ask(self, record: TaskRecord, ask: TaskAsk) -> tuple[Kind, bytes]:
        """Ask the client; return its answer, or the error that it answers with."""
        spec, session = METHODS[ask.method], self._peer.session
        session.check_ask(spec, decode_wire(Raw(ask.params), spec.params), self._request)
        # "The receiver MUST include the related-task metadata in the request to associate it with the task."
        related = {wire.RELATED_TASK: {"taskId": record.id}}
        outgoing = session.ask(spec, Raw(ask.params), self._request, is_checked=True, meta=related)
        try:
            given = await self._peer.request(outgoing)
            read_reply(given, spec)
        except errors.PeerError as error:
            return "error", encode_value(ErrorObject(code=error.code, message=error.message, data=error.data))
        return "answer", bytes(given)


def _read_outcome(record: TaskRecord) -> CallToolResult:
    """Return "exactly what the underlying request would have returned", with the task that it belongs to."""
    if record.status == "failed":
        failure = from_wire(decode_wire(Raw(record.outcome), ErrorObject))
        failure.remote = False
        raise failure
    if record.status == "cancelled":
        raise errors.InternalError("The task was cancelled")
    try:
        result = decode_wire(Raw(record.outcome), CallToolResult)
    except DecodeError:
        raise errors.InternalError("The result of the task cannot be read") from None
    related = {wire.RELATED_TASK: {"taskId": record.id}}
    return msgspec.structs.replace(result, meta={**(result.meta or {}), **related})
