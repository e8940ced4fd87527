"""The tools of servers for Google's Agent Development Kit.

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
    assert count_passed_cases("google_adk", "cases_google_adk") > len(CASES) * len(REVISIONS)


def test_its_example_prints_what_it_should():
    """The program that the documentation names."""
    assert run_example("google_adk") == "to confirm: {'product': 'scarf'}\n{'result': 'ordered a scarf'}\n"


def test_the_types_are_strict(tmp_path: Path):
    """Against the framework's own types, which the other environments do not have."""
    check_types("google_adk", tmp_path, "google_adk")
