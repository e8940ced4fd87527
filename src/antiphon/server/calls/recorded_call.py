"""A legacy call that another process can go on with: what its handler learns is recorded, and found when it runs again.

A call of a legacy session lives in one process. If that dies, another one begins it again from its request, if its
tool is marked as idempotent or read-only, or if it has taken a step (``Context.step``), by which its author says what
must not be repeated. From the start, or from its first step on, answers and results of steps are recorded; a handler
that runs again gets them without asking. Other calls record nothing.

``protocol.call_record`` has what a transport knows of it, ``replayed_call`` the records.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from antiphon.engine.connection import Connection
from antiphon.errors import CallTimeout, PeerError, TemporarilyUnavailable
from antiphon.protocol.call_record import CallRecord, make_stopped_error
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls import journal
from antiphon.server.calls.call import CallAnswer, Handled, HandlerCall, read_reply
from antiphon.server.calls.replayed_call import StoredCalls, recall_answer
from antiphon.server.core import Core
from antiphon.server.state.request_state import State
from antiphon.wire.common import Wire
from antiphon.wire.envelope import ErrorObject, encode_value, notification_frame
from antiphon.wire.lifecycle import CancelledNotificationParams
from antiphon.wire.methods import MethodSpec

log = logging.getLogger("antiphon.server")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(journal.JournalEntry).decode

Bind = Callable[[], bytes]
"""Computes the digest that the records of a call are bound to."""


class RecordedCall(HandlerCall):
    """A handler that runs for a request of a legacy session of one of several processes.

    ``stored``: where other processes find what the handler has learnt.
    """

    __slots__ = (
        "_before", "_beginning", "_bind", "_bound_to", "_has_journal", "_is_kept", "_places", "_record", "_run",
        "_size", "_stored", "handled", "id", "key",
    )  # fmt: skip

    def __init__(
        self,
        core: Core,
        connection: Connection[ServerSession],
        request: Request,
        handled: Handled,
        *,
        record: CallRecord,
        stored: StoredCalls,
        bind: Bind,
    ) -> None:
        super().__init__(core, connection, request)
        self.handled = handled
        self.id = self.key = record.id
        self._run = b""
        self._record = record
        self._stored = stored
        self._bind = bind
        self._bound_to = b""
        self._places: journal.Journal | None = None
        """Only computes places; their entries are in the store."""
        self._is_kept = record.again or (handled.repeats and not handled.once)
        """Whether what it learns is recorded at once."""
        self._has_journal = False
        """Whether the store says that it has taken a step."""
        self._before: list[tuple[journal.JournalPlace, journal.JournalEntry]] | None = []
        """What it has learnt before its first step; ``None`` if it cannot be recorded any more."""
        self._beginning = asyncio.Lock()
        """Held while its journal begins, so that steps which are taken at the same time are recorded, too."""
        self._size = 0

    generation = 0

    @property
    def run(self) -> bytes:
        """Id of this run of the handler."""
        self._run = self._run or os.urandom(8)
        return self._run

    @property
    def _journal(self) -> journal.Journal:
        # Made when it is needed, since most handlers learn nothing.
        if self._places is None:
            self._places = journal.Journal()
        return self._places

    @property
    def bound_to(self) -> bytes:
        """What its records are bound to: the caller, the call, its arguments and the handler's code."""
        self._bound_to = self._bound_to or self._bind()
        return self._bound_to

    def begun(self) -> CoroutineType[Any, Any, Any]:
        """Return a coroutine that runs the handler of a new call; the current task must await it."""
        journal.begin_lane()
        return self.handled.body(self)

    async def serve(self) -> Any:
        """Run the handler. Raises ``InternalError`` if it began in a process that has died, and may not be repeated."""
        journal.begin_lane()
        if self._record.again:
            with journal.beside_lanes():
                await self._take_over()
        return await self.handled.body(self)

    async def _take_over(self) -> None:
        """Take the call over from the process that had it, whose steps do not count any more."""
        has_journal = await self._stored.has_journal(self)
        if self.handled.once or not (self.handled.repeats if has_journal is None else has_journal):
            raise make_stopped_error()
        self._has_journal = bool(has_journal)
        await self._stored.take(State(self.id, self.generation, 0.0), self.run)

    # --- asks ---------------------------------------------------------------------------------------------------

    async def _send_ask(
        self, spec: MethodSpec, params: Wire | Raw, key: str | None, timeout: float | None
    ) -> CallAnswer:
        self.check_outside_steps(spec)
        lane = "" if key is not None else journal.lane_here() or ""
        place = self._journal.place(lane, spec.name, journal.digest_of(spec.name, params), key)
        with journal.beside_lanes():
            if self._record.again:
                known = await self._known(spec, params, place)
                if known is not None:
                    return await recall_answer(known, spec)
            try:
                answer = await super()._send_ask(spec, params, key, timeout)
            except CallTimeout:
                await self._note(place, journal.JournalEntry("timeout", place.digest))
                raise
            except PeerError as error:
                if error.remote:
                    said = ErrorObject(error.code, error.message, error.data)
                    await self._note(place, journal.JournalEntry("error", place.digest, encode_value(said)))
                raise
            await self._note(place, journal.JournalEntry("answer", place.digest, bytes(answer.raw)))
            return answer

    async def _known(
        self, spec: MethodSpec, params: Wire | Raw, place: journal.JournalPlace
    ) -> journal.JournalEntry | None:
        """Return what another process learnt at a place, or the reply to the question that it asked there."""
        noted = await self._stored.find_noted_step(self, place.name)
        asked = self._record.asked(spec.name, encode_value(params))
        if noted is not None:
            return _decode(noted)
        reply = self._record.replies.take(asked.id) if asked is not None and self._record.replies is not None else None
        if asked is None:
            return None
        if reply is None:
            # The question is asked again under another id, and nobody should answer both.
            gone = CancelledNotificationParams(request_id=asked.id, reason="it is asked again by another process")
            await self.send(notification_frame("notifications/cancelled", encode_value(gone)))
            return None
        if reply.error is not UNSET:
            entry = journal.JournalEntry("error", place.digest, encode_value(reply.error))
        else:
            # Raises at the author's await if it cannot be read.
            read_reply(reply.result, spec)
            entry = journal.JournalEntry("answer", place.digest, bytes(reply.result))
        await self._note(place, entry)
        return entry

    async def _note(self, place: journal.JournalPlace, entry: journal.JournalEntry) -> None:
        """Record what was learnt. If an answer cannot be recorded, a process that takes over asks again."""
        if not self._is_kept:
            if self._before is not None:
                self._before.append((place, entry))
                self._size += len(entry.value)
                if self._size > journal.MAX_JOURNAL:
                    self._before = None
            return
        try:
            await self._stored.note_step(self, place.name, _encode(entry))
        except TemporarilyUnavailable as error:
            log.warning("%s: an answer is not recorded: %s", self.handled.name, error)

    # --- steps --------------------------------------------------------------------------------------------------

    async def step(self, name: str, work: Callable[[str], Awaitable[bytes]], *, secret: bool = False) -> bytes:
        """Run a step once, and go on when its result is recorded; a handler that runs again gets that result."""
        place = self._journal.place(journal.lane_here() or "", f"step/{name}", b"")
        with journal.beside_lanes():
            noted = await self._stored.find_noted_step(self, place.name) if self._record.again else None
            if noted is not None:
                return _decode(noted).value
            is_recorded = self._has_journal
            if not is_recorded:
                async with self._beginning:
                    # Another step may have begun it meanwhile.
                    is_recorded = self._has_journal or await self._record_before()
            if is_recorded:
                await self._stored.check_not_overtaken(self)
        value = await self.taken(name, work, f"{self.key.hex()}/{place.name}")
        if not is_recorded:
            return value
        with journal.beside_lanes():
            packed = await self._stored.note_effect(
                self, place.name, _encode(journal.JournalEntry("step", place.digest, value))
            )
        return _decode(packed).value

    async def _record_before(self) -> bool:
        before = [] if self._is_kept else self._before
        if before is None:
            return False
        recorded = 0
        try:
            for place, entry in before:
                await self._stored.note_step(self, place.name, _encode(entry))
                recorded += 1
            await self._stored.begin_journal(self)
        except TemporarilyUnavailable as error:
            if self._is_kept:
                raise
            self._before = None
            log.warning(
                "%s: its steps are not recorded, so that it ends with this process: %s", self.handled.name, error
            )
            return False
        self._is_kept = self._has_journal = True
        self._before = None
        # Learnt by other tasks of the handler while the journal began.
        for place, entry in before[recorded:]:
            await self._note(place, entry)
        return True
