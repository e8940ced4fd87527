"""A child process and its group: started clearly, ended surely, reaped always."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import sys

import pytest

from antiphon.errors import ConfigError
from antiphon.transports.stdio.client import LONGEST_LINE, Child, StderrTail

HELD = "import sys; sys.stdin.read()"
IGNORES = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"


def child(code, *, grace=5.0):
    """Start a Python child."""
    return Child([sys.executable, "-ISc", code], env=dict(os.environ), cwd=None, grace=grace)


def close_streams(started):
    """Close our ends."""
    for stream in (started.process.stdin, started.process.stdout, started.process.stderr):
        stream.close()


def release(started):
    """Close the streams, and see that the child was reaped and its group is gone."""
    close_streams(started)
    with pytest.raises(ChildProcessError):
        os.waitpid(started.process.pid, os.WNOHANG)
    with pytest.raises(ProcessLookupError):
        os.killpg(started.process.pid, 0)


async def line(started):
    """Read one line of the child's output, off the loop."""
    return await asyncio.to_thread(started.process.stdout.readline)


async def exit_of(started):
    """Wait until the end of a child is reported."""
    exited = asyncio.Event()
    started.on_exit = exited.set
    await exited.wait()
    return started.returncode


async def test_the_exit_is_reported_once_with_its_code():
    """A child that ends by itself is reaped without being asked after."""
    started = child("raise SystemExit(3)")
    assert await exit_of(started) == 3
    await started.end()
    release(started)


async def test_a_child_that_ends_with_its_input_gets_no_signal():
    """The kind way comes first."""
    started = child(HELD)
    started.process.stdin.close()
    await started.end()
    assert started.returncode == 0
    release(started)


async def test_a_child_that_stays_is_terminated(patient_after):
    """SIGTERM is the second step."""
    started = child(HELD, grace=0.02)
    patient_after(started, signal.SIGTERM)
    await started.end()
    assert started.returncode == -signal.SIGTERM
    release(started)


async def test_a_child_that_ignores_that_is_killed(patient_after):
    """SIGKILL is the third."""
    started = child(IGNORES, grace=0.05)
    assert await line(started) == b"ready\n"
    patient_after(started, signal.SIGKILL)
    await started.end()
    assert started.returncode == -signal.SIGKILL
    release(started)


async def test_kill_is_immediate():
    """It leaves nothing behind, also when no loop turns any more."""
    started = child(IGNORES)
    assert await line(started) == b"ready\n"
    started.kill()
    assert started.returncode == -signal.SIGKILL
    started.kill()
    release(started)


async def test_what_a_child_leaves_behind_is_ended_with_it():
    """A grandchild that ignores SIGTERM is killed when its grace is over."""
    started = child(
        f"import subprocess, sys\ngrandchild = subprocess.Popen([sys.executable, '-ISc', {IGNORES!r}], stdout=1)\n"
        "print('started', flush=True); sys.stdin.read(); grandchild.returncode = 0",
        grace=0.5,
    )
    assert {await line(started), await line(started)} == {b"ready\n", b"started\n"}
    started.process.stdin.close()
    await started.end()
    assert started.returncode == 0
    # The grandchild holds this pipe: its end is the grandchild's.
    assert await asyncio.to_thread(started.process.stdout.read) == b""
    close_streams(started)


async def test_without_pidfds_a_thread_watches(monkeypatch, patient_after):
    """Where the system has none the same holds."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    started = child("raise SystemExit(4)")
    assert await exit_of(started) == 4
    stays = child(HELD, grace=0.02)
    patient_after(stays, signal.SIGTERM)
    await stays.end()
    assert stays.returncode == -signal.SIGTERM
    release(started)
    release(stays)


@pytest.mark.parametrize(
    ("command", "cwd", "said"),
    [
        (["no-such-program-here", "x"], None, "'no-such-program-here' cannot be started: there is no such program"),
        (["no-such-program-here x.py"], None, "if 'no-such-program-here' is the program, the rest are its arguments"),
        (["no_such_file.py"], None, "'no_such_file.py' cannot be started: there is no such file"),
        ([sys.executable], "/no/such/place", "there is no such directory"),
        (["/"], None, "'/' cannot be started:"),
        (["bad\0name"], None, "cannot be started: embedded null byte"),
        ([], None, "a command is a list"),
        ("python server.py", None, "a command is a list"),
    ],
)
async def test_what_cannot_be_started_is_named(command, cwd, said):
    """The error says which program, and why."""
    with pytest.raises(ConfigError, match=re.escape(said)):
        Child(command, env={"PATH": "/bin:/usr/bin"}, cwd=cwd, grace=1)


def test_the_last_bytes_are_kept_from_the_start_of_a_line():
    """The tail is bounded however much is written, and begins with a whole line."""
    tail = StderrTail(100, None)
    for number in range(10_000):
        tail.data_received(b"line %d\n" % number)
    lines = tail.text.split("\n")
    assert lines == [f"line {number}" for number in range(10_000 - len(lines), 10_000)]
    assert 80 <= len(tail.text) <= 100
    assert len(tail._tail) <= 200


def test_short_output_is_kept_whole():
    """Nothing is cut below the limit; what is not UTF-8 is replaced."""
    tail = StderrTail(100, None)
    tail.data_received(b"  indented \xff\n")
    assert tail.text == "  indented \N{REPLACEMENT CHARACTER}"


def test_lines_are_passed_on_whole_to_a_callable():
    """However they were cut, also within a character; the last one without its newline, too."""
    lines: list[str] = []
    tail = StderrTail(100, lines.append)
    for piece in (b"caf\xc3", b"\xa9\r\n\n  two\nthr", b"ee"):
        tail.data_received(piece)
    tail.connection_lost(None)
    assert lines == ["café", "", "  two", "three"]


def test_lines_are_written_to_a_file():
    """A text file works like a callable."""
    file = io.StringIO()
    StderrTail(100, file).data_received(b"a\nb\nc")
    assert file.getvalue() == "a\nb\n"


def test_an_endless_line_is_passed_on_in_pieces():
    """Memory stays bounded without a newline."""
    lines: list[str] = []
    tail = StderrTail(10, lines.append)
    for _ in range(10):
        tail.data_received(b"x" * (LONGEST_LINE // 2 + 1))
    assert [len(line) for line in lines] == [LONGEST_LINE + 2] * 5


async def test_a_callable_that_fails_is_told_once_and_left_alone():
    """Its error goes to the loop's handler, and stderr is read on."""
    seen: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    calls: list[str] = []

    def broken(line: str) -> None:
        calls.append(line)
        raise ValueError(line)

    tail = StderrTail(100, broken)
    tail.data_received(b"one\ntwo\n")
    assert calls == ["one"]
    assert [str(context["exception"]) for context in seen] == ["one"]
    assert tail.text == "one\ntwo"
