"""An installation without the packages of the review page."""

from __future__ import annotations

import sys

import pytest

import antiphon.web


def hide_page_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the page imported anew, and its packages not found, until the test has ended."""
    # The module that is then imported is set there as well, and has none of the page's parts.
    monkeypatch.setattr(antiphon, "web", antiphon.web)
    for name in [name for name in sys.modules if name.startswith("antiphon.web")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("starlette", "starlette.requests"):
        monkeypatch.setitem(sys.modules, name, None)
