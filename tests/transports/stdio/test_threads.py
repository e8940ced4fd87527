"""Reading and writing by threads: for what the event loop cannot wait for."""

from __future__ import annotations

import asyncio
import os
import socket
import threading

import pytest

from antiphon.transports.stdio.byte_stream import FrameReader
from antiphon.transports.stdio.threads import connect_reader
from tests.transports.files import opened, read_all, write_all


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


MANY = [b'{"n":%d}' % n for n in range(5000)]


async def test_frames_pass_through_a_pipe():
    """The event loop reads and writes it."""
    out, into = os.pipe()
    frames, _ = await asyncio.gather(read_all(opened(out, "rb")), write_all(opened(into, "wb"), MANY))
    assert frames == MANY
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(into)


async def test_frames_pass_through_sockets():
    """Some hosts give sockets where others give pipes."""
    ours, theirs = socket.socketpair()
    writing = write_all(opened(ours.detach(), "wb"), MANY)
    frames, _ = await asyncio.gather(read_all(opened(theirs.detach(), "rb")), writing)
    assert frames == MANY


async def test_a_thread_writes_what_the_loop_reads():
    """Both ways speak the same, back-pressure included."""
    out, into = os.pipe()
    frames, _ = await asyncio.gather(read_all(opened(out, "rb")), write_all(opened(into, "wb"), MANY, threaded=True))
    assert frames == MANY


async def test_frames_pass_through_a_regular_file(tmp_path):
    """The event loop cannot wait for one: threads do; the last line may lack its newline."""
    path = tmp_path / "script.jsonl"
    await write_all(path.open("wb", buffering=0), MANY)
    path.write_bytes(path.read_bytes()[:-1])
    assert await read_all(path.open("rb", buffering=0)) == MANY


async def test_the_null_device_is_empty_and_takes_everything():
    """It is neither pipe nor file, and the event loop refuses it."""
    null = opened(os.open(os.devnull, os.O_RDWR), "r+b")
    assert await read_all(null) == []
    await write_all(opened(os.open(os.devnull, os.O_RDWR), "r+b"), MANY)
