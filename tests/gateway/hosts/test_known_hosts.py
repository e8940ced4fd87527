"""The table of hosts: every row is complete on every platform."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from antiphon.gateway.hosts.known_hosts import KNOWN, place_of


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("name", KNOWN)
def test_a_place_is_filled_in(name: str, platform: str, monkeypatch: pytest.MonkeyPatch):
    """No variable is left in it."""
    monkeypatch.setattr(sys, "platform", platform)
    place = place_of(KNOWN[name], {"HOME": "/people/me", "APPDATA": "/people/me/AppData"})
    assert place.is_relative_to(Path("/people/me"))
    assert not {"$", "~", "*"} & set(str(place))


@pytest.mark.parametrize("name", KNOWN)
def test_an_entry_names_the_program(name: str):
    """In the words of the host."""
    words = str(KNOWN[name].entry("/bin/antiphon", ["gateway"]))
    assert "/bin/antiphon" in words
    assert "gateway" in words
