"""Results are kept as long as the server allows, and no longer."""

from __future__ import annotations

from antiphon.client.cache import MAX_ENTRIES, Cache
from antiphon.wire.tools import ListToolsResult


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def page(ttl: int | None) -> ListToolsResult:
    """Make a result that may be kept for ``ttl`` milliseconds."""
    return ListToolsResult(tools=[], ttl_ms=ttl)


def test_a_result_is_kept_for_its_time() -> None:
    """At its end it is gone."""
    clock = Clock()
    cache, kept = Cache(clock), page(1_000)
    cache.put("tools/list", "", kept)
    clock.now = 0.999
    assert cache.get("tools/list", "") is kept
    clock.now = 1.0
    assert cache.get("tools/list", "") is None


def test_nothing_is_kept_without_leave() -> None:
    """No time, zero, or a nonsensical one: every request is made."""
    cache = Cache(Clock())
    for ttl in (None, 0, -5):
        cache.put("tools/list", "", page(ttl))
        assert cache.get("tools/list", "") is None


def test_no_result_is_kept_for_more_than_a_day() -> None:
    """Whatever the server says."""
    clock = Clock()
    cache = Cache(clock)
    cache.put("tools/list", "", page(10**15))
    clock.now = 86_400.0
    assert cache.get("tools/list", "") is None


def test_subjects_are_apart() -> None:
    """Another page is another result."""
    cache = Cache(Clock())
    cache.put("tools/list", "a", page(1_000))
    assert cache.get("tools/list", "b") is None


def test_a_change_clears_its_kind() -> None:
    """All pages of a list go, or one subject only."""
    cache = Cache(Clock())
    for method, subject in (("tools/list", ""), ("tools/list", "2"), ("resources/read", "a"), ("resources/read", "b")):
        cache.put(method, subject, page(1_000))
    cache.drop("tools/list")
    cache.drop("resources/read", subject="a")
    assert cache.get("tools/list", "") is None
    assert cache.get("tools/list", "2") is None
    assert cache.get("resources/read", "a") is None
    assert cache.get("resources/read", "b") is not None


def test_the_oldest_makes_room() -> None:
    """A server with many resources does not fill the memory."""
    cache = Cache(Clock())
    for number in range(MAX_ENTRIES + 1):
        cache.put("resources/read", str(number), page(1_000))
    assert cache.get("resources/read", "0") is None
    assert cache.get("resources/read", "1") is not None
