"""The parts of uvicorn that ours are made of are those that were looked at.

Our connections, cycles and servers override methods that uvicorn does not promise to keep, so ``pyproject.toml`` has an
upper bound on its version. When a newer one is installed, these tests say which of its modules have changed. Read the
change beside what is built on it (``BUILT_ON``), run ``tests/transports/http`` and ``tests/web/test_page_server.py``,
and raise the bound in ``pyproject.toml``, ``LOOKED_AT`` and the digests.
"""

from __future__ import annotations

import hashlib
import inspect
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import uvicorn

PROJECT = Path(__file__).parents[4] / "pyproject.toml"
LOOKED_AT = (0, 54)
"""The newest minor version whose source was read."""

BUILT_ON = {
    "uvicorn.protocols.http.httptools_impl": ("c148dcc3e2baf304", "transports/http/server/connections.py and cycle.py"),
    "uvicorn.protocols.http.flow_control": ("c4ffe24c412c78c6", "transports/http/server/connections.py and cycle.py"),
    "uvicorn.server": ("5e0fc135baaed605", "transports/http/server/shutdown.py, web/page_server.py"),
    "uvicorn.protocols.http.h11_impl": ("91a734f3da0ad7f5", "web/page_server.py"),
}
"""By module: the digest of its source in that version, and what of ``src/antiphon`` overrides or calls its parts."""


def test_uvicorn_is_no_newer_than_what_was_looked_at():
    """A minor version is read before it is allowed."""
    installed = tuple(int(number) for number in uvicorn.__version__.split(".")[:2])
    assert installed <= LOOKED_AT, __doc__


def test_no_newer_uvicorn_can_be_installed_with_the_package():
    """Nor by whoever installs the package without our pins."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    wanted = [one for one in (*project["dependencies"], *extras) if one.startswith("uvicorn")]
    major, minor = LOOKED_AT
    assert [one.rpartition("<")[2] for one in wanted] == [f"{major}.{minor + 1}"]


@pytest.mark.parametrize("name", BUILT_ON)
def test_what_ours_is_built_on_is_as_it_was(name: str):
    """If not, ours may have to follow."""
    digest, ours = BUILT_ON[name]
    source = inspect.getsource(import_module(name))
    assert hashlib.blake2b(source.encode(), digest_size=8).hexdigest() == digest, f"{name} has changed: read {ours}"
