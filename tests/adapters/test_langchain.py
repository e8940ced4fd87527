"""The tools of servers for agents of LangChain and graphs of LangGraph.

The cases run in the framework's own environment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.environments import check_types, count_passed_cases, run_example
from tests.adapters.matrix import CASES, REVISIONS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(700)]


def test_every_case_is_carried_on_every_revision():
    """All that a server asks and returns, and each way of deciding."""
    assert count_passed_cases("langchain", "cases_langchain") > len(CASES) * len(REVISIONS)


def test_its_example_prints_what_it_should():
    """The program that the documentation names."""
    assert run_example("langchain") == "to approve: order {'product': 'scarf'}\nordered a scarf\n"


def test_agents_of_two_frameworks_share_a_gateway_a_queue_and_a_budget():
    """One queue has the questions of both, and what one has spent is not left for the other."""
    *asked, ordered, spent = run_example("langchain", "two_frameworks").splitlines()
    assert asked == ['to approve: order {"product":"hat"}', 'to approve: order {"product":"scarf"}']
    assert (ordered, spent) == ("[False, True]", "spent: 30 tokens; held: 0")


def test_the_types_are_strict(tmp_path: Path):
    """Against the framework's own types, which the other environments do not have."""
    check_types("langchain", tmp_path, "langchain")
