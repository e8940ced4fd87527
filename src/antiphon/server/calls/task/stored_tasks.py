"""The tasks of one server in their store: records to and from bytes, sealed, and changed by one writer after another.

Owns how a record is written. A write names the version it replaces; if somebody else wrote meanwhile, the change is
made anew on what they wrote. So a change is a function of a record, and may run several times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.server.calls.journal import Entry, Journal
from antiphon.server.calls.request_state import Seal
from antiphon.server.calls.task.task_record import TaskRecord
from antiphon.server.calls.task.task_states import HELD
from antiphon.server.calls.task.task_store import StoredTask, TaskStore

__all__ = ["Change", "StoredTasks"]

Change = Callable[[TaskRecord], "TaskRecord | None"]
"""Makes the next record of a task; ``None`` if there is nothing to change."""

_TRIES = 64
"""How often a change is made anew. Each failure means that another writer succeeded."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TaskRecord).decode
_decode_entry = msgspec.msgpack.Decoder(Entry).decode


class StoredTasks:
    """The tasks of one server. ``patience``: most seconds by which waiting for people puts off the end of a task."""

    def __init__(self, store: TaskStore, seal: Seal, name: str, patience: float) -> None:
        self.store = store
        self._seal = seal if store.shared else None
        self._server = name.encode()
        self._patience = patience

    async def add(self, record: TaskRecord, entries: Mapping[str, Entry], most: int, most_of_owner: int) -> TaskRecord:
        """Store a new task.

        Raises:
            InvalidRequest: there are too many; the message says of whom.
        """
        record = msgspec.structs.replace(record, version=1)
        stored = self._packed(record)
        if not await self.store.add(stored, most=most, most_of_owner=most_of_owner):
            raise InvalidRequest(
                f"Too many tasks: {most_of_owner} of one client and {most} together are kept; cancel some, or try "
                "again when some have ended and their time to live is over"
            )
        if entries:
            written = await self.change(record.id, lambda now: now, entries)
            record = written or record
        return record

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task; ``None`` if there is none (any more)."""
        stored = await self.store.get(id)
        return None if stored is None else self.unpacked(stored)

    async def change(self, id: str, change: Change, entries: Mapping[str, Entry] | None = None) -> TaskRecord | None:
        """Change a task, and add to its journal; return what it is then, or ``None`` if it is gone.

        Raises:
            Whatever ``change`` raises; nothing was written then.
        """
        packed = {place: self._sealed(_encode(entry), id + place) for place, entry in (entries or {}).items()}
        for _ in range(_TRIES):
            before = await self.get(id)
            if before is None:
                return None
            after = change(before)
            if after is None:
                return before
            after = msgspec.structs.replace(after, version=before.version + 1)
            if await self.store.write(self._packed(after), packed):
                return after
        raise InvalidRequest("The task is changed by too many at once; try again")

    async def journal(self, id: str) -> Journal:
        """Return what a task has learnt."""
        entries = await self.store.journal(id)
        return Journal({place: _decode_entry(self._opened(packed, id + place)) for place, packed in entries.items()})

    def unpacked(self, stored: StoredTask) -> TaskRecord:
        """Read a task of the store."""
        record = _decode(self._opened(stored.data, stored.id))
        # A lease is renewed without a new version, for all tasks of a process at once.
        lease = stored.due if record.state in HELD else record.lease
        return msgspec.structs.replace(record, version=stored.version, lease=lease)

    def _packed(self, record: TaskRecord) -> StoredTask:
        return StoredTask(
            id=record.id,
            version=record.version,
            owner=hashlib.blake2b((record.owner or "").encode(), digest_size=16, key=b"owner").hexdigest(),
            holder=record.holder,
            due=record.due,
            expires=record.expires(self._patience),
            is_over=record.is_over,
            data=self._sealed(_encode(record), record.id),
        )

    def _sealed(self, data: bytes, place: str) -> bytes:
        return data if self._seal is None else self._seal.seal_bytes(data, self._server + place.encode())

    def _opened(self, data: bytes, place: str) -> bytes:
        return data if self._seal is None else self._seal.open_bytes(data, self._server + place.encode())
