"""The single migrations."""

from __future__ import annotations

from antiphon.host.store.migrations.versions import (
    v0001,
    v0002,
    v0003,
    v0004,
    v0005,
    v0006,
    v0007,
    v0008,
    v0009,
    v0010,
    v0011,
)


def test_the_first_follows_none():
    """It makes everything."""
    assert (v0001.revision, v0001.down_revision) == ("v0001", None)


def test_each_other_follows_the_one_before():
    """So that there is one way through them."""
    chain = [v0001, v0002, v0003, v0004, v0005, v0006, v0007, v0008, v0009, v0010, v0011]
    assert [each.down_revision for each in chain[1:]] == [each.revision for each in chain[:-1]]
