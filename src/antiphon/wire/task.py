"""Tasks: calls that are answered with a handle at once, and go on without a request (extension, from 2026-07-28).

Revision 2025-11-25 had an experiment of the same name: there a client asks for a task in its call, and the server sends
its asks as requests while the client waits for the result (``tasks/result``). Its messages are made from those of the
extension, see ``as_experiment``.

Source: the extension ``io.modelcontextprotocol/tasks`` (SEP-2663); 2025-11-25 basic/utilities/tasks.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Raw

from antiphon.wire.common import ABSENT, RequestParams, Result, Wire
from antiphon.wire.envelope import ErrorObject
from antiphon.wire.rounds import InputRequest

TASKS = "io.modelcontextprotocol/tasks"
"""Name of the extension, in the capabilities of both sides."""

RELATED_TASK = "io.modelcontextprotocol/related-task"
"""Member of ``_meta`` that names the task of a message (2025-11-25)."""

TASK = "task"
"""``resultType`` of the result that is a handle."""

TaskStatus = Literal["working", "input_required", "completed", "cancelled", "failed"]


class _TaskState(Result, frozen=True, kw_only=True):
    task_id: str
    status: TaskStatus
    status_message: str | None = None
    """What the task does now, or why it has ended, for people."""
    created_at: str
    """Date and time in ISO 8601."""
    last_updated_at: str


class Task(_TaskState, frozen=True, kw_only=True):
    """What a server says of a task, whatever its status."""

    ttl_ms: int | None
    """Milliseconds since its creation after which the server may forget it; ``None``: never. It may change."""
    poll_interval_ms: int | None = None
    """Milliseconds a client should wait between two requests for the state."""


class CreateTaskResult(Task, frozen=True, kw_only=True):
    """Result of a call that goes on as a task; ``result_type`` is "task"."""


class GetTaskResult(Task, frozen=True, kw_only=True):
    """Result of ``tasks/get``, and params of ``notifications/tasks``: the task, and what belongs to its status."""

    input_requests: dict[str, InputRequest] | None = None
    """While it waits for input: all open asks, by keys that are never used twice."""
    result: Raw = ABSENT
    """When it has completed: the result of the call, as JSON; a tool that failed is a result."""
    error: ErrorObject | None = None
    """When it has failed: the protocol error of the call."""


class TaskParams(RequestParams, frozen=True, kw_only=True):
    """Params of ``tasks/get`` and ``tasks/cancel``."""

    task_id: str


class UpdateTaskParams(TaskParams, frozen=True, kw_only=True):
    """Params of ``tasks/update``: answers by the keys of their asks, undecoded, since their types are the asks'."""

    input_responses: dict[str, Raw]


class TaskWish(Wire, frozen=True, kw_only=True):
    """Member ``task`` of a call's params, by which a client of 2025-11-25 wants a task."""

    ttl: int | None = None
    """Milliseconds since its creation for which the client wants the task to be kept."""


class ExperimentalTask(_TaskState, frozen=True, kw_only=True):
    """A task as 2025-11-25 has it: the result of ``tasks/get`` and ``tasks/cancel``, and params of its notification."""

    ttl: int | None
    """As ``Task.ttl_ms``."""
    poll_interval: int | None = None
    """As ``Task.poll_interval_ms``."""


class ExperimentalHandle(Result, frozen=True, kw_only=True):
    """Result of a call that goes on as a task, as 2025-11-25 has it."""

    task: ExperimentalTask


def as_experiment(task: Task, _revision: str = "") -> Any:
    """Convert the state of a task to the form of 2025-11-25, which has neither its asks nor its result."""
    return ExperimentalTask(
        task_id=task.task_id,
        status=task.status,
        status_message=task.status_message,
        created_at=task.created_at,
        last_updated_at=task.last_updated_at,
        ttl=task.ttl_ms,
        poll_interval=task.poll_interval_ms,
    )


def handle_as_experiment(handle: CreateTaskResult, _revision: str = "") -> Any:
    """Convert a handle to the form of 2025-11-25."""
    return ExperimentalHandle(task=as_experiment(handle))
