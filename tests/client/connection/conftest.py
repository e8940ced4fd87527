"""Which tests of connections run where: programs are started without a network where the system lets them."""

from __future__ import annotations

from tests.support.namespaces import may_close_network

collect_ignore_glob = [] if may_close_network() else ["test_isolation.py"]
