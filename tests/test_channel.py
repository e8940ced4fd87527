"""The seam: what a frame says when nothing more is said."""

from __future__ import annotations

from antiphon.channel import MAX_FRAME, Frame, Oversized


def test_a_frame_belongs_nowhere_unless_said() -> None:
    """Only its bytes are required."""
    frame = Frame(b"{}")
    assert (frame.data, frame.related_to, frame.final, frame.code) == (b"{}", None, False, None)


def test_a_reply_names_its_request() -> None:
    """So that a transport with a stream for each request can route it, and choose a status."""
    frame = Frame(b"{}", 7, True, -32601)
    assert (frame.related_to, frame.final, frame.code) == (7, True, -32601)


def test_the_limit_is_sixteen_mebibytes() -> None:
    """Transports and tests read the number here."""
    assert MAX_FRAME == 2**24


def test_an_oversized_frame_keeps_only_its_size() -> None:
    """The bytes are gone; how many there were is kept for the answer."""
    assert Oversized(MAX_FRAME + 1).size == 16_777_217
