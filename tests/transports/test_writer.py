"""Sending: frames become lines, a slow peer makes senders wait, a lost one ends them."""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest

from antiphon.channel import Frame
from antiphon.transports.pipes import connect_writer
from antiphon.transports.writer import LARGE, FrameWriter
from tests.transports.files import drain, opened, read_all, write_all


async def test_each_frame_is_one_line():
    """Whatever its size, and though it was laid out over several lines."""
    out, into = os.pipe()
    frames = [b"{}", b'{\n"a":1}', b'["' + b"x" * LARGE + b'"]', b"[]"]
    got, _ = await asyncio.gather(read_all(opened(out, "rb")), write_all(opened(into, "wb"), frames))
    assert got == [b"{}", b'{ "a":1}', frames[2], b"[]"]


async def test_frames_sent_after_close_are_dropped():
    """Those sent before are still written."""
    out, into = os.pipe()
    lost = asyncio.Event()
    writer = FrameWriter(lambda _: lost.set())
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
    writer = FrameWriter(lambda _: lost.set())
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
    writer = FrameWriter(lambda _: lost.set())
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
    writer = FrameWriter(lambda _: lost.set())
    await connect_writer(opened(into, "wb"), writer, threaded=threaded)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(into, b"x" * 4096)
    writer.send(Frame(b"never read"))
    writer.close()
    writer.abort()
    await lost.wait()
    os.close(out)
