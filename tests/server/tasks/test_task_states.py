"""The table of a task's states: what it promises, read off the table itself."""

from __future__ import annotations

from typing import get_args

import pytest

from antiphon.server.tasks.task_states import ENDS, HELD, STATUS, TRANSITIONS, TaskEvent, TaskState, find_next_state
from antiphon.wire.task import TaskStatus
from tests.support.task_table import on_page, table


def test_three_states_are_ends_and_nothing_leads_out_of_them() -> None:
    """Answers and cancellations that come too late change nothing, and nothing else can come."""
    assert {TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELLED} == ENDS
    for end in ENDS:
        assert TRANSITIONS[end] == {TaskEvent.ANSWER: end, TaskEvent.CANCEL: end}


@pytest.mark.parametrize("state", list(TaskState))
def test_every_state_can_be_answered_and_cancelled(state: TaskState) -> None:
    """A client may do so at any time, since it does not know how far the task is."""
    assert {TaskEvent.ANSWER, TaskEvent.CANCEL} <= TRANSITIONS[state].keys()


def test_every_state_leads_to_an_end_and_is_reached() -> None:
    """No task is stuck, and no state is there for nothing."""
    led_to = {target for events in TRANSITIONS.values() for target in events.values()}
    assert led_to == set(TaskState)
    for state in TaskState:
        reached, edge = {state}, {state}
        while edge:
            edge = {target for each in edge for target in TRANSITIONS[each].values()} - reached
            reached |= edge
        assert reached & ENDS


def test_only_a_held_task_can_end_by_its_handler() -> None:
    """Without a process there is no handler."""
    for event in (TaskEvent.RETURN, TaskEvent.FAIL, TaskEvent.UNWIND, TaskEvent.PARK, TaskEvent.RELEASE):
        assert {state for state, events in TRANSITIONS.items() if event in events} <= HELD


def test_each_state_has_a_status_of_the_extension() -> None:
    """All but "input_required", which tells that asks are open and is no state."""
    assert set(STATUS) == set(TaskState)
    assert set(STATUS.values()) | {"input_required"} == set(get_args(TaskStatus))


def test_what_is_not_in_the_table_raises() -> None:
    """It would be a bug of ours."""
    with pytest.raises(RuntimeError, match="A task that is parked: there is no 'return' from here"):
        find_next_state(TaskState.PARKED, TaskEvent.RETURN)


def test_the_page_has_the_table() -> None:
    """It is drawn by ``python -m tests.support.task_table``."""
    assert on_page() == table()
