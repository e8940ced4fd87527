"""Tasks: calls that are answered with a handle at once, and go on without a request (extension, from 2026-07-28).

Source: the extension ``io.modelcontextprotocol/tasks`` (SEP-2663). The tasks of 2025-11-25, an experiment with other
messages, are not spoken.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Raw

from antiphon.wire.common import ABSENT, RequestParams, Result
from antiphon.wire.envelope import ErrorObject
from antiphon.wire.rounds import InputRequest

__all__ = [
    "TASK",
    "TASKS",
    "CreateTaskResult",
    "GetTaskResult",
    "Task",
    "TaskParams",
    "TaskStatus",
    "UpdateTaskParams",
]

TASKS = "io.modelcontextprotocol/tasks"
"""Name of the extension, in the capabilities of both sides."""

TASK = "task"
"""``resultType`` of the result that is a handle."""

TaskStatus = Literal["working", "input_required", "completed", "cancelled", "failed"]


class Task(Result, frozen=True, kw_only=True):
    """What a server says of a task, whatever its status."""

    task_id: str
    status: TaskStatus
    status_message: str | None = None
    """What is being done, or why it ended so, for people."""
    created_at: str
    """Date and time in ISO 8601."""
    last_updated_at: str
    ttl_ms: int | None
    """Milliseconds since its creation after which the server may forget it; ``None``: never. It may change."""
    poll_interval_ms: int | None = None
    """Milliseconds a client should wait between two looks."""


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
