"""The tasks of a server: made by calls, looked at, answered and cancelled by clients, and run by this process.

Owns the table of handlers in memory, and who may do what with a task. ``task_call`` runs one handler, ``stored_tasks``
writes, ``task_worker`` finds tasks that need a process.

Source: the extension ``io.modelcontextprotocol/tasks`` (SEP-2663). The design: docs/topics/tasks.md.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from contextvars import Context
from typing import Any

import msgspec
from msgspec import Raw

from antiphon.engine.connection import Connection
from antiphon.errors import InternalError, InvalidParams, PeerError
from antiphon.machine.asyncio_tasks import start_in
from antiphon.protocol.caller import Caller
from antiphon.protocol.events import Request
from antiphon.protocol.server_offer import ServerOffer
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import Handled
from antiphon.server.calls.journal import Journal, JournalEntry, Kind
from antiphon.server.core import Core
from antiphon.server.state.request_state import Seal
from antiphon.server.tasks.stored_tasks import Change, OutOfRoom, StoredTasks, cannot_store, unknown_task
from antiphon.server.tasks.task_call import STORE_AGAIN, Overtaken, TaskCall, absent_peer
from antiphon.server.tasks.task_record import TaskAsk, TaskRecord, call_params, read_stored_request
from antiphon.server.tasks.task_states import HELD, TaskEvent, TaskState
from antiphon.server.tasks.task_store import MemoryTaskStore, TaskOptions, TaskRoom
from antiphon.wire.common import ClientCapabilities
from antiphon.wire.envelope import cause_of, encode_value, to_wire
from antiphon.wire.task import TASK, CreateTaskResult, GetTaskResult, TaskWish
from antiphon.wire.tools import CallToolRequestParams

log = logging.getLogger("antiphon.server")

Peer = Connection[ServerSession]

_SHORTEST = 1.0
"""Shortest time to live of a task in seconds, whatever its client wants."""

_LAST_WORDS = 2.0
"""Seconds that handlers have to clean up when the server closes."""


def wish_of(request: Request) -> TaskWish | None:
    """Return the member by which a client of 2025-11-25 asks for a task, ``None`` if it does not."""
    params = request.params
    if not request.revision.asks_for_tasks or not isinstance(params, CallToolRequestParams) or params.task is None:
        return None
    try:
        return msgspec.convert(params.task, TaskWish)
    except msgspec.ValidationError as error:
        raise InvalidParams(f"Invalid params: {error}") from None


class ServedTasks:
    """The tasks of one server.

    ``find`` returns the handler of a stored request; ``tell`` is called with each change of a task; ``listened``
    returns the tasks that clients of this process listen to.
    """

    def __init__(
        self,
        core: Core,
        seal: Seal,
        offer: Callable[[], ServerOffer],
        *,
        options: TaskOptions,
        find: Callable[[Request, Peer], Handled],
        tell: Callable[[GetTaskResult], None],
        listened: Callable[[], set[str]],
    ) -> None:
        self.core = core
        self.options = options
        self.me = os.urandom(8).hex()
        """This process, as the holder of tasks."""
        self.calls: dict[str, TaskCall] = {}
        """Handlers in memory, by task."""
        self.busy: Counter[str] = Counter()
        """Tasks whose handler is about to start, or whose end is being written."""
        self.store = options.store if options.store is not None else MemoryTaskStore()
        self.stored = StoredTasks(self.store, seal, core.name, options.patience, self.me)
        self.wake: Callable[[], None] | None = None
        """Called when a task may need a process."""
        self.closed = False
        given = options.unload_after
        default = 60.0 if self.store.shared else None
        self.unload_after = default if isinstance(given, msgspec.UnsetType) else given
        self._offer = offer
        self._find = find
        self._tell = tell
        self._listened = listened
        self.awaited: dict[str, set[asyncio.Event]] = {}
        """By task, the events of the requests that wait for its end in this process."""
        self._offset = 0.0
        self._side: set[asyncio.Task[None]] = set()

    # --- time ---------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the time of the store, by its offset at the last ``clock``."""
        return time.time() + self._offset

    async def clock(self) -> float:
        """Return the time of the store."""
        now = await self.store.clock()
        self._offset = now - time.time()
        return now

    def lease(self) -> float | None:
        """Return when the lease of a task taken now ends; ``None`` if no other process could take it."""
        return self.now() + self.options.lease if self.store.shared else None

    # --- made by calls ------------------------------------------------------------------------------------------

    async def begin(
        self, peer: Peer, request: Request, handled: Handled, journal: Journal | None = None, asked: int = 0
    ) -> CreateTaskResult:
        """Make a call a task, with what it has learnt in rounds, and run it; return the handle once it is stored."""
        # Imported here, since most servers have no tasks.
        from secrets import token_urlsafe

        try:
            now = await self.clock()
        except Exception as error:
            raise cannot_store(error) from None
        params, caller = call_params(request), request.caller
        record = TaskRecord(
            id=token_urlsafe(24),
            owner=peer.principal,
            revision=request.revision.name,
            capabilities=request.capabilities or ClientCapabilities(),
            scopes=tuple(sorted(caller.scopes)) if caller is not None else (),
            implied=self._list_implied_scopes(caller) if caller is not None else (),
            has_token=caller is not None,
            is_local=peer.is_local,
            code=self.core.code_of(handled.code),
            created=now,
            updated=now,
            ttl=self._ttl(request),
            asked=asked,
            holder=self.me,
            generation=1,
            lease=self.lease(),
        )
        entries = dict(journal.entries) if journal is not None else {}
        with self._at_work(record.id):
            record = await self.stored.add(record, params, entries, self.options.room(record.owner))
            self._run(record, read_stored_request(record, params), Journal(entries), handled)
        told = self.seen(record)
        shared = ("task_id", "status", "created_at", "last_updated_at", "ttl_ms", "poll_interval_ms")
        return CreateTaskResult(**{name: getattr(told, name) for name in shared}, result_type=TASK)

    def _ttl(self, request: Request) -> float:
        """Return the time to live of a task: ours, or less if its client wants less (2025-11-25)."""
        wish = wish_of(request)
        if wish is None or wish.ttl is None or wish.ttl >= self.options.ttl * 1000:
            return self.options.ttl
        return min(self.options.ttl, max(_SHORTEST, max(0, wish.ttl) / 1000))

    def _list_implied_scopes(self, caller: Caller) -> tuple[str, ...]:
        """Return the scopes that features here require and that broader scopes of the caller's token include."""
        here = self.core.features
        required = {
            scope
            for features in (here.tools, here.prompts, here.resources, here.templates)
            for feature in features
            for scope in feature.scopes
        }
        return tuple(sorted(scope for scope in required - caller.scopes if caller.has((scope,))))

    def _run(self, record: TaskRecord, request: Request, journal: Journal, handled: Handled) -> None:
        call = TaskCall(self, absent_peer(self._offer(), record), request, handled, record, journal)
        self.calls[record.id] = call
        call.start()
        if self.wake is not None and len(self.calls) == 1:
            # The worker had nothing to do before, and may be asleep.
            self.wake()

    async def run_again(self, record: TaskRecord) -> None:
        """Take a task that no living process holds, and run it again, unless another was faster or it has ended."""
        with self._at_work(record.id):
            await self._run_again(record)

    async def _run_again(self, record: TaskRecord) -> None:
        left = self.calls.get(record.id)
        if left is not None:
            # The lease of this process has ended, because the store did not answer for too long.
            left.leave("its lease has ended")
        taken = await self._take(record)
        if taken is None or taken.state is not TaskState.RUNNING or self.closed:
            return
        taken = await self._without_overdue(taken)
        if taken is None:
            return
        params, journal = await self._open_journal(taken)
        if not params:
            # Its end was written meanwhile, or now.
            return
        try:
            request = read_stored_request(taken, params)
            handled = self._find(request, absent_peer(self._offer(), taken))
        except PeerError as error:
            await self._fail(taken, error)
            return
        except Exception:
            # What cannot be read now cannot be read by the next process either.
            log.exception("the call of a task cannot be run again")
            await self._fail(taken, InternalError("Internal error"))
            return
        if self.core.code_of(handled.code) != taken.code:
            why = f"CallDiverged: the code of {handled.name!r} has changed since this task began"
            await self._fail(taken, InternalError(why))
            return
        self._run(taken, request, journal, handled)

    async def _open_journal(self, record: TaskRecord) -> tuple[bytes, Journal]:
        """Return the call of a task and what it has learnt; empty if it cannot be opened, and the task fails."""
        try:
            return await self.stored.call(record.id)
        except (PeerError, msgspec.DecodeError):
            log.exception("a task failed: its journal in the store is damaged, or sealed with other keys")
            await self._fail(record, InternalError("Internal error"))
            return b"", Journal({})

    async def _take(self, seen: TaskRecord) -> TaskRecord | None:
        """Take a task; ``None`` if another process was faster, or another attempt of this process."""
        is_ours = False

        def change(now: TaskRecord) -> TaskRecord | None:
            nonlocal is_ours
            after = self._takeable(now, seen)
            is_ours = after is not None
            return after

        taken = await self.change(seen.id, change)
        return taken if is_ours else None

    async def _without_overdue(self, record: TaskRecord) -> TaskRecord | None:
        """Record overdue asks as timed out, so that they end when the handler comes to them."""
        late = {ask.key: ask for ask in record.asks if ask.deadline is not None and ask.deadline <= self.now()}
        if not late:
            return record
        entries = {ask.place: JournalEntry("timeout", ask.digest) for ask in late.values()}
        return await self.change(
            record.id,
            lambda now: now.asking({ask.key for ask in now.asks} - late.keys(), (), now.asked, now.message, self.now()),
            entries,
        )

    def _takeable(self, now: TaskRecord, seen: TaskRecord) -> TaskRecord | None:
        """Return a task as taken by this process; ``None`` if another one has changed it, or holds it."""
        if now.version != seen.version or now.due is None or now.due > self.now():
            return None
        return now.taken(self.me, self.lease(), self.now())

    async def _fail(self, record: TaskRecord, error: PeerError) -> None:
        await self._end(record, TaskEvent.FAIL, encode_value(to_wire(error)), error.message)

    # --- what handlers do (``TaskKeeper``) ----------------------------------------------------------------------

    async def save(self, call: TaskCall, asks: list[TaskAsk], entries: Mapping[str, JournalEntry]) -> TaskRecord:
        """Write what a handler has done, unless another process holds its task now or it is too large."""
        keys, now = call.keys, self.now()

        def change(record: TaskRecord) -> TaskRecord:
            if record.generation != call.record.generation or record.state not in HELD:
                raise Overtaken
            return record.asking(keys, asks, call.asked, call.message, now)

        room = self.options.room(call.record.owner) if asks or entries else None
        record = await self.change(call.record.id, change, entries, room)
        if record is None:
            raise Overtaken
        await self._catch_up(call, record)
        return record

    async def check_held(self, call: TaskCall) -> None:
        """Raise ``Overtaken`` unless this process holds the task of a handler."""
        if not self.store.shared:
            return
        record = await self.stored.get(call.record.id)
        if record is None or record.generation != call.record.generation or record.state not in HELD:
            raise Overtaken

    async def ended(self, call: TaskCall, outcome: Raw | None, error: BaseException | None) -> None:
        """Write the end of a handler, unless it was unloaded or the task has gone on elsewhere."""
        task_id = call.record.id
        with self._at_work(task_id):
            if self.calls.get(task_id) is call:
                del self.calls[task_id]
            if not call.is_left:
                await self._say_end(call, outcome, error)

    async def _say_end(self, call: TaskCall, outcome: Raw | None, error: BaseException | None) -> None:
        event, data, message = TaskEvent.RETURN, bytes(outcome or b""), call.message
        if outcome is None:
            if isinstance(error, asyncio.CancelledError):
                error = InternalError("The request was abandoned")
                event = TaskEvent.UNWIND
            else:
                event = TaskEvent.FAIL
            failure = cause_of(error) if isinstance(error, Exception) else InternalError("Internal error")
            if not isinstance(failure, PeerError) or failure.remote:
                log.error("the task %s failed", call.handled.name, exc_info=failure)
            data = encode_value(to_wire(failure))
            message = failure.message if isinstance(failure, PeerError) else message
        await self._end(call.record, event, data, message)

    async def _end(self, record: TaskRecord, event: TaskEvent, outcome: bytes, message: str | None) -> None:
        def change(now: TaskRecord) -> TaskRecord | None:
            if now.generation != record.generation or now.state not in HELD:
                return None
            happened, left = event, outcome
            if event is TaskEvent.UNWIND and now.state is TaskState.RUNNING:
                happened = TaskEvent.FAIL
            elif event is TaskEvent.UNWIND:
                left = b""
            said = now.message if happened is TaskEvent.UNWIND else message
            return now.ended(happened, left, said, self.options.keep, self.now())

        room: TaskRoom | None = self.options.room(record.owner)
        while True:
            try:
                await self.change(record.id, change, room=room)
            except OutOfRoom as error:
                # An end as small as this error is stored without a limit.
                event, room = TaskEvent.FAIL, None
                outcome, message = encode_value(to_wire(error)), error.message
            except Exception as error:
                # If this process cannot write the end, another one runs the task again.
                log.warning("the end of a task could not be stored: %s", type(error).__name__)
                if self.closed:
                    return
                await asyncio.sleep(STORE_AGAIN)
            else:
                return

    # --- what clients do (``TaskRequests``) ---------------------------------------------------------------------

    async def answered(self, record: TaskRecord, answers: Mapping[str, tuple[Kind, bytes]]) -> None:
        """Store answers to open asks of a task. ``answers``: kind and JSON of each, by the key of its ask."""
        now = await self.clock()
        asks = [ask for ask in record.asks if ask.key in answers]
        entries = {ask.place: JournalEntry(answers[ask.key][0], ask.digest, answers[ask.key][1]) for ask in asks}
        room = self.options.room(record.owner)
        after = await self.change(record.id, lambda seen: _add_answers(seen, answers, now), entries, room)
        if after is None:
            raise unknown_task()
        call = self.calls.get(record.id)
        if call is not None and after.generation == call.record.generation:
            await self._catch_up(call, after)
        elif after.state is TaskState.READY:
            # The process that has the answer goes on with the task at once.
            self.aside(self.run_again(after))

    def stop(self, record: TaskRecord) -> None:
        """Cancel the handler of a task that was cancelled, if it is here."""
        call = self.calls.get(record.id)
        if call is not None and record.state is TaskState.STOPPING:
            call.end("the client cancelled the task")

    def listened(self) -> set[str]:
        """Return the tasks that clients of this process listen to or wait for."""
        return self._listened() | self.awaited.keys()

    @contextmanager
    def news(self, id: str) -> Generator[asyncio.Event]:
        """Yield an event that is set whenever this process learns of a change of the task."""
        event = asyncio.Event()
        events = self.awaited.setdefault(id, set())
        events.add(event)
        try:
            yield event
        finally:
            events.discard(event)
            if not events and self.awaited.get(id) is events:
                del self.awaited[id]

    def seen(self, record: TaskRecord) -> GetTaskResult:
        """Return a task in the form for its client."""
        return record.seen(self.options.patience, self.options.poll_every)

    # --- changes ------------------------------------------------------------------------------------------------

    async def change(
        self, id: str, change: Change, entries: Mapping[str, JournalEntry] | None = None, room: TaskRoom | None = None
    ) -> TaskRecord | None:
        """Change a task and tell those who listen; see ``StoredTasks.change``."""
        record = await self.stored.change(id, change, entries, room)
        if record is not None:
            self._say(record)
        return record

    def _say(self, record: TaskRecord) -> None:
        for event in self.awaited.get(record.id, ()):
            event.set()
        self._tell(self.seen(record))

    async def _catch_up(self, call: TaskCall, record: TaskRecord) -> None:
        """Deliver to a handler here what others have written to its task."""
        missing = call.missing(record)
        if missing:
            _, journal = await self._open_journal(record)
            found = {key: journal.entries.get(place) for key, place in missing.items()}
            call.settle({key: entry for key, entry in found.items() if entry is not None})
        self.stop(record)

    async def look(self, id: str) -> None:
        """Read a task that another process has changed, for its handler and its listeners here."""
        record = await self.stored.get(id)
        call = self.calls.get(id)
        if record is not None:
            self._say(record)
        if call is None:
            return
        if record is None or record.generation != call.record.generation or record.state not in HELD:
            call.leave("the task went on in another process, or its time is over")
        else:
            await self._catch_up(call, record)

    async def unload(self, call: TaskCall) -> float | None:
        """Let go of a task that waits for answers, and unload its handler; return when it is due, if ever."""
        now = self.now()

        def change(record: TaskRecord) -> TaskRecord | None:
            is_mine = record.generation == call.record.generation and record.state is TaskState.RUNNING
            return record.moved(TaskEvent.PARK, now) if is_mine and record.asks and call.is_waiting else None

        record = await self.change(call.record.id, change)
        if record is not None and record.state is TaskState.PARKED:
            call.leave("it waited for longer than its grace")
        return None if record is None else record.due

    @contextmanager
    def _at_work(self, id: str) -> Generator[None]:
        self.busy[id] += 1
        try:
            yield
        finally:
            self.busy[id] -= 1
            if not self.busy[id]:
                del self.busy[id]

    async def let_go(self, id: str) -> None:
        """Release a task that this process holds but does not run, because the store failed in between."""

        def change(record: TaskRecord) -> TaskRecord | None:
            is_ours = record.holder == self.me and record.state in HELD
            is_needed = id not in self.calls and id not in self.busy
            return record.moved(TaskEvent.RELEASE, self.now()) if is_ours and is_needed else None

        await self.change(id, change)

    # --- the end of the server ----------------------------------------------------------------------------------

    def aside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something in a task of its own, which ends with no request."""
        return Context().run(start_in, self._side, work)

    async def close(self) -> None:
        """Let go of all tasks: those of a store that is shared go on in another process, all others end."""
        self.closed = True
        if self._side:
            # An answer may be on its way to the store.
            await asyncio.wait(list(self._side), timeout=_LAST_WORDS)
        calls = list(self.calls.values())
        # A step that was taken and is not recorded would be taken again.
        await asyncio.gather(*(call.flush() for call in calls))
        for call in calls:
            if self.store.shared:
                await self._release(call)
                call.leave("the server is closing")
            else:
                call.end("the server is closing")
        running = [call.task for call in calls if call.task is not None]
        if running:
            await asyncio.wait(running, timeout=_LAST_WORDS)
        for side in list(self._side):
            side.cancel()

    async def _release(self, call: TaskCall) -> None:
        def change(record: TaskRecord) -> TaskRecord | None:
            is_mine = record.generation == call.record.generation and record.state in HELD
            return record.moved(TaskEvent.RELEASE, self.now()) if is_mine else None

        try:
            await self.change(call.record.id, change)
        except Exception as error:
            log.warning("a task could not be released, and is taken over later: %s", type(error).__name__)


def _add_answers(record: TaskRecord, answers: Mapping[str, object], now: float) -> TaskRecord | None:
    open_keys = {ask.key for ask in record.asks}
    answered = open_keys & answers.keys()
    return record.answered(answered, now) if answered and not record.is_over else None
