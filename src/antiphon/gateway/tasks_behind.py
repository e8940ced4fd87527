"""Tasks of the servers behind a gateway: a call that becomes a task there is a task for the client, too.

The gateway's id of a task is the server's name and the server's own id, sealed and bound to the principal. So nobody
can guess an id, use that of another client, or change the server in it. If asks are relayed, the client sees the asks
of its tasks and answers them. If the host answers, the gateway follows each task until it ends and answers its asks;
the client only sees that the task is working.

Source: the extension ``io.modelcontextprotocol/tasks`` (SEP-2663).
"""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping, Sequence
from contextlib import aclosing
from contextvars import Context
from datetime import UTC, datetime
from typing import Any

from msgspec import DecodeError, Raw, Struct, structs

from antiphon import errors
from antiphon.client.task import ENDS
from antiphon.gateway.terms import GatewayTerms
from antiphon.gateway.upstream import Upstream, UpstreamUnavailable
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.protocol.server_offer import declares_extension
from antiphon.server.server_middleware import ServerRequest
from antiphon.server.state.request_state import Seal
from antiphon.wire.envelope import ErrorObject, decode_wire, encode_value
from antiphon.wire.lossless import Received
from antiphon.wire.task import TASK, TASKS, CreateTaskResult, GetTaskResult, Task
from antiphon.wire.tools import CallToolResult

log = logging.getLogger("antiphon.gateway")

MAX_ID = 1_024
"""Most characters of a server's id of a task; those of this library have 32."""

MAX_FOLLOWED = 100
"""Most tasks that are followed at once for the clients of one group, if the host answers; further calls do not become
tasks."""

MAX_WATCHED = 1_000
"""Most tasks whose changes are reported to the clients of one group; as many as one client may listen to."""

LOOKS_AT_ONCE = 8
"""Most tasks that are requested at the same time when a client begins to listen."""

_AGAIN = 5.0
"""Seconds until the gateway asks again for a task that is listened to, after its server has ended."""

LONGEST = 86_400.0
"""Seconds for which a task is followed if the host answers: a day, as long as a reviewer may take."""


class OwnedTask(Struct, frozen=True, array_like=True):
    """A task, as the server behind the gateway knows it."""

    server: str
    id: str


class TasksBehind:
    """The tasks of the clients of one group.

    ``answered_here``: whether the host answers the asks of the tasks. ``told`` is called with the new state of a task
    that clients listen to.
    """

    def __init__(
        self, terms: GatewayTerms, *, answered_here: bool, told: Callable[[Received], object] = lambda _task: None
    ) -> None:
        self._seal: Seal = terms.seal
        self._bound_to = b"task" + encode_value(terms.principal)
        self.are_answered_here = answered_here
        self._calls = 0
        """Calls that are being made and may become tasks."""
        self._followed: set[asyncio.Task[None]] = set()
        self._told = told
        self._waiting: dict[str, asyncio.Task[CallToolResult]] = {}
        """The calls that wait for a person as tasks of the gateway's own, by the ids of their questions."""
        self._watched: dict[str, asyncio.Task[None]] = {}
        """The asyncio task that follows each task that clients listen to, by the gateway's id of it."""

    def may_begin(self, request: ServerRequest) -> bool:
        """Return whether a client's call may become a task: the client supports tasks, and there is room."""
        waiting = sum(not work.done() for work in self._waiting.values())
        has_room = not self.are_answered_here or self._calls + len(self._followed) + waiting < MAX_FOLLOWED
        return has_room and request.is_modern and declares_extension(request.ctx.request.capabilities, TASKS)

    @property
    def has_waiting(self) -> bool:
        """Whether a call waits for a person, or runs since one has decided, as a task of the gateway's own."""
        return any(not work.done() for work in self._waiting.values())

    async def make_call(self, sending: Awaitable[Received]) -> Received:
        """Make a call that may become a task. It counts as one meanwhile, since several may be made at once."""
        self._calls += 1
        try:
            return await sending
        finally:
            self._calls -= 1

    def follow_task(self, upstream: Upstream, tool: str, made: Received) -> Received:
        """Return the handle of a task for the client; follow the task, if the host answers its asks.

        ``tool`` is the server's name of the tool, ``made`` its handle of the task. Raises ``RemoteProtocolError`` if
        the server's id is too long.
        """
        task: Task = made.read
        if len(task.task_id) > MAX_ID:
            raise errors.RemoteProtocolError(f"the id of a task has more than {MAX_ID} characters")
        if self.are_answered_here:
            # In a context of its own, because the asks of a task belong to no request of a client.
            work = asyncio.get_running_loop().create_task(self._follow(upstream, task.task_id, tool), context=Context())
            self._followed.add(work)
            work.add_done_callback(self._followed.discard)
        return self.convert_state(made, self._seal_id(OwnedTask(upstream.name, task.task_id)))

    def begin_waiting(self, id: str, run: Callable[[], Coroutine[Any, Any, CallToolResult]]) -> CreateTaskResult:
        """Make a task of a call that waits for a person, and follow it until it has run."""
        for ended in [each for each, task in self._waiting.items() if task.done()][: -(MAX_FOLLOWED // 2)]:
            del self._waiting[ended]
        if id not in self._waiting or self._waiting[id].done():
            self._waiting[id] = asyncio.get_running_loop().create_task(run(), context=Context())
        return CreateTaskResult(task_id=self._seal_id(OwnedTask("", id)), result_type=TASK, **self._describe_waiting())

    def look_waiting(self, id: str, given: str) -> GetTaskResult:
        """Return the state of such a task. Raises ``InvalidParams``: it is forgotten."""
        if (work := self._waiting.get(id)) is None:
            raise errors.InvalidParams("Unknown task: there is none with this id, or its time is over")
        said: dict[str, Any] = self._describe_waiting()
        if work.cancelled():
            said["status"] = "cancelled"
        elif work.done() and (error := work.exception()) is not None:
            failure = error if isinstance(error, errors.PeerError) else errors.InternalError("The call failed")
            said |= {"status": "failed", "error": ErrorObject(code=failure.code, message=failure.message)}
        elif work.done():
            said |= {"status": "completed", "status_message": None, "result": Raw(encode_value(work.result()))}
        return GetTaskResult(task_id=given, **said)

    def cancel_waiting(self, id: str) -> None:
        """Cancel such a task; a call that has begun may have run."""
        if (work := self._waiting.get(id)) is not None:
            work.cancel()

    def _describe_waiting(self) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat()
        words = "Waits for approval by a person"
        return {
            "status": "working", "status_message": words, "created_at": now, "last_updated_at": now, "ttl_ms": None,
            "poll_interval_ms": 1_000,
        }  # fmt: skip

    def _seal_id(self, owned: OwnedTask) -> str:
        return urlsafe_b64encode(self._seal.seal_bytes(encode_value(owned), self._bound_to)).decode()

    def owned(self, id: str) -> OwnedTask:
        """Return the task of an id of this gateway; raise ``InvalidParams`` for any other id, or another client's."""
        try:
            sealed = urlsafe_b64decode(id.encode("ascii"))
            if urlsafe_b64encode(sealed).decode() == id:
                return decode_wire(self._seal.open_bytes(sealed, self._bound_to), OwnedTask)
        except (errors.InvalidParams, ValueError, DecodeError):
            pass
        raise errors.InvalidParams("Unknown task: there is none with this id, or its time is over")

    def convert_state(self, received: Received, id: str) -> Received:
        """Return the state of a task as the client sees it, under the gateway's id."""
        task: Task = received.read
        changed: dict[str, Any] = {"task_id": id}
        if self.are_answered_here and task.status == "input_required":
            # The host is asked, not the client: for the client the task is working.
            changed["status"] = "working"
            if isinstance(task, GetTaskResult):
                changed["input_requests"] = None
        return received.changed(structs.replace(task, **changed))

    async def look_up_tasks(self, upstreams: Mapping[str, Upstream], ids: Sequence[str]) -> dict[str, Received]:
        """Return the state of the tasks that the client may listen to, at most ``MAX_WATCHED``, by their ids."""
        looking = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def look_up(id: str) -> Received | None:
            try:
                owned = self.owned(id)
                async with looking, upstreams[owned.server].running() as client:
                    return self.convert_state(await client.task(owned.id).look(), id)
            except (errors.AntiphonError, KeyError) as error:
                log.debug("a task cannot be listened to: %s", error)
                return None

        given = list(dict.fromkeys(ids))[:MAX_WATCHED]
        found = zip(given, await asyncio.gather(*map(look_up, given)), strict=True)
        return {id: task for id, task in found if task is not None}

    def watch(self, upstreams: Mapping[str, Upstream], tasks: Mapping[str, Received]) -> None:
        """Report the changes of ``tasks``, which ``look_up_tasks`` returned, until they end or ``keep`` drops them."""
        for id, task in tasks.items():
            owned = self.owned(id)
            if task.read.status not in ENDS and id not in self._watched and len(self._watched) < MAX_WATCHED:
                watching = self._watch(upstreams[owned.server], owned.id, id, task)
                # In a context of its own, as in ``follow_task``.
                work = asyncio.get_running_loop().create_task(watching, context=Context())
                self._watched[id] = work
                work.add_done_callback(lambda _work, ended=id: self._watched.pop(ended))

    def keep(self, listened: Container[str]) -> None:
        """Stop reporting the changes of all other tasks than those with the ids ``listened``."""
        for id, work in list(self._watched.items()):
            if id not in listened:
                work.cancel()

    async def close(self) -> None:
        """Stop following all tasks. The tasks continue at their servers, as far as they can without answers."""
        await end_tasks(*self._followed, *self._watched.values(), *self._waiting.values())

    async def _watch(self, upstream: Upstream, task: str, id: str, before: Received) -> None:
        told = bytes(before.raw)
        while True:
            try:
                async with upstream.running() as client, aclosing(client.task(task).looks()) as looks:
                    async for look in looks:
                        shown = self.convert_state(look, id)
                        if bytes(shown.raw) != told:
                            told = bytes(shown.raw)
                            self._told(shown)
                return
            except (UpstreamUnavailable, errors.ConnectionClosed) as error:
                # A server that stores its tasks may have been started again, and continue the task.
                log.info("%s: a task is listened to again: %s", upstream.name, error)
            except errors.AntiphonError as error:
                log.warning("%s: a task is no longer listened to: %s", upstream.name, error)
                return
            await asyncio.sleep(_AGAIN)

    async def _follow(self, upstream: Upstream, id: str, tool: str) -> None:
        try:
            async with asyncio.timeout(LONGEST), upstream.running() as client:
                async for _ in client.task(id, tool=tool):
                    pass
        except (errors.AntiphonError, TimeoutError) as error:
            log.warning("%s: a task is no longer followed: %s", upstream.name, error)
