"""The fuzz runs are only as good as the frames they send."""

from __future__ import annotations

import json

from tests.fuzz.mutation import Mutator, encoded

GOOD = [
    encoded(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hi"}}}
    ),
    encoded({"jsonrpc": "2.0", "id": "b", "result": {"content": [{"type": "text", "text": "hi"}]}}),
]


def is_json(data: bytes) -> bool:
    """Tell whether a frame is JSON."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def test_the_same_seed_makes_the_same_frames():
    """A failure is repeated from its seed."""
    assert list(Mutator(GOOD, 7).frames(300)) == list(Mutator(GOOD, 7).frames(300))


def test_another_seed_makes_other_frames():
    """Runs with different seeds explore different frames."""
    assert list(Mutator(GOOD, 7).frames(300)) != list(Mutator(GOOD, 8).frames(300))


def test_frames_are_of_many_kinds():
    """Good frames, JSON that is no message, and what is no JSON all occur, and few frames repeat."""
    frames = list(Mutator(GOOD, 1).frames(3000))
    assert 300 < sum(frame in GOOD for frame in frames) < 1200
    assert 600 < sum(not is_json(frame) for frame in frames) < 2000
    assert len(set(frames)) > 1500


def test_no_frame_holds_a_line_break():
    """On stdio a frame is a line."""
    assert not any(b"\n" in frame for frame in Mutator(GOOD, 3).frames(1000))
