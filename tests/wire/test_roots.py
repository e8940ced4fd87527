"""Roots."""

from __future__ import annotations

from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.roots import ListRootsResult, Root


def test_roots_come_back():
    """With and without a name."""
    result = ListRootsResult(roots=[Root(uri="file:///a", name="a"), Root(uri="file:///b")])
    assert decode_wire(encode_value(result), ListRootsResult) == result


def test_no_roots_are_written():
    """The list is required."""
    assert encode_value(ListRootsResult(roots=[])) == b'{"roots":[]}'
