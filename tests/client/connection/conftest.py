"""Programs without a network, which are tested where the system lets them be started."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import pytest

from antiphon.client.connection.isolation import NetworkNamespace
from tests.support.namespaces import may_close_network

collect_ignore_glob = [] if may_close_network() else ["test_isolation.py", "test_network_holder.py"]


@pytest.fixture
def alone() -> Generator[NetworkNamespace]:
    """A network without a way out."""
    with closing(NetworkNamespace()) as made:
        yield made
