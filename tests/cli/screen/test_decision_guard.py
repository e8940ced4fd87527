"""When a decision may be made."""

from __future__ import annotations

from antiphon.cli.screen.decision_guard import DEAD, Arming


def test_what_has_just_appeared_is_dead_for_400_ms():
    """From when it is on the screen, to the millisecond."""
    arming = Arming()
    arming.shown(10.0)
    assert DEAD == 0.4
    assert not arming.armed(10.0)
    assert not arming.armed(10.399)
    assert arming.armed(10.41)


def test_nothing_is_armed_before_it_is_shown():
    """Nor while the next one is about to be; a key counts by when it was pressed."""
    arming = Arming()
    assert not arming.armed(1e9)
    arming.shown(10.0)
    arming.hide()
    assert not arming.armed(1e9)
    arming.shown(20.0)
    assert not arming.armed(15.0)


def test_a_key_is_meant_for_what_was_seen():
    """Pressed while something else was shown, it decides nothing, whenever it is handled."""
    arming = Arming()
    assert not arming.seen(1e9)
    arming.shown(10.0)
    assert arming.seen(10.0)
    assert not arming.seen(9.99)
