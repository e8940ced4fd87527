"""Roots."""

from __future__ import annotations

from antiphon.wire.envelope import decode, encode
from antiphon.wire.roots import ListRootsResult, Root


def test_roots_come_back():
    """With and without a name."""
    result = ListRootsResult(roots=[Root(uri="file:///a", name="a"), Root(uri="file:///b")])
    assert decode(encode(result), ListRootsResult) == result


def test_no_roots_are_written():
    """The list is required."""
    assert encode(ListRootsResult(roots=[])) == b'{"roots":[]}'
