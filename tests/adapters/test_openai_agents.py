"""The tools of servers for the OpenAI Agents SDK.

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
    assert count_passed_cases("openai_agents", "cases_openai_agents") > len(CASES) * len(REVISIONS)


def test_its_example_prints_what_it_should():
    """A rule on an argument allows one call, and refuses the other."""
    ordered, refused, done = run_example("openai_agents").splitlines()
    assert "ordered a scarf" in ordered
    assert "policy" in refused
    assert done == "done"


def test_the_types_are_strict(tmp_path: Path):
    """Against the framework's own types, which the other environments do not have."""
    check_types("openai_agents", tmp_path, "openai_agents")
