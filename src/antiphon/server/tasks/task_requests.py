"""The requests of clients about tasks: to make a call a task, and to poll, answer and cancel it.

For all but the principal that made a task, the task does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CoroutineType
from typing import Any

from antiphon.engine.connection import LATER, Connection, Later
from antiphon.errors import InvalidParams, MethodNotFound, MissingCapability, TemporarilyUnavailable
from antiphon.protocol.capabilities import extends
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import Handled, read_answer
from antiphon.server.subscriptions import MAX_SUBSCRIPTIONS, Subscriptions
from antiphon.server.tasks.awaited_results import AwaitedResults
from antiphon.server.tasks.served_tasks import ServedTasks, wish_of
from antiphon.server.tasks.stored_tasks import OutOfRoom, unknown_task
from antiphon.server.tasks.task_record import TaskRecord
from antiphon.server.tasks.task_states import TaskEvent
from antiphon.wire.common import ClientCapabilities, EmptyResult, Wire
from antiphon.wire.content import TextContent
from antiphon.wire.methods import METHODS
from antiphon.wire.subscriptions import SubscriptionFilter
from antiphon.wire.task import TASKS, CreateTaskResult, GetTaskResult, TaskParams, UpdateTaskParams
from antiphon.wire.tools import CallToolResult

__all__ = ["TaskRequests", "check_declared"]

Peer = Connection[ServerSession]


def check_declared(client: ClientCapabilities | None) -> None:
    """Check that a client declares the extension in its request.

    Raises:
        MissingCapability: it does not.
    """
    if not extends(client, TASKS):
        raise MissingCapability(
            f"The client does not offer the extension {TASKS}",
            data={"requiredCapabilities": {"extensions": {TASKS: {}}}},
        )


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
    ) -> CallToolResult | CoroutineType[Any, Any, CreateTaskResult | Later] | None:
        """Make a call a task if its client can have one; return ``None`` if it is served as any other call.

        ``serve`` serves it without a task.

        Raises:
            MissingCapability: the tool needs a client that declares the extension.
            MethodNotFound: a client of 2025-11-25 wants a task of a tool that makes none, or none of one that must.
        """
        if request.revision.asks_for_tasks:
            return self._as_wished(request, peer, handled)
        if handled.task == "never":
            return None
        if request.revision.modern and extends(request.capabilities, TASKS):
            if handled.task == "allowed":
                return self._begin_or_serve(request, peer, handled, serve)
            return None if handled.task == "later" else self._tasks.begin(peer, request, handled)
        if handled.task != "required":
            return None
        if request.revision.modern:
            check_declared(request.capabilities)
        text = f"{handled.name} needs a client that offers the extension {TASKS}"
        return CallToolResult(content=[TextContent(text=text)], is_error=True)

    async def _begin_or_serve(
        self, request: Request, peer: Peer, handled: Handled, serve: Callable[[], Any]
    ) -> CreateTaskResult | Later:
        """Make a call a task; serve it at once if the store has no room or cannot be written."""
        try:
            return await self._tasks.begin(peer, request, handled)
        except (OutOfRoom, TemporarilyUnavailable):
            return serve()

    def _as_wished(
        self, request: Request, peer: Peer, handled: Handled
    ) -> CoroutineType[Any, Any, CreateTaskResult] | None:
        is_wished = wish_of(request) is not None
        if is_wished and handled.task in ("allowed", "required"):
            return self._tasks.begin(peer, request, handled)
        # 2025-11-25: "Receivers that do not declare the task capability MUST process requests of that type normally";
        # others "SHOULD return a -32601 (Method not found) error", and "MUST" where a task is required.
        if is_wished and self._tasks.core.capabilities().tasks is not None:
            raise MethodNotFound(f"{handled.name} cannot be called as a task")
        if handled.task == "required":
            raise MethodNotFound(f"{handled.name} must be called as a task")
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
            if request.cancelled:
                return
            self._subscriptions.listen_to_tasks(request, peer, tasks)
            if tasks and self._tasks.wake is not None:
                # They may run in another process, whose reports of progress the worker has to poll.
                self._tasks.wake()
        except Exception as error:
            peer.reply_error(request, error)

    async def get(self, request: Request, peer: Peer) -> GetTaskResult:
        """Serve ``tasks/get``."""
        params: TaskParams = request.params
        return self._tasks.seen(await self.owned(request, peer, params.task_id))

    async def update(self, request: Request, peer: Peer) -> EmptyResult:
        """Serve ``tasks/update``: answers to asks that are not open (any more) are ignored."""
        params: UpdateTaskParams = request.params
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
        params: TaskParams = request.params
        record = await self.owned(request, peer, params.task_id)
        now = await self._tasks.clock()
        if request.revision.asks_for_tasks:
            return await self._cancel_at_once(record, now)
        after = await self._tasks.change(record.id, lambda seen: _cancelled(seen, now))
        if after is not None:
            self._tasks.stop(after)
        return EmptyResult()

    async def _cancel_at_once(self, record: TaskRecord, now: float) -> GetTaskResult:
        """Cancel a task in the way of 2025-11-25, whatever becomes of its handler.

        Raises:
            InvalidParams: it is over.
        """
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
            raise InvalidParams(f"The task cannot be cancelled: it is {after.status}")
        call = self._tasks.calls.get(record.id)
        if call is not None:
            call.end("the client cancelled the task")
        return self._tasks.seen(after)

    async def visible(self, request: Request, peer: Peer, ids: Sequence[str]) -> dict[str, GetTaskResult]:
        """Return the tasks with these ids that a client may see, in the form for clients."""
        check_declared(request.capabilities)
        found = {id: await self._tasks.stored.get(id) for id in dict.fromkeys(ids)}
        return {
            id: self._tasks.seen(task)
            for id, task in found.items()
            if task is not None and task.owner == peer.principal
        }

    async def owned(self, request: Request, peer: Peer, id: str) -> TaskRecord:
        """Return a task of the client that asks for it.

        Raises:
            MissingCapability: the client does not declare the extension.
            InvalidParams: it has no such task.
        """
        if request.revision.modern:
            check_declared(request.capabilities)
        record = await self._tasks.stored.get(id)
        # The same error for another client's task as for none, so that ids cannot be probed.
        if record is None or record.owner != peer.principal:
            raise unknown_task()
        return record


def _cancelled(record: TaskRecord, now: float) -> TaskRecord | None:
    after = record.moved(TaskEvent.CANCEL, now)
    return None if record.is_over or after.state is record.state else after
