"""Files of every kind can be read and written; the way differs, what the protocol sees does not."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from tests.transports.files import opened, read_all, write_all

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
