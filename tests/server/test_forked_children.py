"""Forked children of a server that runs: a signal for a child acts on the child, and the server goes on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon import Client
from antiphon.server.serving.run import guard_children
from tests.support.network import until
from tests.support.ports import free_port

PROGRAM = r"""
import asyncio, concurrent.futures, multiprocessing, os, pty, signal, subprocess, sys, time, warnings
from antiphon import Server

warnings.simplefilter("ignore")
# A shell ignores them for what it starts in the background, or with nohup, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
server = Server("s")
signal.signal(signal.SIGUSR1, lambda *_: None)

def number_of(name):
    return getattr(signal, name)

def outlive(ready):
    os.write(ready, b"r")
    # Not signal.pause(): a signal just before it would be handled after it, which never comes.
    while True:
        time.sleep(0.05)
        # Handles pending signals. From Python 3.13 on, a child forked in a thread handles them only in such calls, and
        # in system calls that they interrupt: see "Forked children" in docs/design/rough-edges.md.
        signal.pthread_sigmask(signal.SIG_BLOCK, [])

def ended_by(pid, number, ready):
    os.read(ready, 1)
    os.kill(pid, number)
    _, status = os.waitpid(pid, 0)
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

def in_child(fork, number):
    ready, wakes = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            outlive(wakes)
        except KeyboardInterrupt:
            os._exit(9)
    try:
        return ended_by(pid, number, ready)
    finally:
        os.close(ready), os.close(wakes)

@server.tool
def forked(name: str) -> int:
    return in_child(os.fork, number_of(name))

@server.tool
async def forked_in_the_loop(name: str) -> int:
    return in_child(os.fork, number_of(name))

@server.tool
def forked_at_a_terminal(name: str) -> int:
    files = []
    def fork():
        pid, file = pty.fork()
        files.append(file)
        return pid
    return in_child(fork, number_of(name))

@server.tool
def multiprocess(method: str) -> list[int]:
    context = multiprocessing.get_context(method)
    with context.Pool(2) as workers:
        return workers.map(abs, [-1, -2])

@server.tool
async def pooled() -> list[int]:
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        found = [await asyncio.wrap_future(pool.submit(abs, number)) for number in (-1, -2)]
        for process in list(pool._processes.values()):
            process.terminate()
        return found

@server.tool
def prepared() -> int:
    child = subprocess.Popen(["sleep", "60"], preexec_fn=lambda: None)
    child.terminate()
    return child.wait()

@server.tool
def kept() -> bool:
    # What the program itself has set is inherited, as by every fork.
    before = signal.getsignal(signal.SIGUSR1)
    pid = os.fork()
    if pid == 0:
        os._exit(signal.getsignal(signal.SIGUSR1) is before)
    return bool(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        if sys.argv[2] == "asyncio":
            sys.modules["uvloop"] = None
        server.run()
    else:
        server.run("http", port=int(sys.argv[2]), workers=int(sys.argv[3]))
"""

ENDS = {"SIGTERM": -15, "SIGINT": 9, "SIGHUP": -1}


def answers(port: int) -> bool:
    """Return whether something listens there."""
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


def served_by(program: Path, port: int, workers: str) -> subprocess.Popen[bytes]:
    """Start the program over HTTP."""
    command = [sys.executable, str(program), "http", str(port), workers]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


@asynccontextmanager
async def connected(how: str, folder: Path) -> AsyncGenerator[Client]:
    """Run the program in this way, and connect to it."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    if how in ("asyncio", "uvloop"):
        async with Client([sys.executable, str(program), "stdio", how]) as client:
            yield client
        return
    port = free_port()
    workers = "2" if how == "workers" else "1"
    with served_by(program, port, workers) as served:
        try:
            await until(lambda: answers(port))
            async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                yield client
            assert served.poll() is None
        finally:
            served.terminate()


@pytest.mark.parametrize("how", ["asyncio", "uvloop", "http", "workers"])
async def test_a_signal_for_a_forked_child_ends_the_child(how, tmp_path):
    """Children of every kind, from a thread and from the event loop; the server answers on."""
    async with connected(how, tmp_path) as client:
        for _ in range(2):
            for tool in ("forked", "forked_in_the_loop", "forked_at_a_terminal"):
                for name, end in ENDS.items():
                    assert (await client.call_tool(tool, {"name": name})).structured_content == {"result": end}, tool
            for method in ("fork", "forkserver"):
                done = await client.call_tool("multiprocess", {"method": method})
                assert done.structured_content == {"result": [1, 2]}
            assert (await client.call_tool("pooled")).structured_content == {"result": [1, 2]}
            assert (await client.call_tool("prepared")).structured_content == {"result": -15}
            assert (await client.call_tool("kept")).structured_content == {"result": True}


def handlers_in_child() -> bytes:
    """Fork, and return what the child says of its handler for SIGTERM."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writes, repr(signal.getsignal(signal.SIGTERM)).encode())
        os._exit(0)
    os.close(writes)
    os.waitpid(pid, 0)
    with os.fdopen(reads, "rb") as said:
        return said.read()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_only_handlers_that_were_set_meanwhile_are_undone():
    """A handler of the program itself is inherited, and nothing is undone where no server runs."""

    def own(*_: object) -> None:
        raise AssertionError

    before = signal.signal(signal.SIGTERM, own)
    try:
        with guard_children():
            assert b"own" in handlers_in_child()
            signal.signal(signal.SIGTERM, lambda *_: None)
            assert b"SIG_DFL" in handlers_in_child()
        assert b"lambda" in handlers_in_child()
    finally:
        signal.signal(signal.SIGTERM, before)


EARLY = """
import os, signal
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
from antiphon.server.serving.run import guard_children

with guard_children():
    signal.signal(signal.SIGTERM, lambda *_: None)
    pid = os.fork()
    if pid == 0:
        os._exit(1)
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
"""A signal reaches a child before the handlers of its parent are undone there."""


def test_a_signal_that_comes_at_once_ends_the_child():
    """It waits until the child has undone the handlers; the parent takes signals as before."""
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, check=True, text=True)
    assert done.stdout == "-15\n"
