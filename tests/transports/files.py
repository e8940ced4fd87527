"""Files as the transports take them, read and written to their end."""

from __future__ import annotations

import asyncio
import os

from antiphon.channel import Frame
from antiphon.transports.stdio.threads import FrameReader, FrameWriter, connect_reader, connect_writer


def opened(fd, mode):
    """Make an unbuffered file of a descriptor."""
    return os.fdopen(fd, mode, buffering=0)


async def read_all(file):
    """Read frames to the end, and wait until the file is let go."""
    lost = asyncio.Event()
    reader = FrameReader(1 << 20, lambda _: (reader.inbox.end(), lost.set()))
    await connect_reader(file, reader)
    frames = []
    while some := await reader.inbox.take():
        frames += some
    await lost.wait()
    return frames


def silent():
    """Make the reader of a peer that has said nothing."""
    return FrameReader(1 << 20, lambda _: None)


async def write_all(file, frames, *, threaded=False):
    """Write frames, close, and wait until the file is let go."""
    lost = asyncio.Event()
    writer = FrameWriter(lambda _: lost.set(), silent())
    await connect_writer(file, writer, threaded=threaded)
    for frame in frames:
        room = writer.send(Frame(frame))
        if room is not None:
            await room
    writer.close()
    await lost.wait()


def drain(file):
    """Read to the end, and return how much it was."""
    return sum(map(len, iter(lambda: file.read(65536), b"")))
