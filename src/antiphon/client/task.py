"""A task of a server, as a client follows it: polled, answered, cancelled, and picked up again by its id.

A task's asks go to the same answerers as other asks of the server, within the same limits, and each is answered once.
The client polls the task as often as the server wants, and subscribes to its changes if the server can.

Source: the extension ``io.modelcontextprotocol/tasks`` (SEP-2663).
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

from msgspec import DecodeError, Raw, Struct

from antiphon.client.answers.ownership import OpenCall
from antiphon.client.link import ServerLink
from antiphon.client.notifications import ClientNotices
from antiphon.client.requests.request_calls import Calls
from antiphon.client.rounds.loop import RoundAsk, RoundLimits
from antiphon.errors import AntiphonError, CallTimeout, RemoteProtocolError, TaskCancelled
from antiphon.machine.asyncio_tasks import end_tasks, ignore_error, wait_at_most
from antiphon.machine.call_time import TimeLeft
from antiphon.wire.common import EmptyResult
from antiphon.wire.envelope import decode_wire, encode_value, from_wire, problem_of
from antiphon.wire.lossless import Received
from antiphon.wire.methods import METHODS
from antiphon.wire.origin import Round
from antiphon.wire.rounds import InputRequest
from antiphon.wire.subscriptions import SubscriptionFilter, SubscriptionsListenRequestParams
from antiphon.wire.task import CreateTaskResult, GetTaskResult, TaskParams, TaskStatus, UpdateTaskParams
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

T = TypeVar("T")

_POLL = 1.0
"""Seconds between two polls, if the server names no interval."""
_FASTEST, _SLOWEST = 0.05, 60.0
"""Shortest and longest interval between two polls that is accepted from a server, in seconds."""
_SAID = 200
"""Most characters of the task's message that are shown with its asks."""
ENDS = frozenset({"completed", "failed", "cancelled"})
"""The statuses of a task that has ended."""


class TaskUpdate(Struct, frozen=True, kw_only=True):
    """The ``status`` of a task, and the server's ``message`` about it."""

    status: TaskStatus
    message: str | None = None


class TaskHandle:
    """One task. Made by ``Client.start_task`` and ``Client.task``.

    ``await handle.result()`` and ``async for update in handle`` follow it to its end, and answer what it asks. Without
    either, nobody answers.
    """

    def __init__(
        self,
        link: ServerLink,
        notices: ClientNotices,
        params: CallToolRequestParams,
        limits: RoundLimits,
        begun: CreateTaskResult | CallToolResult | str,
        timeout: float | None,
        *,
        started: float | None = None,
        examine: Callable[[Awaitable[CallToolResult]], Awaitable[CallToolResult]],
    ) -> None:
        self._link = link
        self._examine = examine
        self._notices = notices
        self._params = params
        self._limits = limits
        self._timeout = timeout
        self._started = started
        self._call = OpenCall("tools/call", params)
        self._seen: GetTaskResult | CreateTaskResult | None = None
        self._result: CallToolResult | None = None
        self._answering: dict[str, asyncio.Task[None]] = {}
        """The answering of each ask, by key, also when it is done: a key is never used twice."""
        self._failed: set[str] = set()
        """Keys of asks whose answerer raised an error that was passed on already."""
        self._turns = asyncio.Semaphore(limits.at_once)
        self._batches = 0
        self._news = asyncio.Event()
        self._id = ""
        if isinstance(begun, CreateTaskResult):
            self._id, self._seen = begun.task_id, begun
            self._started = time.time()
        elif isinstance(begun, str):
            self._id = begun
        else:
            self._result = begun

    def __repr__(self) -> str:
        return f"TaskHandle({self._id!r}, {self.status!r})"

    @property
    def id(self) -> str:
        """The task's id: the same principal can follow the task with it. Empty if there was no task."""
        return self._id

    @property
    def status(self) -> TaskStatus:
        """The status at the last poll."""
        if self._seen is None:
            return "completed" if self._result is not None else "working"
        return self._seen.status

    @property
    def message(self) -> str | None:
        """The server's last message about the task."""
        return self._seen.status_message if self._seen is not None else None

    async def refresh(self) -> TaskUpdate:
        """Poll the task once, without answering its asks.

        Raises:
            InvalidParams: the server does not know it (any more).
        """
        if self._id:
            self._seen = await self._request("tasks/get", TaskParams(task_id=self._id), GetTaskResult)
        return TaskUpdate(status=self.status, message=self.message)

    async def cancel(self) -> None:
        """Ask the server to stop the task. The server decides; ``status`` and ``result`` say what became of it."""
        if self._id and self.status not in ENDS:
            await self._request("tasks/cancel", TaskParams(task_id=self._id), EmptyResult)

    async def result(self, *, timeout: float | None = None) -> CallToolResult:
        """Follow the task to its end, and return the result of its call.

        Args:
            timeout: seconds to wait, including the time people need to answer; no limit by default. The task goes on
                after it.

        Raises:
            TaskCancelled: it was cancelled.
            PeerError: its call failed.
            CallTimeout: it did not end in time.
            Rejected: a person refused what it asked; it was cancelled.
            InvalidParams: the server does not know it (any more).
            RemoteProtocolError: it asked too much, or what no task may ask; it was cancelled.
        """
        limit = asyncio.timeout(timeout)
        try:
            async with limit, contextlib.aclosing(self._follow()) as updates:
                async for _ in updates:
                    pass
        except TimeoutError:
            if not limit.expired():
                raise
            raise CallTimeout(f"the task did not end within {timeout:g} s") from None
        return await self._outcome()

    def looks(self) -> AsyncGenerator[Received]:
        """Yield the state of the task whenever it has changed, for a proxy, without answering its asks.

        Yields:
            The result of ``tasks/get``, decoded and as it came, until the task has ended.

        Raises:
            InvalidParams: the server does not know it (any more).
        """

        async def poll() -> tuple[object, Received]:
            look = await self.look()
            return bytes(look.raw), look

        return self._polled(poll)

    async def look(self) -> Received:
        """Poll the task once, for a proxy; return its state, decoded and as it came."""
        params = TaskParams(task_id=self._id)
        look = await self._link.run(
            Calls.forward, METHODS["tasks/get"], params, original=Received.of(params), timeout=TimeLeft(self._timeout),
            extensions=self._link.session.for_tasks,
        )  # fmt: skip
        self._seen = look.read
        return look

    def __aiter__(self) -> AsyncGenerator[TaskUpdate]:
        return self._follow()

    async def shown(self, progress: Callable[..., object] | None) -> CallToolResult:
        """Follow the task to its end, and report each message about it as progress; return its result.

        Args:
            progress: called with a number that increases, no total, and the message; may be async.
        """
        count = 0
        last: str | None = None
        async with contextlib.aclosing(self._follow()) as updates:
            async for update in updates:
                if progress is not None and update.message is not None and update.message != last:
                    count, last = count + 1, update.message
                    outcome = progress(count, None, update.message)
                    if inspect.isawaitable(outcome):
                        await outcome
        return await self._outcome()

    # --- following ----------------------------------------------------------------------------------------------

    def _follow(self) -> AsyncGenerator[TaskUpdate]:
        async def poll() -> tuple[object, TaskUpdate]:
            update = await self.refresh()
            if isinstance(self._seen, GetTaskResult) and self._seen.input_requests:
                await self._answer(self._seen.input_requests)
            return update, update

        return self._polled(poll)

    async def _polled(self, poll: Callable[[], Awaitable[tuple[object, T]]]) -> AsyncGenerator[T]:
        """Poll the task until it has ended; yield what a poll returns if its first part is another than before."""
        before: object = None
        listening = asyncio.ensure_future(self._listen())
        try:
            with self._notices.of_task(self._id, self._news):
                while True:
                    self._news.clear()
                    state, found = await poll()
                    if state != before:
                        before = state
                        yield found
                    if not self._id or self.status in ENDS:
                        return
                    await self._rest()
        finally:
            # Asks that are not answered yet will be answered if the task is followed again.
            open_keys = [key for key, work in self._answering.items() if not work.done()]
            await end_tasks(listening, *[self._answering.pop(key) for key in open_keys])

    async def _listen(self) -> None:
        """Subscribe to changes of the task. A server that refuses is only polled."""
        if not self._id:
            return
        calls = self._link.calls
        wanted = SubscriptionsListenRequestParams(notifications=SubscriptionFilter(task_ids=[self._id]))
        with contextlib.suppress(AntiphonError):
            await calls.peer.request(
                calls.session.request(METHODS["subscriptions/listen"], wanted, extensions=calls.session.for_tasks)
            )

    async def _rest(self) -> None:
        """Wait until the task has changed, or it is time for another poll; raises what an answerer has raised."""
        named = self._seen.poll_interval_ms if self._seen is not None else None
        pause = _POLL if named is None else min(max(named, _FASTEST * 1000), _SLOWEST * 1000) / 1000
        await wait_at_most(pause, self._news.wait())
        for key, work in self._answering.items():
            failed = key not in self._failed and work.done() and not work.cancelled()
            if failed and (error := work.exception()) is not None:
                self._failed.add(key)
                await self._give_up(error)

    async def _give_up(self, error: BaseException) -> None:
        with contextlib.suppress(AntiphonError):
            await self.cancel()
        raise error

    async def _answer(self, requests: dict[str, InputRequest]) -> None:
        new = {key: ask for key, ask in requests.items() if key not in self._answering}
        if not new:
            return
        self._batches += 1
        try:
            asks = self._link.calls.asks_of_task(new, self._batches, len(self._answering) + len(new))
        except RemoteProtocolError as error:
            await self._give_up(error)
            raise
        this = Round(n=self._batches, max=self._limits.rounds)
        for key, ask in asks.items():
            work = self._answering[key] = asyncio.ensure_future(self._answer_one(key, ask, this))
            # If several fail, only the first error is raised; the others count as retrieved.
            work.add_done_callback(ignore_error)

    async def _answer_one(self, key: str, ask: RoundAsk, this: Round) -> None:
        call = OpenCall("tools/call", self._params, given_name=self._call.name)
        try:
            async with self._turns:
                answer = await self._link.calls.answer_for_task(
                    call, ask, this, id=self._id, started=self._started, says=(self.message or "")[:_SAID]
                )
            params = UpdateTaskParams(task_id=self._id, input_responses={key: Raw(encode_value(answer))})
            await self._request("tasks/update", params, EmptyResult)
            self._link.calls.report_answers(call, None)
        except BaseException:
            self._link.calls.report_answers(call, "call-gone")
            raise
        finally:
            self._news.set()

    async def _request(self, method: str, params: Any, kind: Any) -> Any:
        return await self._link.run(Calls.plain, method, params, kind, timeout=TimeLeft(self._timeout))

    async def _outcome(self) -> CallToolResult:
        if self._result is None:
            self._result = await self._examine(self._read_outcome())
        return self._result

    async def _read_outcome(self) -> CallToolResult:
        seen = self._seen
        if not isinstance(seen, GetTaskResult) or seen.status == "cancelled":
            raise TaskCancelled(f"The task was cancelled: {self.message or 'no reason was given'}")
        if seen.error is not None:
            raise from_wire(seen.error)
        try:
            return decode_wire(seen.result, CallToolResult)
        except DecodeError as error:
            raise RemoteProtocolError(f"The result of a task cannot be read: {problem_of(error)}") from None
