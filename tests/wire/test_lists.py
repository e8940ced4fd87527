"""Lists with entries that cannot be read."""

from __future__ import annotations

from msgspec import Raw

from antiphon.wire.lists import readable_list
from antiphon.wire.roots import ListRootsResult
from antiphon.wire.tools import CallToolResult


def test_unreadable_entries_are_left_out_and_named() -> None:
    """Ten are named, and the others counted."""
    told: list[str] = []
    raw = Raw(b'{"roots":[' + b'{"name":"bad"},' * 12 + b'{"uri":"file:///a","x":1}],"y":2}')
    assert bytes(readable_list(raw, ListRootsResult, told.append)) == b'{"roots":[{"uri":"file:///a","x":1}],"y":2}'
    assert told[0].startswith("roots[0] ('bad'): ")
    assert told[0].endswith("; and 2 more")


def test_other_results_stay_as_they_are() -> None:
    """A list without bad entries does, too, and one that is none."""
    told: list[str] = []
    for raw, kind in [
        (Raw(b"{}"), CallToolResult),
        (Raw(b'{"roots":[]}'), ListRootsResult),
        (Raw(b"5"), ListRootsResult),
    ]:
        assert readable_list(raw, kind, told.append) is raw
    assert told == []
