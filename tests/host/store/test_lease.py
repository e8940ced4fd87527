"""Whose mark has stood still for a lease."""

from __future__ import annotations

from antiphon.host.store.lease import BEATS, LEASE, Watch

BEAT = LEASE / BEATS


def test_a_mark_that_stands_still_for_a_lease_is_silent():
    """Not before, and not at the first sight of it, however old it looks."""
    watch = Watch(LEASE)
    looks = [watch.silent({"a": -1e9}, BEAT * look) for look in range(BEATS + 1)]
    assert looks == [frozenset()] * BEATS + [{"a"}]


def test_a_mark_that_moves_begins_anew():
    """Forwards or backwards: the clock of the other may be set."""
    watch = Watch(LEASE)
    for look in range(BEATS):
        watch.silent({"a": 5.0, "b": 5.0}, BEAT * look)
    assert watch.silent({"a": 5.0, "b": 4.0}, BEAT * BEATS) == {"a"}
    assert watch.silent({"a": 5.0, "b": 4.0}, BEAT * BEATS * 2 - BEAT) == {"a"}


def test_the_time_in_which_the_one_that_looks_stood_still_does_not_count():
    """Both may have been stopped together, and this one be the first to wake."""
    watch = Watch(LEASE)
    watch.silent({"a": 1.0}, 0.0)
    assert watch.silent({"a": 1.0}, 3600.0) == frozenset()


def test_who_is_not_there_any_more_is_forgotten():
    """A name that comes back is new."""
    watch = Watch(LEASE)
    for look in range(BEATS):
        watch.silent({"a": 1.0}, BEAT * look)
    assert watch.silent({}, BEAT * BEATS) == frozenset()
    assert watch.silent({"a": 1.0}, BEAT * (BEATS + 1)) == frozenset()
