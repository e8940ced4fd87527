"""Sending: frames become lines, a slow peer makes senders wait, a lost one ends them."""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest

from antiphon.channel import Frame
from antiphon.transports.stdio.threads import connect_writer
from antiphon.transports.stdio.writer import GATHERED, LARGE, FrameWriter
from tests.transports.files import drain, opened, read_all, silent, write_all


async def test_each_frame_is_one_line():
    """Whatever its size, and though it was laid out over several lines."""
    out, into = os.pipe()
    frames = [b"{}", b'{\n"a":1}', b'["' + b"x" * LARGE + b'"]', b"[]"]
    got, _ = await asyncio.gather(read_all(opened(out, "rb")), write_all(opened(into, "wb"), frames))
    assert got == [b"{}", b'{ "a":1}', frames[2], b"[]"]


class Wire(asyncio.WriteTransport):
    """What lies under a writer."""

    def __init__(self, writer):
        super().__init__()
        self.written = []
        writer.connection_made(self)

    def set_write_buffer_limits(self, high=None, low=None):
        """Have none."""

    def is_closing(self):
        """Stay open."""
        return False

    def write(self, data):
        """Keep what is written."""
        self.written.append(bytes(data))

    def close(self):
        """Stay open."""

    abort = close


def writing(received):
    """Make a writer whose peer has sent this; return what lies under it, and the reader, too."""
    reader = silent()
    reader.data_received(received)
    writer = FrameWriter(lambda _: None, reader)
    return writer, Wire(writer), reader


async def test_where_one_frame_came_in_each_is_written_at_once():
    """The peer waits for it."""
    writer, wire, _ = writing(b"{}\n")
    writer.send(Frame(b"1"))
    writer.send(Frame(b"2"))
    assert wire.written == [b"1\n", b"2\n"]


async def test_where_several_came_in_those_of_one_pass_are_one_write():
    """Also once less came in, so that the order stays."""
    writer, wire, reader = writing(b"{}\n{}\n")
    writer.send(Frame(b"1"))
    reader.data_received(b"{}\n")
    writer.send(Frame(b"2"))
    assert wire.written == []
    await asyncio.sleep(0)
    writer.send(Frame(b"3"))
    assert wire.written == [b"1\n2\n", b"3\n"]


async def test_a_peer_need_not_wait_for_many():
    """It can work on the first of them meanwhile."""
    writer, wire, _ = writing(b"{}\n{}\n")
    for _ in range(GATHERED + 1):
        writer.send(Frame(b"1"))
    assert wire.written == [b"1\n" * GATHERED]
    await asyncio.sleep(0)
    assert wire.written[1:] == [b"1\n"]


async def test_not_more_is_gathered_than_a_pipe_holds():
    """And nothing large, which would be copied."""
    writer, wire, _ = writing(b"{}\n{}\n")
    half, large = b"x" * (LARGE // 2), b"y" * LARGE
    for data in (half, half, b"1", large, b"2"):
        writer.send(Frame(data))
    assert wire.written == [half + b"\n" + half + b"\n", b"1\n", large, b"\n"]
    await asyncio.sleep(0)
    assert wire.written[4:] == [b"2\n"]


async def test_what_is_gathered_is_written_before_the_end_and_dropped_when_aborted():
    """As what waits for the peer is."""
    for end, written in ((FrameWriter.close, [b"1\n"]), (FrameWriter.abort, [])):
        writer, wire, _ = writing(b"{}\n{}\n")
        writer.send(Frame(b"1"))
        end(writer)
        await asyncio.sleep(0)
        assert wire.written == written


async def test_frames_sent_after_close_are_dropped():
    """Those sent before are still written."""
    out, into = os.pipe()
    lost = asyncio.Event()
    writer = FrameWriter(lambda _: lost.set(), silent())
    await connect_writer(opened(into, "wb"), writer)
    writer.send(Frame(b"before"))
    writer.close()
    assert writer.send(Frame(b"after")) is None
    await lost.wait()
    assert os.read(out, 100) == b"before\n"
    os.close(out)


@pytest.mark.parametrize("threaded", [False, True])
async def test_a_slow_reader_makes_the_writer_wait(threaded):
    """Once enough is queued ``send`` gives an awaitable; it ends when the reader has read."""
    out, into = os.pipe()
    lost = asyncio.Event()
    writer = FrameWriter(lambda _: lost.set(), silent())
    await connect_writer(opened(into, "wb"), writer, threaded=threaded)
    sent = 0
    while (room := writer.send(Frame(b"x" * 9999))) is None:
        sent += 1
    assert sent < 100
    with opened(out, "rb") as reading:
        read = asyncio.get_running_loop().run_in_executor(None, drain, reading)
        await room
        writer.close()
        await lost.wait()
        assert await read == (sent + 1) * 10_000


@pytest.mark.parametrize("threaded", [False, True])
async def test_a_reader_that_goes_away_ends_the_writer(threaded):
    """A sender that waited goes on, later frames are dropped, and nothing is raised."""
    out, into = os.pipe()
    lost = asyncio.Event()
    writer = FrameWriter(lambda _: lost.set(), silent())
    await connect_writer(opened(into, "wb"), writer, threaded=threaded)
    while (room := writer.send(Frame(b"x" * 9999))) is None:
        pass
    os.close(out)
    await room
    await lost.wait()
    assert writer.send(Frame(b"nobody")) is None


@pytest.mark.parametrize("threaded", [False, True])
async def test_aborting_drops_what_nobody_reads(threaded):
    """The end does not wait for a peer that never reads."""
    out, into = os.pipe()
    os.set_blocking(into, False)
    lost = asyncio.Event()
    writer = FrameWriter(lambda _: lost.set(), silent())
    await connect_writer(opened(into, "wb"), writer, threaded=threaded)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(into, b"x" * 4096)
    writer.send(Frame(b"never read"))
    writer.close()
    writer.abort()
    await lost.wait()
    with opened(out, "rb") as reading:
        assert set(iter(lambda: reading.read(4096), b"")) == {b"x" * 4096}
