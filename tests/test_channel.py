"""The seam between transports and the engine: the values that cross it."""

from __future__ import annotations

from antiphon.channel import MAX_FRAME, Frame, Oversized


def test_a_frame_belongs_nowhere_unless_said():
    """A frame of its own accord is tied to no request and ends none."""
    assert Frame(b"{}") == (b"{}", None, False)


def test_the_limit_is_sixteen_mebibytes():
    """The design names the number; transports and tests read it here."""
    assert MAX_FRAME == 2**24


def test_an_oversized_frame_keeps_only_its_size():
    """The bytes are gone; how many there were is kept for the answer."""
    assert Oversized(MAX_FRAME + 1).size == 16_777_217
