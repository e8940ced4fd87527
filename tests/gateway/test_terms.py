"""The options of a gateway that say how its servers are run."""

from __future__ import annotations

import pytest

from antiphon.errors import ConfigError
from antiphon.gateway.terms import IDLE_TIMEOUT, MAX_PROCESSES, terms_of
from antiphon.host import Host, Scripted


def test_what_is_not_said_is_as_usual():
    """And ``None`` is said."""
    host = Host(Scripted([]))
    usual, other = terms_of(host, {}), terms_of(host, {"idle_timeout": None, "max_processes": 1, "start_timeout": 5.0})
    assert (usual.idle_timeout, usual.processes.limit) == (IDLE_TIMEOUT, MAX_PROCESSES)
    assert (other.idle_timeout, other.processes.limit, other.start_timeout) == (None, 1, 5.0)
    with pytest.raises(ConfigError, match="at least one process"):
        terms_of(host, {"max_processes": 0})
