"""AgentDojo's suites behind our gateway: the harness of ``benchmarks/agentdojo`` on a few tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.agentdojo.__main__ import RULES, STRICT, replay_suite
from benchmarks.agentdojo.replay import TOOLS, serve_suite


@pytest.mark.timeout(600)  # a suite starts in some seconds, and a machine may be busy
@pytest.mark.parametrize("suite", ["banking", "slack"])
async def test_what_would_steal_is_asked_about_and_most_else_is_not(suite: str, tmp_path: Path):
    """The tasks are done by AgentDojo's own checks, and no injected theft is; links in messages are followed."""
    async with serve_suite(suite, tmp_path, RULES) as served:
        found = await replay_suite(served, 4)
    # Each tool is asked about when it is used for the first time, and has its labels in the data.
    assert found.new == len(TOOLS[suite])
    assert len(found.tasks) == 4
    assert found.asked < found.calls
    assert not any(call.asked for each in found.tasks for call in each.task if call.tool == "get_webpage")
    assert found.attacks["steals"]
    assert all(each.is_stopped and not each.done["injected"] for each in found.attacks["steals"])


@pytest.mark.timeout(600)
async def test_orders_that_need_no_data_are_stopped_by_a_rule_more(tmp_path: Path):
    """Without it they run: the session has read nothing that is private."""
    async with serve_suite("travel", tmp_path) as served:
        found = await replay_suite(served, 1)
    assert found.asked == 0
    assert not any(each.is_stopped for each in found.attacks["acts"])
    async with serve_suite("travel", tmp_path, STRICT) as served:
        found = await replay_suite(served, 1)
    assert all(each.is_stopped for each in found.attacks["acts"])
