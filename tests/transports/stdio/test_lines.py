"""Framing: lines come out whole, whatever the pieces they came in."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.channel import Oversized
from antiphon.transports.stdio.lines import LineSplitter, one_line

LIMIT = 12


def fed(pieces, limit=LIMIT):
    """Feed pieces and return all frames."""
    splitter = LineSplitter(limit)
    return [frame for piece in pieces for frame in splitter.feed(piece)]


def expected(stream, limit=LIMIT):
    """Say what a stream consists of, in the plainest way."""
    lines = stream.split(b"\n")[:-1]
    frames = [Oversized(len(line)) if len(line) > limit else line.strip() for line in lines]
    return [frame for frame in frames if frame]


@st.composite
def cut_streams(draw):
    """Draw a stream of short lines and a way to cut it."""
    stream = draw(
        st.lists(st.sampled_from([b"\n", b"\r\n", b" ", b"{}", b"[1]", b"x" * 11]), max_size=40).map(b"".join)
    )
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    bounds = [0, *cuts, len(stream)]
    return stream, [stream[start:end] for start, end in pairwise(bounds)]


@given(cut_streams())
def test_frames_do_not_depend_on_how_the_stream_is_cut(case):
    """Any chunking gives the lines of the whole stream."""
    stream, pieces = case
    assert fed(pieces) == expected(stream)


@given(st.lists(st.binary(min_size=1, max_size=LIMIT).map(lambda data: data.replace(b"\n", b"x")), max_size=20))
def test_every_line_within_the_limit_comes_out(lines):
    """One byte at a time, nothing is lost."""
    stream = b"".join(line + b"\n" for line in lines)
    assert fed(stream[i : i + 1] for i in range(len(stream))) == [line.strip() for line in lines if line.strip()]


def test_blank_lines_and_carriage_returns_are_dropped():
    """CRLF is tolerated, blank lines are ignored."""
    assert fed([b'{"a":1}\r\n\r\n \n\n[]\r', b"\n"]) == [b'{"a":1}', b"[]"]


def test_a_line_of_exactly_the_limit_is_a_frame():
    """The limit is the largest size taken."""
    assert fed([b"x" * LIMIT + b"\n"]) == [b"x" * LIMIT]


@pytest.mark.parametrize("pieces", [[b"y" * 13 + b"\n{}\n"], [b"y" * 12, b"y", b"\n{}\n"], [b"y"] * 13 + [b"\n{}\n"]])
def test_a_line_over_the_limit_is_reported_where_it_ended(pieces):
    """What is too long is drained, and the next line is fine."""
    assert fed(pieces) == [Oversized(13), b"{}"]


def test_a_long_line_is_not_held():
    """An endless line takes no memory beyond the limit."""
    splitter = LineSplitter(1024)
    for _ in range(1000):
        splitter.feed(b"z" * 1024)
    assert splitter._held.getbuffer().nbytes == 0
    assert splitter.feed(b"\n") == [Oversized(1024 * 1000)]


def test_a_large_line_takes_linear_time():
    """Twice the pieces take about twice the time, not four times."""

    def cost(size: int) -> float:
        splitter, piece = LineSplitter(1 << 30), b"a" * 256
        start = time.process_time()
        for _ in range(size // len(piece)):
            splitter.feed(piece)
        splitter.feed(b"\n")
        return time.process_time() - start

    # Quadratic time would be 64 times as much for eight times the size.
    assert min(cost(16 << 20) for _ in range(2)) < 24 * max(min(cost(2 << 20) for _ in range(3)), 0.001)


def test_line_breaks_within_a_frame_become_spaces():
    """A frame laid out over several lines is sent as one."""
    assert one_line(b'{\n "a": 1\n}') == b'{  "a": 1 }'
