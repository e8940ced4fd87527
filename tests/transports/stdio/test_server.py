"""The stdio server: the protocol owns stdout, nothing is lost, and every kind of end ends it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap

import pytest

from tests.transports.servers import ECHO, command, run, start

LOOPS = ["asyncio", "uvloop"]
loops = pytest.mark.parametrize("loop", LOOPS)


def main(body: str) -> str:
    """Make the main function of a server."""
    return "async def main():\n" + textwrap.indent(textwrap.dedent(body), "    ")


@loops
def test_frames_of_every_size_come_back(loop):
    """From the shortest to the limit; one beyond is reported, and the next is fine."""
    sizes = [2, 3, 4095, 65_536, 262_144, 16 << 20]
    frames = [b'"' + b"x" * (size - 2) + b'"' for size in sizes]
    sent = b"\n".join([*frames, b"y" * (17 << 20), b"[]\r\n\n", b'{"last":1}'])
    answers, stderr = run(loop, ECHO, sent)
    assert answers[1:-3] == frames
    assert (answers[0], *answers[-3:]) == (b'{"ready":1}', b'{"oversized":17825792}', b"[]", b'{"last":1}')
    assert stderr == "The client closed standard input\n"


@loops
def test_stray_output_goes_to_stderr(loop):
    """Printed, written to the descriptor, or by a child process: none of it reaches the client."""
    body = """
    print("before, not flushed")
    channel = await StdioServerChannel.open()
    print("printed")
    print("through the old object", file=sys.__stdout__)
    os.write(1, b"descriptor\\n")
    subprocess.run(["echo", "child"], check=True)
    channel.send(Frame(b"{}"))
    await channel.close()
    """
    answers, stderr = run(loop, main(body))
    assert answers == [b"before, not flushed", b"{}"]
    assert sorted(stderr.split("\n")) == ["", "child", "descriptor", "printed", "through the old object"]


@loops
def test_nobody_else_reads_the_frames(loop):
    """A handler that reads stdin, or a child process that inherits it, finds it empty."""
    body = """
    channel = await StdioServerChannel.open()
    taken = [sys.stdin.read(), os.read(0, 9).decode(), subprocess.run(["cat"], capture_output=True).stdout.decode()]
    channel.send(Frame(repr(taken).encode()))
    await echo(channel)
    await channel.close()
    """
    assert run(loop, main(body), b"{}\n")[0] == [b"['', '', '']", b"{}"]


@loops
def test_the_streams_are_given_back(loop):
    """After close they are what they were: readable, printable, blocking."""
    body = """
    channel = await StdioServerChannel.open()
    await channel.receive()
    await channel.close()
    await channel.close()
    assert sys.stdout is sys.__stdout__ and os.get_blocking(0) and os.get_blocking(1)
    print("given back", flush=True)
    print("own", await asyncio.to_thread(sys.stdin.readline))
    """
    with start(loop, main(body)) as process:
        os.write(process.stdin.fileno(), b"{}\n")
        assert process.stdout.readline() == b"given back\n"
        out, err = process.communicate(b"line", timeout=60)
    assert (out, err) == (b"own line\n", b"")


@loops
def test_no_descriptor_is_left_open(loop):
    """However often it is opened and closed."""
    body = """
    counts = set()
    for _ in range(3):
        channel = await StdioServerChannel.open()
        channel.send(Frame(b"{}"))
        await channel.close()
        counts.add(len(os.listdir("/dev/fd")))
    print(len(counts))
    """
    assert run(loop, main(body)) == ([b"{}", b"{}", b"{}", b"1"], "")


@loops
def test_it_can_be_opened_again_but_not_twice(loop):
    """There is one standard input; who tries to share it is told so."""
    body = """
    channel = await StdioServerChannel.open()
    try:
        await StdioServerChannel.open()
    except Exception as error:
        channel.send(Frame(str(error).encode()))
    await channel.close()
    channel = await StdioServerChannel.open()
    channel.send(Frame(b"{}"))
    await echo(channel)
    await channel.close()
    """
    with start(loop, main(body)) as process:
        assert b"already belong to another channel of this process" in process.stdout.readline()
        assert process.stdout.readline() == b"{}\n"
        out, _ = process.communicate(b"[]\n", timeout=60)
    assert out == b"[]\n"


@loops
def test_a_slow_reader_gets_everything_though_the_server_closes(loop):
    """``close`` writes what was sent."""
    body = """
    channel = await StdioServerChannel.open()
    for n in range(2000):
        channel.send(Frame(b'{"n":%d,"x":"%s"}' % (n, b"x" * 5000)))
    await channel.close()
    """
    answers, _ = run(loop, main(body))
    assert [answer[:8] for answer in answers] == [(b'{"n":%d,"x"' % n)[:8] for n in range(2000)]


@loops
def test_a_reader_that_never_reads_does_not_hold_the_server(loop):
    """``close`` waits for a bounded time; what is not read then is dropped."""
    body = """
    stdio_server.FLUSH = 0.05
    channel = await StdioServerChannel.open()
    channel.send(Frame(b"x" * 1_000_000))
    await channel.close()
    print("ended", file=sys.stderr)
    """
    with start(loop, main(body)) as process:
        assert process.stderr.read() == b"ended\n"


@loops
def test_a_broken_output_ends_it_without_a_traceback(loop):
    """A client that goes away while its other end stays open is noticed, also in the middle of a send."""
    with start(loop, ECHO) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b"The client closed standard output\n"
    assert process.returncode == 0


@loops
def test_a_sender_that_waits_is_freed_by_a_broken_output(loop):
    """It does not wait for room that never comes."""
    body = """
    channel = await StdioServerChannel.open()
    while channel.send(Frame(b'{"x":"' + b"x" * 9999 + b'"}')) is None:
        pass
    print("full", file=sys.stderr, flush=True)
    await send(channel, b"{}")
    await channel.close()
    """
    with start(loop, main(body)) as process:
        assert process.stderr.readline() == b"full\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@loops
def test_the_death_of_the_parent_ends_it(loop):
    """Though somebody else still holds its input open (here: this test)."""
    parent = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
    middle = subprocess.Popen(
        [sys.executable, "-c", parent, *command(loop, ECHO)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with middle:
        assert middle.stdout.readline() == b'{"ready":1}\n'
        middle.kill()
        assert middle.stderr.read() == b"The parent process ended\n"
        assert middle.stdout.read() == b""


@loops
def test_a_script_from_a_file_is_answered_into_a_file(loop, tmp_path):
    """``server < script > answers`` loses nothing, though neither is a pipe."""
    script, answers = tmp_path / "script", tmp_path / "answers"
    script.write_bytes(b"".join(b'{"n":%d}\n' % n for n in range(30_000)))
    with script.open("rb") as reading, answers.open("wb") as writing:
        run(loop, ECHO, None, stdin=reading, stdout=writing)
    assert answers.read_bytes() == b'{"ready":1}\n' + script.read_bytes()


@loops
def test_no_input_at_all_ends_it(loop):
    """``server < /dev/null`` ends by itself."""
    answers, stderr = run(loop, ECHO, None, stdin=subprocess.DEVNULL)
    assert (answers, stderr) == ([b'{"ready":1}'], "The client closed standard input\n")


@loops
def test_one_socket_can_be_both_streams(loop):
    """As under inetd; a host may also give a socket for each."""
    ours, theirs = socket.socketpair()
    with start(loop, ECHO, stdin=theirs, stdout=theirs) as process, ours:
        theirs.close()
        ours.sendall(b'{"a":1}\n')
        ours.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: ours.recv(4096), b"")) == b'{"ready":1}\n{"a":1}\n'
        assert process.stderr.read() == b"The client closed standard input\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_stream_is_said_to_be_closed(closed):
    """A server that cannot work says so instead of doing something strange."""
    started = ["sh", "-c", f'exec "$@" {closed}', "sh", *command("asyncio", ECHO)]
    ended = subprocess.run(started, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
    assert ended.returncode == 1
    assert b"ConfigError: standard input or output is closed" in ended.stderr


def test_a_server_without_stderr_works():
    """Stray output is lost then, and does not reach the client."""
    body = """
    channel = await StdioServerChannel.open()
    print("stray")
    os.write(1, b"stray")
    channel.send(Frame(b"{}"))
    await channel.close()
    """
    started = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command("asyncio", main(body))]
    ended = subprocess.run(started, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    assert ended.stdout == b"{}\n"


@loops
def test_cancelling_close_still_gives_the_streams_back(loop):
    """The end of the program may come while the client is slow to read."""
    body = """
    channel = await StdioServerChannel.open()
    channel.send(Frame(b"x" * 1_000_000))
    closing = asyncio.create_task(channel.close())
    await asyncio.sleep(0)
    closing.cancel()
    channel._closing.cancel()
    await asyncio.wait([closing, channel._closing])
    assert sys.stdout is sys.__stdout__
    """
    with start(loop, main(body)) as process:
        assert process.stderr.read() == b""
    assert process.returncode == 0


BODY = """
import os, sys
from antiphon.transports.stdio.server import StandardStreams
streams = StandardStreams()
print("stray")
streams.stdout.write(b"meant\\n")
assert streams.stdin.readline() == b"line\\n"
assert not streams.one_socket
assert not os.get_inheritable(streams.stdin.fileno())
streams.restore()
streams.restore()
print("after")
StandardStreams().restore()
"""


def test_streams_are_exchanged_and_given_back():
    """What is printed goes to stderr, what is written to the private stream arrives; then all is as before."""
    ended = subprocess.run([sys.executable, "-c", BODY], input=b"line\n", capture_output=True, check=True)
    assert (ended.stdout, ended.stderr) == (b"meant\nafter\n", b"stray\n")
