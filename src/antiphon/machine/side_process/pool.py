"""The side processes of this process: started on first use, reused, and killed when their work takes too long.

Owns their number, their limits, and the callers that wait. ``child`` is what runs in them.

Threads cannot replace them: regular expressions and validators hold the interpreter's lock while they run, and a thread
cannot be ended from outside.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from antiphon.errors import TooCostly
from antiphon.machine.side_process.child import DONE, ENVIRONMENT, REPLY, REQUEST, TOO_LARGE

MAX_PROCESSES = 2
"""Most side processes at once. They are idle most of the time, and take about 30 MiB each."""
MAX_MEMORY = 1024 * 1024 * 1024
"""Bytes of address space of one. Decoding a frame of 16 MiB needs about a fifth of it."""
MAX_SECONDS = 2.0
"""Default seconds of processor time for one piece of work. Normal work takes milliseconds."""
MAX_WAITING = 1_000
"""Most pieces of work that wait or run; further ones are refused."""
_PATIENCE = 5.0
"""Seconds of clock time allowed per second of processor time, because other programs use the processor too."""
_PROGRAM = "import sys; sys.path[:] = {path!r}; from antiphon.machine.side_process.child import main; main({memory})"
_KEPT = ("SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LC_ALL", "LANG", "TMPDIR", "TEMP")
"""Environment variables that a side process gets. Others may contain keys, which it has no need of."""


async def run_aside(function: Callable[[bytes], bytes], payload: bytes, *, seconds: float = MAX_SECONDS) -> bytes:
    """Run a module-level function in a side process, at most ``seconds`` of processor time; return its result.

    Cancelling ends the work. Raises ``TooCostly`` beyond the limits or if no process can be started, and
    ``RuntimeError``, which names the error, if the function raised something else.
    """
    return await _pool.run(f"{function.__module__}:{function.__qualname__}", payload, seconds)


class _Process:
    """One side process. Its methods block, so call them in a thread; ``kill`` may be called from anywhere."""

    def __init__(self) -> None:
        if getattr(sys, "frozen", False) or not sys.executable:
            # In a program packed into one file, this would start the program itself again.
            raise OSError("there is no Python interpreter to start")
        program = _PROGRAM.format(path=[str(Path(place).absolute()) for place in sys.path], memory=MAX_MEMORY)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _KEPT if name in os.environ} | ENVIRONMENT,
        )

    def work(self, name: str, payload: bytes, seconds: float) -> tuple[int, bytes]:
        """Let it do a piece of work. Raises ``EOFError`` or ``OSError`` if the process ended."""
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None
        assert replies is not None
        function = name.encode()
        requests.write(REQUEST.pack(len(function), len(payload), seconds) + function)
        requests.write(payload)
        requests.flush()
        header = replies.read(REPLY.size)
        if len(header) < REPLY.size:
            raise EOFError
        status, length = REPLY.unpack(header)
        return status, replies.read(length)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End it now."""
        self._process.kill()

    def close(self) -> None:
        """End it, and release its resources."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                # Data that was still to be written to it is lost.
                with suppress(OSError):
                    stream.close()


class _Work:
    """One piece of work in progress, which its caller may cancel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._given_up = False

    def begin(self, process: _Process) -> bool:
        """Note which process does it. Returns whether anybody still waits for it."""
        with self._lock:
            self._process = process
            return not self._given_up

    def end(self) -> bool:
        """Note that it is done. Returns whether the process is alive, because nobody gave the work up."""
        with self._lock:
            self._process = None
            return not self._given_up

    def give_up(self) -> None:
        """Kill the process that does it."""
        with self._lock:
            self._given_up = True
            if self._process is not None:
                self._process.kill()


class _Pool:
    """The processes of this program, for the event loops of all its threads, and a thread for each process at work."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_PROCESSES, thread_name_prefix="antiphon-side-process")
        self._idle: list[_Process] = []
        self._places = threading.Semaphore(MAX_WAITING)

    async def run(self, name: str, payload: bytes, seconds: float) -> bytes:
        """Have a piece of work done; see ``run_aside``."""
        if not self._places.acquire(blocking=False):
            raise TooCostly("too much of what peers sent is being checked already")
        work = _Work()
        try:
            async with asyncio.timeout(seconds * _PATIENCE):
                return await asyncio.wrap_future(self._threads.submit(self._work, work, name, payload, seconds))
        except TimeoutError:
            raise _too_long(seconds) from None
        finally:
            work.give_up()
            self._places.release()

    def close(self) -> None:
        """End the processes that have nothing to do; the others end with their work."""
        while self._idle:
            self._idle.pop().close()

    def forget(self) -> None:
        """Forget all processes in a forked child: their pipes, and the threads that read them, are its parent's."""
        self.__init__()

    def _take(self) -> _Process:
        try:
            # Several threads take and give back; each step is atomic.
            process = self._idle.pop()
        except IndexError:
            return _Process()
        if process.is_alive:
            return process
        process.close()
        return self._take()

    def _work(self, work: _Work, name: str, payload: bytes, seconds: float) -> bytes:
        try:
            process = self._take()
        except OSError as error:
            raise TooCostly(f"no process could be started that checks it: {error}") from None
        reply: tuple[int, bytes] | None = None
        if work.begin(process):
            with suppress(EOFError, OSError):
                reply = process.work(name, payload, seconds)
        if not work.end() or reply is None:
            process.close()
            raise _too_long(seconds)
        status, answer = reply
        if status == TOO_LARGE:
            # What is left of its memory may be in pieces.
            process.close()
            raise _too_long(seconds)
        self._idle.append(process)
        if status != DONE:
            raise RuntimeError(answer.decode("utf-8", "replace"))
        return answer


def _too_long(seconds: float) -> TooCostly:
    return TooCostly(f"it takes more than {seconds:g} s or {MAX_MEMORY // 1024**2} MiB of memory to check")


_pool = _Pool()
atexit.register(_pool.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)
