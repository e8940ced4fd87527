"""The messages of the tasks extension, as its specification writes them."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.task import CreateTaskResult, GetTaskResult, UpdateTaskParams

TASK = {
    "taskId": "t-1",
    "status": "working",
    "createdAt": "2026-07-28T10:00:00Z",
    "lastUpdatedAt": "2026-07-28T10:00:01Z",
    "ttlMs": 60_000,
    "pollIntervalMs": 5_000,
}


@pytest.mark.parametrize(
    "members",
    [
        {"statusMessage": "reading"},
        {"ttlMs": None},
        {"status": "input_required", "inputRequests": {"k": {"method": "roots/list", "params": {}}}},
        {"status": "completed", "result": {"content": [], "isError": True}},
        {"status": "failed", "error": {"code": -32603, "message": "no"}},
    ],
)
def test_a_task_comes_back_as_it_was(members: dict[str, object]) -> None:
    """With what belongs to its status; a ``ttlMs`` of null is not the same as none."""
    sent = {**TASK, **members, "resultType": "complete"}
    assert msgspec.json.decode(encode_value(decode_wire(Raw(msgspec.json.encode(sent)), GetTaskResult))) == sent


def test_a_handle_is_flat() -> None:
    """No ``task`` around it."""
    handle = decode_wire(Raw(msgspec.json.encode({**TASK, "resultType": "task"})), CreateTaskResult)
    assert (handle.task_id, handle.result_type, handle.ttl_ms) == ("t-1", "task", 60_000)


@pytest.mark.parametrize("missing", ["taskId", "inputResponses"])
def test_an_update_names_its_task_and_has_answers(missing: str) -> None:
    """Otherwise its params are invalid."""
    params = {"taskId": "t-1", "inputResponses": {}}
    del params[missing]
    with pytest.raises(msgspec.ValidationError, match=missing):
        decode_wire(Raw(msgspec.json.encode(params)), UpdateTaskParams)
