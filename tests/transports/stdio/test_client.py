"""The stdio client: frames from a child process, its last words, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from antiphon.channel import Frame, Oversized
from antiphon.errors import ConfigError
from antiphon.transports.stdio import client as stdio_client
from antiphon.transports.stdio.client import StdioClientChannel
from antiphon.transports.stdio.reaper import GUARDIAN
from tests.support.network import until

ECHO = "for line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()"


def spawn(code, **options):
    """Start a Python child that has sys, os, and signal."""
    program = "import os, signal, sys\n" + textwrap.dedent(code)
    return StdioClientChannel.spawn([sys.executable, "-ISc", program], **options)


async def receive(channel, count):
    """Receive as many frames."""
    frames = []
    while len(frames) < count:
        some = await channel.receive()
        assert some, channel.closed_error()
        frames += some
    return frames


async def rest(channel):
    """Receive to the end."""
    frames = []
    while some := await channel.receive():
        frames += some
    return frames


def assert_gone(channel):
    """See that the child is reaped, and that its group is empty."""
    assert channel.returncode is not None
    with pytest.raises(ChildProcessError):
        os.waitpid(channel.pid, os.WNOHANG)
    with pytest.raises(ProcessLookupError):
        os.killpg(channel.pid, 0)


@pytest.fixture
def fifo(tmp_path):
    """Make a named pipe, of which a process holds the writing end for as long as it lives."""
    os.mkfifo(tmp_path / "fifo")
    return str(tmp_path / "fifo")


async def test_frames_of_every_size_come_back():
    """From the shortest to the limit, while we send and receive at once."""
    channel = await spawn(ECHO)
    frames = [b'"' + b"x" * (size - 2) + b'"' for size in (3, 65_535, 65_536, 262_144, 16 << 20)]
    frames = [b"[" + frame[1:-1] + b"]" for frame in frames]

    async def send():
        for frame in frames:
            room = channel.send(Frame(frame))
            if room is not None:
                await room

    got, _ = await asyncio.gather(receive(channel, len(frames)), send())
    assert got == frames
    await channel.close()
    assert channel.returncode == 0
    assert_gone(channel)


async def test_an_oversized_line_does_not_hide_the_next():
    """It is drained and reported in its place."""
    channel = await spawn("print('{' + 'x' * 99_999); print('[1]')", max_frame=1000)
    assert await rest(channel) == [Oversized(100_000), b"[1]"]
    await channel.close()


async def test_noise_is_dropped_counted_and_kept_for_diagnosis():
    """Banners and logs on stdout do no harm."""
    channel = await spawn(r"print('Listening ...\n\n{}\n' + 'n' * 999 + '\n [1]\ntrue')")
    assert await rest(channel) == [b"{}", b"[1]"]
    assert channel.noise == 3
    assert list(channel.noise_tail) == ["Listening ...", "n" * 200, "true"]
    await channel.close()


async def test_only_the_last_noise_is_kept():
    """Its memory is bounded."""
    channel = await spawn("[print('noise', n) for n in range(10_000)]")
    assert await rest(channel) == []
    assert (channel.noise, channel.noise_tail[-1], len(channel.noise_tail)) == (10_000, "noise 9999", 8)
    await channel.close()


async def test_a_child_that_dies_leaves_its_last_words():
    """What had arrived is received; then the end, with exit code and stderr; nobody had to close."""
    channel = await spawn("print('{}', flush=True); sys.stderr.write('Traceback\\n  boom\\n'); sys.exit(7)")
    assert await rest(channel) == [b"{}"]
    error = channel.closed_error()
    assert (error.exit_code, error.stderr) == (7, "Traceback\n  boom")
    assert "has ended (exit code 7)" in str(error)
    assert channel.send(Frame(b"{}")) is None
    await channel.close()
    assert (channel.closed_error().exit_code, channel.closed_error().stderr) == (7, "Traceback\n  boom")
    assert_gone(channel)


async def test_a_child_killed_by_a_signal_is_reported():
    """Its exit code is the negative number of the signal."""
    channel = await spawn("os.kill(os.getpid(), signal.SIGKILL)")
    assert await rest(channel) == []
    assert channel.closed_error().exit_code == -signal.SIGKILL
    await channel.close()


@pytest.mark.parametrize(("closed", "word"), [(0, "input"), (1, "output")])
async def test_a_child_that_closes_a_stream_has_ended_for_us(monkeypatch, closed, word):
    """Though it runs on: we cannot talk to it any more."""
    monkeypatch.setattr(stdio_client, "LAST_WORDS", 0.02)
    channel = await spawn(f"print('[]', flush=True); os.close({closed}); signal.pause()", grace=0.02)
    assert await rest(channel) == [b"[]"]
    assert f"closed its {word}" in str(channel.closed_error())
    await channel.close()
    assert_gone(channel)


async def test_a_grandchild_that_holds_the_streams_does_not_hold_us(monkeypatch, fifo):
    """The death of the child is the end, though its output stays open; the grandchild does not live on."""
    monkeypatch.setattr(stdio_client, "LAST_WORDS", 0.02)
    channel = await spawn(
        f"""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            held = open({fifo!r}, 'w')
            print('[]', flush=True)
            signal.pause()
        os.read(0, 9)
        """,
        grace=0.2,
    )
    lifeline = await asyncio.to_thread(open, fifo, "rb")
    assert await receive(channel, 1) == [b"[]"]
    channel.send(Frame(b"go"))
    assert await rest(channel) == []
    assert "has ended" in str(channel.closed_error())
    await channel.close()
    with lifeline:
        assert await asyncio.to_thread(lifeline.read) == b""


LEAVES = """
import subprocess, sys
quiet = subprocess.DEVNULL
left = subprocess.Popen(["sleep", "600"], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session="away" in sys.argv)
print("{}", left.pid, flush=True)
sys.stdin.read()
"""


def shorten_after_exit(child):
    """Give a child as long as it needs for its end, and little to what it leaves behind."""
    report = child.on_exit

    def report_and_shorten():
        child._grace = 0.5
        report()

    child.on_exit = report_and_shorten


@pytest.mark.parametrize("where", ["in its group", "away"])
async def test_what_a_child_leaves_behind_is_found_and_ended(where: str):
    """It is listed though the child itself ends in time, also where it has left the group."""
    with GUARDIAN.held():
        channel = await StdioClientChannel.spawn([sys.executable, "-ISc", LEAVES, where], grace=60.0)
        await channel.receive()
        shorten_after_exit(channel._child)
        # The mark of one that has just been started may not be readable yet.
        await until(lambda: len(channel.list_processes()) == 2)
        assert await channel.close_and_look() == ["sleep 600"]
        assert channel.list_processes() == []
    assert channel.returncode == 0


async def test_a_child_that_leaves_nothing_behind_is_closed_at_once():
    """What it has started may end a moment after it."""
    code = "import subprocess, sys; subprocess.Popen(['sleep', '0.2']); sys.stdin.read()"
    channel = await StdioClientChannel.spawn([sys.executable, "-ISc", code], grace=30.0)
    assert await channel.close_and_look() == []
    assert channel.returncode == 0
    channel = await StdioClientChannel.spawn([sys.executable, "-ISc", "pass"], grace=30.0)
    while await channel.receive():
        pass
    assert await channel.close_and_look() == []


async def test_a_child_that_does_not_end_has_left_nothing(patient_after):
    """It is terminated as ever."""
    code = "import time; print('{}', flush=True); time.sleep(600)"
    channel = await StdioClientChannel.spawn([sys.executable, "-ISc", code], grace=0.2)
    await channel.receive()
    patient_after(channel._child, signal.SIGTERM)
    assert await channel.close_and_look() == []
    assert channel.returncode == -signal.SIGTERM


async def test_a_child_that_ignores_everything_is_killed(patient_after):
    """Neither the end of input nor SIGTERM ends it; the ladder does."""
    channel = await spawn(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('[]', flush=True)\nwhile True: signal.pause()", grace=0.05
    )
    patient_after(channel._child, signal.SIGKILL)
    await receive(channel, 1)
    await channel.close()
    assert channel.returncode == -signal.SIGKILL
    assert_gone(channel)


async def test_a_child_that_never_reads_makes_us_wait_and_does_not_hold_us(patient_after):
    """Senders are asked to wait; closing frees them, and drops what was not read."""
    channel = await spawn("print('[]', flush=True); signal.pause()", grace=0.05)
    patient_after(channel._child, signal.SIGTERM)
    await receive(channel, 1)
    while (room := channel.send(Frame(b"[" + b"1" * 9999 + b"]"))) is None:
        pass
    waiting = asyncio.ensure_future(room)
    await channel.close()
    await waiting
    assert channel.returncode == -signal.SIGTERM
    assert_gone(channel)


async def test_a_child_that_writes_much_at_its_end_can_end():
    """While it is closed its output is read on, and dropped, though nobody receives."""
    channel = await spawn("sys.stdin.read()\nfor n in range(400): print('[' + '1' * 9999 + ']')\nsys.exit(5)")
    await channel.close()
    assert channel.returncode == 5
    assert await channel.receive() == []
    assert "closed on this side" in str(channel.closed_error())


async def test_a_flood_is_held_back_until_it_is_received():
    """Nobody receives: the child is stopped by its full pipe; then all of it comes."""
    channel = await spawn("for n in range(3000): print('[' + '1' * 9999 + ']')")
    paused = asyncio.Event()
    inbox = channel._reader.inbox
    inbox._pause = lambda: (channel._reader._pause(), paused.set())
    await paused.wait()
    assert inbox._held < 4 << 20
    assert channel.returncode is None
    assert len(await rest(channel)) == 3000
    await channel.close()


async def test_a_cancelled_receive_loses_nothing():
    """The frame that arrives later comes to the next one."""
    channel = await spawn(ECHO)
    receiving = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)
    receiving.cancel()
    await asyncio.wait([receiving])
    channel.send(Frame(b"[1]"))
    assert await channel.receive() == [b"[1]"]
    await channel.close()


async def test_close_may_come_from_any_task_and_more_than_once():
    """All of them wait until it is done; a receiver is woken."""
    channel = await spawn(ECHO)
    receiving = asyncio.create_task(channel.receive())
    await asyncio.gather(*(asyncio.create_task(channel.close()) for _ in range(3)))
    await channel.close()
    assert await receiving == []
    assert_gone(channel)


async def test_cancelling_one_who_closes_does_not_stop_the_closing():
    """It goes on by itself; another can wait for it."""
    channel = await spawn("signal.pause()", grace=0.05)
    closing = asyncio.create_task(channel.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    assert closing.cancelled()
    await channel.close()
    assert_gone(channel)


@pytest.mark.parametrize("passes", [0, 1, 5])
async def test_the_end_of_the_loop_leaves_nothing_behind(passes):
    """When every task is cancelled, the closing one as well, the child is killed and reaped at once."""
    channel = await spawn("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()", grace=60)
    closing = asyncio.create_task(channel.close())
    await asyncio.sleep(0)
    for _ in range(passes):
        await asyncio.sleep(0)
    channel._closing.cancel()
    closing.cancel()
    await asyncio.wait([closing, channel._closing])
    await asyncio.sleep(0)
    assert_gone(channel)
    await asyncio.wait_for(channel._all_signs.wait(), 60)


async def test_cancelling_spawn_leaves_nothing_behind(monkeypatch):
    """The child that was started already is ended."""
    started, held_up = [], asyncio.Event()
    reading = stdio_client.connect_reader

    async def slow(file, protocol):
        started.append(file)
        if len(started) == 2:
            held_up.set()
            await asyncio.Event().wait()
        await reading(file, protocol)

    monkeypatch.setattr(stdio_client, "connect_reader", slow)
    channels = []
    let_go = StdioClientChannel._let_go
    monkeypatch.setattr(StdioClientChannel, "_let_go", lambda self: (channels.append(self), let_go(self)))
    spawning = asyncio.create_task(spawn("signal.pause()"))
    await held_up.wait()
    spawning.cancel()
    await asyncio.wait([spawning])
    started[1].close()
    assert_gone(channels[0])


def open_descriptors():
    """Count what this process has open."""
    return len(list(Path("/dev/fd").iterdir()))


async def test_nothing_is_left_open():
    """No descriptor stays, however it ended."""
    counts = []
    for code in [ECHO, "sys.exit(1)", "signal.pause()", ECHO]:
        channel = await spawn(code, grace=0.05)
        await channel.close()
        counts.append(open_descriptors())
    assert len(set(counts)) == 1


async def test_the_lines_of_stderr_are_passed_on_and_the_tail_is_kept():
    """Both at once; the tail is bounded."""
    lines = []
    code = "for n in range(1000): print('line', n, file=sys.stderr)"
    channel = await spawn(code, errlog=lines.append, stderr_tail=100)
    await rest(channel)
    assert lines == [f"line {n}" for n in range(1000)]
    assert channel.stderr.endswith("line 998\nline 999")
    assert len(channel.closed_error().stderr) <= 100
    await channel.close()


async def test_the_child_gets_a_safe_environment_and_a_working_directory(monkeypatch, tmp_path):
    """Our secrets are not among what it sees, unless it is to inherit everything."""
    monkeypatch.setenv("ANTIPHON_TEST_SECRET", "s")
    code = "print([os.environ.get('ANTIPHON_TEST_SECRET', ''), os.environ.get('GIVEN', ''), os.getcwd()])"
    seen = []
    for inherit in (False, True):
        channel = await spawn(code, env={"GIVEN": "g"}, inherit_env=inherit, cwd=tmp_path)
        seen += await rest(channel)
        await channel.close()
    where = str(tmp_path.resolve())
    assert seen == [f"['{secret}', 'g', '{where}']".encode() for secret in ("", "s")]


async def test_a_program_that_does_not_exist_is_named():
    """The error comes from spawn, and says which."""
    with pytest.raises(ConfigError, match="'no-such-program'"):
        await StdioClientChannel.spawn(["no-such-program"])


def test_our_own_death_ends_the_child(fifo):
    """It sees the end of its input, though nobody closed anything."""
    child = "import sys; held = open(sys.argv[1], 'w'); print('[]', flush=True); sys.stdin.read(); held.write('bye')"
    client = f"""
import asyncio, os, sys
from antiphon.transports.stdio.client import StdioClientChannel
from antiphon.transports.stdio.reaper import GUARDIAN
from tests.support.network import until
async def main():
    channel = await StdioClientChannel.spawn([sys.executable, "-ISc", {child!r}, {fifo!r}])
    await channel.receive()
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", client]) as process, Path(fifo).open("rb") as lifeline:
        assert lifeline.read() == b"bye"
    assert process.returncode == -signal.SIGKILL


async def test_a_server_is_called_by_its_file(tmp_path: Path):
    """Several of them are run by one interpreter, whose path would name none."""
    file = tmp_path / "shop.py"
    file.write_text("raise SystemExit(3)")
    channel = await StdioClientChannel.spawn([sys.executable, str(file)])
    assert await rest(channel) == []
    assert str(channel.closed_error()).startswith(f"The server {str(file)!r} has ended")
    await channel.close()
