"""Any order of looks, answers, cancellations, ends, time that is over and processes that die leaves one end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from antiphon.server.state.request_state import Seal
from antiphon.server.tasks.stored_tasks import StoredTasks
from antiphon.server.tasks.task_record import TaskAsk, TaskRecord
from antiphon.server.tasks.task_states import HELD, TaskEvent, TaskState
from antiphon.server.tasks.task_store import MemoryTaskStore, TaskOptions
from antiphon.wire.common import ClientCapabilities

LEASE, TTL = 10.0, 200.0
STEPS = ["ask", "answer", "cancel", "return", "fail", "unwind", "park", "release", "take", "later", "much later"]


def record() -> TaskRecord:
    """Make a task that the first process holds."""
    return TaskRecord(
        id="t", revision="2026-07-28", capabilities=ClientCapabilities(), created=0.0, updated=0.0,
        ttl=TTL, holder="0", generation=1, lease=LEASE,
    )  # fmt: skip


class Life:
    """One task, three processes that may each believe to hold it, and a client."""

    def __init__(self) -> None:
        self.now = 1.0
        self.tasks = StoredTasks(MemoryTaskStore(clock=lambda: self.now), Seal(), "s", patience=50.0)
        self.held = {"0": 1}
        """By process, the generation with which it believes to hold the task; none forgets it when it is too late."""
        self.asked = 0
        self.ends: list[tuple[TaskState, bytes]] = []
        self.keys: set[str] = set()

    async def do(self, step: str, process: str) -> None:
        """Let something happen; what a process may not do any more must change nothing."""
        match step:
            case "later" | "much later":
                self.now += LEASE + 1 if step == "later" else TTL
            case "answer":
                await self._change(lambda seen: seen.answered({ask.key for ask in seen.asks[:1]}, self.now))
            case "cancel":
                await self._change(lambda seen: seen.moved(TaskEvent.CANCEL, self.now))
            case "take":
                taken = await self._change(lambda seen: self._takeable(seen, process))
                if taken is not None and taken.holder == process:
                    self.held[process] = taken.generation
            case _:
                await self._change(lambda seen: self._by_handler(seen, step, process))

    def _takeable(self, seen: TaskRecord, process: str) -> TaskRecord | None:
        is_due = seen.due is not None and seen.due <= self.now
        return seen.taken(process, self.now + LEASE, self.now) if is_due else None

    def _by_handler(self, seen: TaskRecord, step: str, process: str) -> TaskRecord | None:
        if seen.generation != self.held.get(process) or seen.state not in HELD:
            return None
        if step == "ask":
            self.asked += 1
            ask = TaskAsk(f"k{self.asked}", "roots/list", f"p{self.asked}", b"", None, b"{}")
            return seen.asking({each.key for each in seen.asks}, [ask], self.asked, None, self.now)
        if step in ("park", "release"):
            is_possible = seen.state is TaskState.RUNNING or step == "release"
            return seen.moved(TaskEvent(step), self.now) if is_possible else None
        if step == "unwind" and seen.state is TaskState.RUNNING:
            return None
        return seen.ended(TaskEvent(step), f"{step} {process}".encode(), None, 1.0, self.now)

    async def _change(self, change: Callable[[TaskRecord], TaskRecord | None]) -> TaskRecord | None:
        seen = await self.tasks.change("t", change)
        if seen is not None and seen.is_over:
            self.ends.append((seen.state, seen.outcome))
            assert (seen.holder, seen.asks, seen.due) == ("", (), None)
        return seen


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from("012")), max_size=40))
def test_a_task_has_exactly_one_end(steps: list[tuple[str, str]]) -> None:
    """Whoever says so first; and once its time is over nobody hears of it again."""

    async def live() -> Life:
        life = Life()
        await life.tasks.add(record(), b"{}", {}, TaskOptions().room(None))
        gone = False
        for step, process in steps:
            await life.do(step, process)
            found = await life.tasks.get("t")
            assert not (gone and found is not None)
            gone = found is None
        return life

    life = asyncio.run(live())
    assert len(set(life.ends)) <= 1


def test_time_in_which_people_are_asked_is_counted_once() -> None:
    """However many asks are open at the same time; and only up to the patience."""
    first = TaskAsk("a", "roots/list", "p", b"", None, b"{}")
    second = TaskAsk("b", "roots/list", "q", b"", None, b"{}")
    asking = record().asking((), [first, second], 2, None, 10.0)
    assert asking.expires(50.0) == TTL + 50
    half = asking.answered({"a"}, 20.0)
    assert (half.status, half.waited) == ("input_required", 0.0)
    done = half.answered({"b"}, 30.0)
    assert (done.status, done.waited, done.expires(50.0)) == ("working", 20.0, TTL + 20)
