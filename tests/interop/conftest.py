"""Fixtures of the interop tests: all carry the marker ``interop``, and all fail when ``setup.sh`` was not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.peers import Peers

HERE = Path(__file__).parent
# The checks of consent are in modules beside their test, which tells why each of them failed.
pytest.register_assert_rewrite("tests.interop.consent")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def peers() -> Peers:
    """Find the installed peers; there is no test without them."""
    return Peers.installed()
