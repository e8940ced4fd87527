"""The OpenAI Agents SDK's models as the provider of a host.

The cases run in the framework's own environment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.environments import check_types, count_passed_cases

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


def test_a_server_asks_a_model_of_the_sdk():
    """Messages, tools and results of tools arrive as the SDK has them; failures are named."""
    assert count_passed_cases("openai_agents", "cases_openai_agents_models") == 3


def test_the_types_are_strict(tmp_path: Path):
    """Against the framework's own types, which the other environments do not have."""
    check_types("openai_agents", tmp_path, "openai_agents_models")
