"""LangChain's chat models as the provider of a host.

The cases run in the framework's own environment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.environments import check_types, count_passed_cases

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


def test_a_server_asks_a_chat_model():
    """Messages, tools and results of tools arrive as LangChain has them."""
    assert count_passed_cases("langchain", "cases_langchain_models") == 1


def test_the_types_are_strict(tmp_path: Path):
    """Against the framework's own types, which the other environments do not have."""
    check_types("langchain", tmp_path, "langchain_models")
