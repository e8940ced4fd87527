"""Reading and writing by threads: for what the event loop cannot wait for."""

from __future__ import annotations

import asyncio
import os
import threading

from antiphon.transports.stdio.pipes import connect_reader
from antiphon.transports.stdio.reader import FrameReader
from tests.transports.files import opened


async def test_a_terminal_stays_blocking():
    """It is shared with the shell, which would stumble over a non-blocking one."""
    ours, theirs = os.openpty()
    reader = FrameReader(1 << 20, lambda _: reader.inbox.end())
    await connect_reader(opened(os.dup(theirs), "rb"), reader)
    os.write(ours, b'{"typed":1}\n')
    assert await reader.inbox.take() == [b'{"typed":1}']
    assert os.get_blocking(theirs)
    reader.close()
    assert await reader.inbox.take() == []
    os.close(ours)
    os.close(theirs)


async def test_closing_ends_a_thread_that_waits_for_a_terminal():
    """No thread is left sitting in a read, to steal what is typed later."""
    before = set(threading.enumerate())
    ours, theirs = os.openpty()
    reader = FrameReader(1 << 20, lambda _: reader.inbox.end())
    await connect_reader(opened(theirs, "rb"), reader)
    (thread,) = set(threading.enumerate()) - before
    reader.close()
    thread.join(60)
    assert not thread.is_alive()
    os.close(ours)


async def test_a_thread_reads_no_further_than_the_receiver(tmp_path):
    """A large file is not read into memory: reading stops while the receiver is behind."""
    path = tmp_path / "large"
    path.write_bytes(b'{"x":"' + b"x" * 1000 + b'"}\n' + (b'{"y":"' + b"y" * 1000 + b'"}\n') * 8000)
    paused = asyncio.Event()
    reader = FrameReader(1 << 20, lambda _: reader.inbox.end())
    reader.inbox._pause = lambda: (reader._pause(), paused.set())
    file = path.open("rb", buffering=0)
    await connect_reader(file, reader)
    await paused.wait()
    assert os.lseek(file.fileno(), 0, os.SEEK_CUR) < 2 << 20
    total = 0
    while frames := await reader.inbox.take():
        total += len(frames)
    assert total == 8001
