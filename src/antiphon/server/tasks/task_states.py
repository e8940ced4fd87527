"""The life of a task: its states, what moves it from one to the next, and how it ends.

A task is a record in a store (``task_record``), and at times a handler in the memory of one process (``task_call``).
The record goes through ``TRANSITIONS``, by ``find_next_state`` and in no other way, and each step is one atomic write.

**Who may work on it.** A process that works on a task *holds* it, by a lease that it renews. Taking it (``TAKE``)
raises its *generation*, and a write of an older generation is refused: a process that was wrongly thought dead can
change nothing any more. So two processes may run the handler of a task for a moment, but only one can write.

* ``READY``: there is work to do, and nobody holds it. It was just answered, or the process that held it has closed.
* ``RUNNING``: a process holds it, and its handler is in memory. If the lease ends without being renewed, that process
  is dead, and whoever finds it takes it over: the handler is run again over what the task has learnt (*replay*).
* ``PARKED``: its handler waited for answers for longer than its grace, and was *unloaded*. Nobody holds it, and only
  its record takes room. An answer makes it ``READY``; when an ask times out, a process takes it to record that.
* ``STOPPING``: it was cancelled while a process held it, and its handler cleans up.

**What clients see.** A task that is not at its end has the status "input_required" while asks are open, and "working"
otherwise. "input_required" is not a state: when one of two asks is answered, the handler goes on while the other is
still open.

**The end.** A task ends once. By its handler: ``COMPLETED`` with a result, which may say that the tool failed, or
``FAILED`` with a protocol error. Or by its client: ``CANCELLED``, at once if nobody holds it, otherwise when its
handler has ended by its cancellation (``UNWIND``); a handler that catches its cancellation and returns has completed.
If the process dies while the handler cleans up, whoever finds the task makes it ``CANCELLED`` and runs nothing. After
the end, answers and further cancellations are accepted and change nothing. When its time to live is over the record is
deleted, whatever its state, and a handler that still runs finds that its next write is refused.

The table in docs/topics/tasks.md is drawn from this one (``python -m tests.support.task_table``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from antiphon.wire.task import TaskStatus


class TaskState(StrEnum):
    """How far a task has come."""

    READY = "ready"
    """There is work to do, and no process holds it."""
    RUNNING = "running"
    """A process holds it, and its handler runs."""
    PARKED = "parked"
    """Its handler was unloaded while it waited for answers; no process holds it."""
    STOPPING = "stopping"
    """It was cancelled, and its handler cleans up."""
    COMPLETED = "completed"
    """The handler returned a result."""
    FAILED = "failed"
    """The handler raised a protocol error, or could not be run again."""
    CANCELLED = "cancelled"
    """The client cancelled it."""


class TaskEvent(StrEnum):
    """What moves a task, and who says so."""

    TAKE = "take"
    """A process takes it, or takes it over from one whose lease has ended."""
    ANSWER = "answer"
    """An answer has come (``tasks/update``)."""
    PARK = "park"
    """The process that holds it unloads its handler."""
    RELEASE = "release"
    """The process that holds it closes."""
    CANCEL = "cancel"
    """The client wants it to stop (``tasks/cancel``)."""
    RETURN = "return"
    """The handler has returned a result."""
    FAIL = "fail"
    """The handler has raised a protocol error, or its code has changed."""
    UNWIND = "unwind"
    """The handler has ended by its cancellation."""


_ENDING = {TaskEvent.RETURN: TaskState.COMPLETED, TaskEvent.FAIL: TaskState.FAILED}

_UNHELD = {TaskEvent.TAKE: TaskState.RUNNING, TaskEvent.ANSWER: TaskState.READY, TaskEvent.CANCEL: TaskState.CANCELLED}
"""Of a state in which no process holds the task."""

TRANSITIONS: Mapping[TaskState, Mapping[TaskEvent, TaskState]] = {
    TaskState.READY: _UNHELD,
    TaskState.RUNNING: {
        TaskEvent.TAKE: TaskState.RUNNING,
        TaskEvent.ANSWER: TaskState.RUNNING,
        TaskEvent.PARK: TaskState.PARKED,
        TaskEvent.RELEASE: TaskState.READY,
        TaskEvent.CANCEL: TaskState.STOPPING,
        **_ENDING,
    },
    TaskState.PARKED: _UNHELD,
    TaskState.STOPPING: {
        TaskEvent.TAKE: TaskState.CANCELLED,
        TaskEvent.ANSWER: TaskState.STOPPING,
        TaskEvent.RELEASE: TaskState.CANCELLED,
        TaskEvent.CANCEL: TaskState.STOPPING,
        TaskEvent.UNWIND: TaskState.CANCELLED,
        **_ENDING,
    },
    **{
        state: {TaskEvent.ANSWER: state, TaskEvent.CANCEL: state}
        for state in (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELLED)
    },
}
"""By state, the state that each event leads to."""

ENDS = frozenset(state for state, events in TRANSITIONS.items() if set(events.values()) == {state})
"""The states that nothing leads out of."""

HELD = frozenset({TaskState.RUNNING, TaskState.STOPPING})
"""The states in which a process holds the task."""

STATUS: Mapping[TaskState, TaskStatus] = {
    **{state: "working" for state in TaskState if state not in ENDS},
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "failed",
    TaskState.CANCELLED: "cancelled",
}
"""The status that clients see in each state, while no ask is open."""


def find_next_state(state: TaskState, event: TaskEvent) -> TaskState:
    """Return the state that follows; ``RuntimeError``, a bug of ours, if the event cannot happen in this state."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise RuntimeError(f"A task that is {state}: there is no {event.value!r} from here") from None
