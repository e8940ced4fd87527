"""How tasks are sealed on their way to a store."""

from __future__ import annotations

import asyncio
import threading

import pytest

from antiphon.server import MemoryTaskStore, TaskOptions
from antiphon.server.calls.journal import JournalEntry
from antiphon.server.state.request_state import Seal
from antiphon.server.tasks.stored_tasks import StoredTasks
from antiphon.server.tasks.task_record import TaskRecord
from antiphon.wire.common import ClientCapabilities

PARAMS = b"p" * 1_000_000


class Shared(MemoryTaskStore):
    """Outlives the process, so that what is in it is sealed."""

    shared = True


class Slow(Seal):
    """Goes on only when the event loop has run meanwhile."""

    def __init__(self) -> None:
        super().__init__([b"k" * 32])
        self.loop = asyncio.get_running_loop()

    def _wait(self) -> None:
        ran = threading.Event()
        self.loop.call_soon_threadsafe(ran.set)
        assert ran.wait(30), "the event loop is held"

    def seal_bytes(self, data: bytes, bound_to: bytes) -> bytes:
        if len(data) >= len(PARAMS):
            self._wait()
        return super().seal_bytes(data, bound_to)

    def open_bytes(self, blob: bytes, bound_to: bytes) -> bytes:
        if len(blob) >= len(PARAMS):
            self._wait()
        return super().open_bytes(blob, bound_to)


@pytest.mark.parametrize("where", ["arguments", "a step", "the result"])
async def test_what_is_large_is_sealed_and_opened_beside_the_event_loop(where: str) -> None:
    """Others are served while megabytes are encrypted."""
    tasks = StoredTasks(Shared(), Slow(), "s", patience=0.0)
    record = TaskRecord(
        id="t", revision="2026-07-28", capabilities=ClientCapabilities(), created=0.0, updated=0.0, ttl=1e12,
        outcome=PARAMS if where == "the result" else b"",
    )  # fmt: skip
    entries = {"s": JournalEntry("step", b"", PARAMS)} if where == "a step" else {}
    params = PARAMS if where == "arguments" else b"{}"
    await tasks.add(record, params, entries, TaskOptions().room(None))
    found = await tasks.get("t")
    assert found is not None
    assert found.outcome == record.outcome
    stored, journal = await tasks.call("t")
    assert stored == params
    assert journal.entries == entries
