"""The handler of one task in the memory of one process: it asks, takes steps and reports, and all of it is stored.

What it learns goes into its journal, and an ask that was answered, or a step that was taken, is found there if the
handler is run again. Changes are collected and written together; a step goes on only when its result is stored.
``served_tasks`` has the table of tasks, ``task_states`` what a task goes through.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from types import CoroutineType
from typing import Any, Protocol

from msgspec import Raw, Struct

from antiphon.channel import Frame, Oversized
from antiphon.engine.connection import Connection
from antiphon.errors import CallDiverged, CallTimeout, ConnectionClosed, InternalError
from antiphon.machine.asyncio_tasks import settle_future
from antiphon.protocol.events import Request
from antiphon.protocol.server_offer import ServerOffer
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import CallAbandoned, CallAnswer, Handled, HandlerCall, read_answer, read_given
from antiphon.server.calls.journal import (
    CATCH_UP,
    Journal,
    JournalEntry,
    JournalPlace,
    outside_lanes,
    run_in_lane,
    use_lanes,
)
from antiphon.server.calls.parked_call import UNSENDABLE
from antiphon.server.calls.replayed_call import recall_answer, refusal_of
from antiphon.server.core import Core
from antiphon.server.tasks.stored_tasks import OutOfRoom
from antiphon.server.tasks.task_record import TaskAsk, TaskRecord
from antiphon.wire.common import Wire
from antiphon.wire.envelope import encode_value
from antiphon.wire.methods import MethodSpec

log = logging.getLogger("antiphon.server")

_LOOK_AGAIN = 0.01
"""Seconds between two checks whether a replayed handler has come to all that was answered; also the pause before an ask
of a call that has ended raises."""

STORE_AGAIN = 1.0
"""Seconds between two attempts to write, while the store fails."""

_REPORT_EVERY = 0.25
"""Seconds between two writes that only report progress."""


class Overtaken(Exception):
    """The task is held by another process, or is over."""


class _Pending(Struct, eq=False):
    """An ask that waits for its answer. ``stored``: whether clients may have seen it."""

    ask: TaskAsk
    spec: MethodSpec
    place: JournalPlace
    answer: asyncio.Future[CallAnswer]
    stored: bool


class TaskKeeper(Protocol):
    """Keeps tasks; see ``served_tasks.ServedTasks``."""

    core: Core

    async def save(self, call: TaskCall, asks: list[TaskAsk], entries: Mapping[str, JournalEntry]) -> TaskRecord:
        """Write what a handler has done; raises ``Overtaken`` if it no longer holds its task."""
        ...

    def check_held(self, call: TaskCall) -> CoroutineType[Any, Any, None]:
        """Raise ``Overtaken`` unless the handler's process holds the task."""
        ...

    async def ended(self, call: TaskCall, outcome: Raw | None, error: BaseException | None) -> None:
        """Write the end of a handler."""

    def now(self) -> float:
        """Return the time of the store."""
        ...


class TaskCall(HandlerCall):
    """A handler that runs for a task."""

    __slots__ = (
        "_failure", "_given", "_is_dirty", "_keeper", "_pending", "_saved", "_saving", "_unsaved", "_waiting_for",
        "active", "asked", "began", "handled", "holds", "is_left", "journal", "message", "record", "task", "why",
    )  # fmt: skip

    def __init__(
        self,
        keeper: TaskKeeper,
        connection: Connection[ServerSession],
        request: Request,
        handled: Handled,
        record: TaskRecord,
        journal: Journal,
    ) -> None:
        super().__init__(keeper.core, connection, request)
        self.request = None
        self.handled = handled
        self.record = record
        """The task as it was last read or written here."""
        self.journal = journal
        self.task: asyncio.Task[None] | None = None
        self.is_left = False
        """Whether the task goes on elsewhere or later although this handler ends."""
        self.holds = 0
        """Number of running steps."""
        self.began = self.active = asyncio.get_running_loop().time()
        """When the handler was started, and when it last asked, reported or was answered, by the event loop's clock."""
        self._keeper = keeper
        self._pending: dict[str, _Pending] = {}
        self._waiting_for = {ask.place: ask for ask in record.asks}
        """Asks that were open when the handler was run again, and that it has not come to yet."""
        self._given: dict[str, Raw] = dict(request.params.input_responses or {})
        """Answers that came with the call, by the author's keys."""
        self.asked = record.asked
        """How many asks were numbered."""
        self.message = record.message
        """What is being done, for people."""
        self._unsaved: dict[str, JournalEntry] = {}
        self._is_dirty = False
        self._saved: list[asyncio.Future[None]] = []
        """Those of steps whose results are not stored yet; done when they are."""
        self._saving: asyncio.Task[None] | None = None
        self._failure: CallDiverged | OutOfRoom | None = None
        """The error that the task fails with, even if the handler catches it."""
        self.why: str | None = None
        """Why the handler was cancelled, or that it has ended; ``None`` while it runs."""

    # --- its life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run the handler, in a task of its own."""
        use_lanes(asyncio.get_running_loop())
        self.task = run_in_lane(self._run())

    async def _run(self) -> None:
        outcome: Raw | None = None
        problem: BaseException | None = None
        try:
            outcome = self._encode_outcome(await self.handled.body(self))
        except (asyncio.CancelledError, Exception) as error:
            problem = error
        if self._failure is not None:
            log.error("%s: %s", self.handled.name, self._failure)
            failure = self._failure
            problem = InternalError(f"CallDiverged: {failure}") if isinstance(failure, CallDiverged) else failure
            outcome = None
        self.why = self.why or "the call has ended"
        for pending in self._pending.values():
            pending.answer.cancel()
        if self._saving is not None:
            self._saving.cancel()
        await self._keeper.ended(self, outcome, problem)

    def _encode_outcome(self, result: Wire) -> Raw:
        try:
            return Raw(encode_value(self.first.revision.lower(result)))
        except UNSENDABLE:
            log.exception("%s returned what cannot be sent", self.handled.name)
            raise InternalError("Internal error") from None

    def end(self, reason: str) -> None:
        """Cancel the handler, once; asks and steps in its cleanup raise ``CallAbandoned``."""
        if self.why is None:
            self.why = reason
            if self.task is not None:
                self.task.cancel(reason)

    def leave(self, reason: str) -> None:
        """Cancel the handler as ``end`` does, without an end of the task: it goes on elsewhere, or later."""
        self.is_left = True
        self.end(reason)

    async def flush(self) -> None:
        """Wait a short time until running steps have ended and their results are stored."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STORE_AGAIN):
                while self.holds or self._saving is not None:
                    if self._saving is not None:
                        await asyncio.wait([self._saving])
                    else:
                        await asyncio.sleep(_LOOK_AGAIN)

    @property
    def is_waiting(self) -> bool:
        """Whether it seems to wait for answers only: asks are open and stored, and no step is running."""
        if self.holds or self._is_dirty or self._saving is not None or not self._pending:
            return False
        return all(pending.stored for pending in self._pending.values())

    def _check_lost(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self.why is not None:
            raise CallAbandoned(self.why)

    # --- asking -------------------------------------------------------------------------------------------------

    async def _send_ask(
        self, spec: MethodSpec, params: Wire | Raw, key: str | None, timeout: float | None
    ) -> CallAnswer:
        """Open an ask and wait for its answer; in a replay, return the recorded one."""
        self.check_outside_steps(spec)
        if self.why is not None:
            await asyncio.sleep(_LOOK_AGAIN)
        self._check_lost()
        place = self.journal.place_of_ask(spec.name, params, key)
        known = self._known(place, spec, key)
        if known is not None:
            return await recall_answer(known, spec)
        pending = self._opened(place, spec, params, key, timeout)
        name, deadline = pending.ask.key, pending.ask.deadline
        self._pending[name] = pending
        self._changed()
        try:
            with self.out(spec):
                left = None if deadline is None else max(0.0, deadline - self._keeper.now())
                async with asyncio.timeout(left):
                    return await pending.answer
        except TimeoutError:
            self._note(place, "timeout")
            raise CallTimeout(f"{spec.name} was not answered in time") from None
        except asyncio.CancelledError:
            if self.why is None:
                self._note(place, "withdrawn")
            raise
        finally:
            self._pending.pop(name, None)

    def _known(self, place: JournalPlace, spec: MethodSpec, key: str | None) -> JournalEntry | None:
        try:
            known = self.journal.take(place)
        except CallDiverged as error:
            self._fail(error)
            raise
        given = self._given.pop(key, None) if known is None and key is not None else None
        if given is not None and (answer := read_given(given, spec)) is not None:
            self._note(place, "answer", bytes(answer.raw))
            known = self.journal.take(place)
        return known

    def _opened(
        self, place: JournalPlace, spec: MethodSpec, params: Wire | Raw, key: str | None, timeout: float | None
    ) -> _Pending:
        """Make an ask, or take up the one that was open before a replay, with its name and its deadline."""
        future: asyncio.Future[CallAnswer] = asyncio.get_running_loop().create_future()
        ask = self._waiting_for.pop(place.name, None)
        if ask is not None:
            return _Pending(ask, spec, place, future, stored=True)
        self.asked += 1
        # "Each request key in inputRequests MUST be unique over the lifetime of a single task."
        name = f"{spec.name.rpartition('/')[0]}-{self.asked}"
        if key is not None:
            name = key if place.count == 0 else f"{key}#{place.count + 1}"
        deadline = None if timeout is None else self._keeper.now() + timeout
        ask = TaskAsk(name, spec.name, place.name, place.digest, deadline, encode_value(params))
        return _Pending(ask, spec, place, future, stored=False)

    def settle(self, answers: Mapping[str, JournalEntry]) -> None:
        """Deliver answers that are stored, by the keys of their asks."""
        for key, entry in answers.items():
            pending = self._pending.get(key)
            if pending is None or pending.answer.done():
                continue
            self.journal.note(pending.place, entry.kind, entry.value)
            if entry.kind == "error":
                pending.answer.set_exception(refusal_of(entry))
            else:
                pending.answer.set_result(read_answer(key, Raw(entry.value), pending.spec))
            self.active = asyncio.get_running_loop().time()

    def missing(self, record: TaskRecord) -> dict[str, str]:
        """Return the places, by key, of asks that were answered elsewhere: ``record`` no longer has them."""
        open_keys = {ask.key for ask in record.asks}
        return {
            key: pending.place.name
            for key, pending in self._pending.items()
            if pending.stored and key not in open_keys and not pending.answer.done()
        }

    # --- steps and reports --------------------------------------------------------------------------------------

    async def step(self, name: str, work: Callable[[str], Awaitable[bytes]], *, secret: bool = False) -> bytes:
        """Run a step once, and continue when its result is stored; a replay returns the recorded result."""
        if self.why is not None:
            await asyncio.sleep(_LOOK_AGAIN)
        self._check_lost()
        place = self.journal.place_of_step(name)
        known = self.journal.take(place)
        if known is not None:
            return known.value
        self.holds += 1
        try:
            await outside_lanes(self._keeper.check_held(self))
            value = await self.taken(name, work, f"{self.record.id}/{place.name}")
            # The work may have caught the cancellation of the call, after which nothing is stored.
            self._check_lost()
            self._note(place, "step", value)
            saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._saved.append(saved)
            await saved
        except Overtaken:
            raise CallAbandoned("the task went on in another process") from None
        finally:
            self.holds -= 1
            self.active = asyncio.get_running_loop().time()
        return value

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress as the task's ``statusMessage``."""
        self._check_lost()
        self.message = message or (f"{progress:g}" if total is None else f"{progress:g} of {total:g}")
        self._changed()

    async def go_on_as_task(self, *, required: bool) -> bool:
        """See ``Context.go_on_as_task``: it has."""
        return True

    # --- storing ------------------------------------------------------------------------------------------------

    @property
    def keys(self) -> set[str]:
        """The keys of asks that may stay open in the store: those that wait, and those a replay has not come to."""
        return {*self._pending, *(ask.key for ask in self._waiting_for.values())}

    def _note(self, place: JournalPlace, kind: Any, value: bytes = b"") -> None:
        self.journal.note(place, kind, value)
        self._unsaved[place.name] = JournalEntry(kind, place.digest, value)
        self._changed()

    def _changed(self) -> None:
        """Write soon what has changed, in a task outside of the handler's context, so that it takes no lane."""
        self._is_dirty = True
        self.active = asyncio.get_running_loop().time()
        if self._saving is None and self.why is None:
            self._saving = asyncio.get_running_loop().create_task(self._save(), context=Context())

    async def _save(self) -> None:
        try:
            while self._is_dirty:
                # Asks of the same moment are written together.
                await asyncio.sleep(0)
                if not self._may_ask() and not self._unsaved:
                    await asyncio.sleep(_LOOK_AGAIN)
                    continue
                self._is_dirty = False
                await self._save_once()
                if self._is_dirty and not self._unsaved and all(each.stored for each in self._pending.values()):
                    await asyncio.sleep(_REPORT_EVERY)
        except Overtaken:
            self.leave("the task went on in another process, or its time is over")
            self._give_up()
        except asyncio.CancelledError:
            self._give_up()
            raise
        finally:
            self._saving = None

    def _give_up(self) -> None:
        saved, self._saved = self._saved, []
        for each in saved:
            settle_future(each, CallAbandoned(self.why or "the call has ended"))

    def _may_ask(self) -> bool:
        """Return whether new asks may be shown: not before a replayed handler has come to all that was answered."""
        if all(pending.stored for pending in self._pending.values()) or not any(self.journal.list_unclaimed()):
            return True
        if asyncio.get_running_loop().time() - self.began >= CATCH_UP:
            self._fail(self.journal.divergence(pending.ask.place for pending in self._pending.values()))
        return False

    def _fail(self, error: CallDiverged | OutOfRoom) -> None:
        self._failure = error
        for pending in self._pending.values():
            settle_future(pending.answer, error)

    async def _save_once(self) -> None:
        entries, self._unsaved = self._unsaved, {}
        saved, self._saved = self._saved, []
        new = [pending for pending in self._pending.values() if not pending.stored] if self._may_ask() else []
        try:
            self.record = await self._keeper.save(self, [pending.ask for pending in new], entries)
        except (Overtaken, asyncio.CancelledError):
            self._saved = saved + self._saved
            raise
        except OutOfRoom as error:
            self._fail(error)
            for each in saved:
                settle_future(each, error)
            return
        except Exception as error:
            # Keep what was learnt and try again; if the store fails for too long, another process takes over.
            log.warning("the task %s could not be stored: %s", self.handled.name, type(error).__name__)
            self._unsaved = entries | self._unsaved
            self._saved, self._is_dirty = saved + self._saved, True
            await asyncio.sleep(STORE_AGAIN)
            return
        for pending in new:
            pending.stored = True
        for each in saved:
            settle_future(each)


class _Nowhere:
    """A channel on which nothing is sent, and nothing comes."""

    async def receive(self) -> Sequence[bytes | Oversized]:
        return ()

    def send(self, frame: Frame) -> None:
        """See ``Channel.send``."""

    async def close(self) -> None:
        """See ``Channel.close``."""

    def closed_error(self) -> ConnectionClosed:
        return ConnectionClosed("The client of a task is not connected to it")


def absent_peer(offer: ServerOffer, record: TaskRecord) -> Connection[ServerSession]:
    """Make the connection of a task's handler, which sends nothing but has the client's scopes for later checks."""
    peer = Connection(_Nowhere(), ServerSession(offer), {})
    peer.principal, peer.is_local = record.owner, record.is_local
    return peer
