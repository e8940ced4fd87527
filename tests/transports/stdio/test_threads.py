"""Reading and writing by threads: for what the event loop cannot wait for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.channel import Frame, Oversized
from antiphon.transports.stdio.threads import (
    GATHERED,
    LARGE,
    FrameReader,
    FrameWriter,
    LineSplitter,
    connect_reader,
    connect_writer,
    one_line,
)
from tests.transports.files import drain, opened, read_all, silent, write_all


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


@pytest.mark.parametrize("read", [False, True])
async def test_a_pipe_that_is_being_closed_can_be_aborted(read: bool):
    """As after a start that is cancelled: its end is reported once, also where nobody reads what is left to write."""
    out, into = os.pipe()
    lost: list[Exception | None] = []
    ended = asyncio.Event()
    failed: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
    writer = FrameWriter(lambda error: (lost.append(error), ended.set()), silent())
    await connect_writer(opened(into, "wb"), writer)
    writer.send(Frame(b"x" if read else b"x" * 1_000_000))
    writer.close()
    writer.abort()
    await ended.wait()
    os.close(out)
    await asyncio.sleep(0)
    assert (lost, failed) == ([None], [])


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
