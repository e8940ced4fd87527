"""Receiving: what is read becomes frames, and the end is told once."""

from __future__ import annotations

import asyncio

from antiphon.channel import Oversized
from antiphon.transports.stdio.reader import FrameReader


class Pipe(asyncio.ReadTransport):
    """Notes what a reader asks of its transport."""

    def __init__(self):
        super().__init__()
        self.asked: list[str] = []

    def pause_reading(self):
        self.asked.append("pause")

    def resume_reading(self):
        self.asked.append("resume")

    def is_closing(self):
        return "close" in self.asked

    def close(self):
        self.asked.append("close")


def connected(max_frame=1 << 20, sift=None):
    """Make a reader on a pipe."""
    pipe, ends = Pipe(), []
    reader = FrameReader(max_frame, ends.append, sift)
    reader.connection_made(pipe)
    return reader, pipe, ends


async def test_the_lines_of_one_read_are_one_batch():
    """However many they are; what is unfinished waits for the rest."""
    reader, _, _ = connected()
    reader.data_received(b"1\n2\n3")
    assert await reader.inbox.take() == [b"1", b"2"]
    reader.data_received(b"4\n")
    assert await reader.inbox.take() == [b"34"]


async def test_a_last_line_without_a_newline_is_a_frame():
    """It is handed over before the end is reported, with the error if there was one."""
    reader, _, ends = connected()
    reader.data_received(b"{}")
    error = OSError("broken")
    reader.connection_lost(error)
    reader.inbox.end()
    assert ends == [error]
    assert [await reader.inbox.take(), await reader.inbox.take()] == [[b"{}"], []]


async def test_oversized_lines_are_reported_in_their_place():
    """Between the frames before and after."""
    reader, _, _ = connected(max_frame=3)
    reader.data_received(b"1\n12345\n2\n")
    assert await reader.inbox.take() == [b"1", Oversized(5), b"2"]


async def test_what_is_sifted_out_is_never_seen():
    """A batch of which nothing is left wakes nobody."""
    reader, _, _ = connected(sift=lambda frames: [frame for frame in frames if frame != b"noise"])
    reader.data_received(b"noise\n")
    assert not reader.inbox._frames
    reader.data_received(b"noise\n{}\n")
    assert await reader.inbox.take() == [b"{}"]


async def test_reading_pauses_while_too_much_waits():
    """And goes on once it is taken."""
    reader, pipe, _ = connected(max_frame=4 << 20)
    reader.data_received(b"x" * (2 << 20) + b"\n")
    assert pipe.asked == ["pause"]
    await reader.inbox.take()
    assert pipe.asked == ["pause", "resume"]


async def test_a_closed_transport_is_left_alone():
    """Event loops refuse to pause what is closing."""
    reader, pipe, _ = connected(max_frame=4 << 20)
    reader.close()
    reader.data_received(b"x" * (2 << 20) + b"\n")
    await reader.inbox.take()
    assert pipe.asked == ["close"]
