"""Which clients show elicitations: only those that are known to, from the version on that does."""

from __future__ import annotations

import pytest

from antiphon.gateway.relayed_asks import shows_elicitations
from antiphon.types import Implementation


@pytest.mark.parametrize(
    ("name", "version", "form", "url"),
    [
        ("claude-code", "2.1.75", False, False),
        ("claude-code", "2.1.76", True, True),
        ("claude-code", "3.0.0-beta.1", True, True),
        ("Visual Studio Code", "1.102.0", True, False),
        ("Visual Studio Code", "1.107.1", True, True),
        ("claude-code", "unknown", False, False),
        ("nobody", "99", False, False),
    ],
)
def test_a_client_shows_what_its_version_does(name: str, version: str, form: bool, url: bool):
    """A version that cannot be read is taken for an old one."""
    info = Implementation(name=name, version=version)
    assert (shows_elicitations(info, "form"), shows_elicitations(info, "url")) == (form, url)


def test_a_client_without_a_name_shows_nothing():
    """It need not say who it is at 2026-07-28."""
    assert not shows_elicitations(None, "form")
