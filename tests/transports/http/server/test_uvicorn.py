"""Any uvicorn from the oldest that we name on serves: its own code reads requests and writes responses.

``.ci/oldest`` runs the tests of what is built on it with the oldest and the newest release.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from antiphon.transports.http.server.connections import BoundedConnection

PROJECT = Path(__file__).parents[4] / "pyproject.toml"
HOOKS = {
    "connection_made",
    "connection_lost",
    "data_received",
    "on_headers_complete",
    "on_message_complete",
    "on_response_complete",
    "pause_writing",
}
"""What uvicorn's parser and transport call, which our connections listen to."""


def test_no_release_of_uvicorn_is_refused():
    """An upper bound is a conflict with the other programs of our users."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    wanted = [one for one in (*project["dependencies"], *extras) if one.startswith("uvicorn")]
    assert wanted and not [one for one in wanted if "<" in one or "==" in one]


def test_our_connections_change_nothing_but_hooks():
    """The cycle of a request is uvicorn's, and so is all that no hook names."""
    ours = {name for name in vars(BoundedConnection) if hasattr(HttpToolsProtocol, name) and not name.startswith("__")}
    assert ours == HOOKS
    assert RequestResponseCycle.__subclasses__() == []
