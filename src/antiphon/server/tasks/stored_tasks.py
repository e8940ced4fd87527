"""The tasks of one server in their store: records to and from bytes, sealed, and changed by one writer after another.

Owns how a record is written. A write names the version it replaces; if another process has written meanwhile, the
change is applied to the newer record. So a change is a function of a record, and may run several times.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from antiphon.errors import InvalidParams, InvalidRequest, TemporarilyUnavailable
from antiphon.server.calls.journal import Journal, JournalEntry
from antiphon.server.state.request_state import Seal, outcome_unknown
from antiphon.server.tasks.task_record import TaskRecord
from antiphon.server.tasks.task_states import HELD
from antiphon.server.tasks.task_store import StoredTask, TaskRoom, TasksFull, TaskStore
from antiphon.sql.database_store import StoreStalled

log = logging.getLogger("antiphon.server")

T = TypeVar("T")

Change = Callable[[TaskRecord], "TaskRecord | None"]
"""Makes the next record of a task; ``None`` if there is nothing to change."""

_TRIES = 64
"""Most attempts at one change. Each failure means that another writer succeeded."""

_CALL = "call"
"""The entry with the params of the call. No place in a handler has this name."""

_MAX_ID = 100
"""Every id has fewer characters. A client may send anything as an id."""

_LARGE = 256 * 1024
"""Bytes that are sealed or opened in the event loop, which takes half a millisecond; more goes to a thread."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TaskRecord).decode
_decode_entry = msgspec.msgpack.Decoder(JournalEntry).decode


class OutOfRoom(InvalidRequest):
    """A limit on stored tasks is exceeded; nothing was written."""


class StoredTasks:
    """The tasks of one server.

    ``patience``: most seconds by which waiting for people puts off the end of a task; ``me``: this process, as the
    holder of tasks.
    """

    def __init__(self, store: TaskStore, seal: Seal, name: str, patience: float, me: str = "") -> None:
        self.store = store
        self._seal = seal if store.shared else None
        self._server = name.encode()
        self._patience = patience
        self._me = me

    async def add(
        self, record: TaskRecord, params: bytes, entries: Mapping[str, JournalEntry], room: TaskRoom
    ) -> TaskRecord:
        """Store a new task, its call and what it has learnt; ``OutOfRoom`` names the bound that it exceeds."""
        record = msgspec.structs.replace(record, version=1)
        packed = await self._pack_entries(record.id, {_CALL: JournalEntry("step", b"", params), **entries})
        try:
            await self.store.add(await self._pack_task(record), packed, room)
        except TasksFull as error:
            raise _out_of(error, room) from None
        except Exception as error:
            # A database that does not answer, or whose connection was lost, may have stored it.
            if isinstance(error, StoreStalled) or getattr(error, "connection_invalidated", False):
                log.warning("whether a task was stored is not known: %s", type(error).__name__)
                raise outcome_unknown() from None
            raise cannot_store(error) from None
        return record

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task; ``None`` if there is none (any more)."""
        if not (id.isascii() and id.isprintable() and len(id) < _MAX_ID):
            return None
        stored = await self.store.get(id)
        return None if stored is None else await self.unpack_task(stored)

    async def change(
        self, id: str, change: Change, entries: Mapping[str, JournalEntry] | None = None, room: TaskRoom | None = None
    ) -> TaskRecord | None:
        """Change a task, and add to its journal; return it, or ``None`` if it is gone. No ``room``: ``OutOfRoom``."""
        packed = await self._pack_entries(id, entries or {})
        for _ in range(_TRIES):
            before = await self.get(id)
            if before is None:
                return None
            after = change(before)
            if after is None:
                return before
            after = msgspec.structs.replace(after, version=before.version + 1)
            try:
                # Another process has to act on a change that is not the holder's own.
                is_free = not after.holder and after.due is not None
                tell = not after.is_over and (is_free or bool({before.holder, after.holder} - {"", self._me}))
                is_written = await self.store.write(await self._pack_task(after), packed, room, tell=tell)
            except TasksFull as error:
                assert room is not None
                raise _out_of(error, room) from None
            if is_written:
                return after
        raise InvalidRequest("The task is changed by too many at once; try again")

    async def call(self, id: str) -> tuple[bytes, Journal]:
        """Return the params of a task's call, as JSON, and what it has learnt; both are empty once it has ended."""
        packed = await self.store.journal(id)

        def opened() -> dict[str, JournalEntry]:
            return {place: _decode_entry(self._unseal_entry(data, id + place)) for place, data in packed.items()}

        entries = await self._beside(sum(map(len, packed.values())), opened)
        call = entries.pop(_CALL, None)
        return b"" if call is None else call.value, Journal(entries)

    async def unpack_task(self, stored: StoredTask) -> TaskRecord:
        """Read a task of the store."""
        record = await self._beside(len(stored.data), lambda: _decode(self._unseal_entry(stored.data, stored.id)))
        # A lease is renewed without a new version, for all tasks of a process at once.
        lease = stored.due if record.state in HELD else record.lease
        return msgspec.structs.replace(record, version=stored.version, lease=lease)

    async def _pack_task(self, record: TaskRecord) -> StoredTask:
        size = len(record.outcome) + sum(len(ask.params) for ask in record.asks)
        return StoredTask(
            id=record.id,
            version=record.version,
            owner=hashlib.blake2b((record.owner or "").encode(), digest_size=16, key=b"owner").hexdigest(),
            holder=record.holder,
            due=record.due,
            expires=record.expires(self._patience),
            is_over=record.is_over,
            data=await self._beside(size, lambda: self._seal_data(_encode(record), record.id)),
        )

    async def _pack_entries(self, id: str, entries: Mapping[str, JournalEntry]) -> dict[str, bytes]:
        size = sum(len(entry.value) for entry in entries.values())
        return await self._beside(
            size, lambda: {place: self._seal_data(_encode(entry), id + place) for place, entry in entries.items()}
        )

    async def _beside(self, size: int, work: Callable[[], T]) -> T:
        """Run ``work``, which seals or opens ``size`` bytes: in a thread if they are many."""
        return work() if self._seal is None or size <= _LARGE else await asyncio.to_thread(work)

    def _seal_data(self, data: bytes, place: str) -> bytes:
        return data if self._seal is None else self._seal.seal_bytes(data, self._server + place.encode())

    def _unseal_entry(self, data: bytes, place: str) -> bytes:
        return data if self._seal is None else self._seal.open_bytes(data, self._server + place.encode())


def cannot_store(error: Exception) -> TemporarilyUnavailable:
    """Make the error for a task that cannot be stored, and log the reason."""
    # What the database says itself, without the statement and its values.
    log.error("no task can be stored: %s", getattr(error, "orig", None) or type(error).__name__)
    return TemporarilyUnavailable("The server cannot store tasks now; call again later")


def _out_of(error: TasksFull, room: TaskRoom) -> OutOfRoom:
    later = "cancel some, or try again when some have ended and their time to live is over"
    match error.of:
        case "tasks":
            return OutOfRoom(
                f"Too many tasks: {room.tasks_of_owner} of one client and {room.tasks} together are kept; {later}. The "
                "server sets this by TaskOptions(most=)"
            )
        case "task":
            return OutOfRoom(
                f"The task is too large: {room.bytes_of_task} bytes of its arguments, questions, answers, steps and "
                "result are kept; make it work with less, or return a link to what is large. The server sets this by "
                "TaskOptions(task_bytes=)"
            )
        case "bytes":
            return OutOfRoom(
                f"The tasks are too large: {room.bytes_of_owner} bytes of one client and {room.bytes} together are "
                f"kept; {later}. The server sets this by TaskOptions(most_bytes=)"
            )


def unknown_task() -> InvalidParams:
    """Make the error for a task that does not exist, or belongs to another client."""
    return InvalidParams("Unknown task: there is none with this id, or its time is over")
