"""The single migrations."""

from __future__ import annotations

from antiphon.host.store.migrations.versions import v0001


def test_the_first_follows_none():
    """It makes everything."""
    assert (v0001.revision, v0001.down_revision) == ("v0001", None)
