"""Byte streams that an event loop cannot wait for, each read or written by a thread.

For regular files, terminals and ``/dev/null`` (epoll refuses them, and a terminal set non-blocking would be so for the
shell too), and for pipes on Windows. Provides asyncio transports that call a protocol, like the event loop does.
``connect_reader`` and ``connect_writer`` choose the event loop where it can wait for the stream, else a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import select
import stat
import threading
from collections.abc import Callable
from typing import IO, Any

__all__ = ["ThreadReader", "ThreadWriter", "connect_reader", "connect_writer"]

CHUNK = 64 * 1024
"""Bytes read or written at once: the capacity of a pipe."""


class _Alarm:
    """Lets a thread wait until a file is ready or the loop wakes it. On systems without ``poll`` it does not wait."""

    def __init__(self, file: IO[bytes], events: int) -> None:
        self._rung = False
        self._poll = None
        if hasattr(select, "poll"):
            self._heard, self._bell = os.pipe()
            self._poll = select.poll()
            self._poll.register(file.fileno(), events)
            self._poll.register(self._heard, select.POLLIN)

    def wait(self) -> bool:
        """Wait, in the thread; return whether the file is ready to be used."""
        if self._poll is None:
            return not self._rung
        return not self._rung and all(fd != self._heard for fd, _ in self._poll.poll())

    def ring(self) -> None:
        """End the wait, from the loop. The thread notices the hang-up at its end of the pipe."""
        if not self._rung:
            self._rung = True
            if self._poll is not None:
                os.close(self._bell)

    def close(self) -> None:
        """Close the thread's end, from the thread."""
        if self._poll is not None:
            os.close(self._heard)


class _Worker:
    """A daemon thread that uses one file, and calls into the loop. The thread closes the file."""

    def __init__(self, file: IO[bytes], events: int, work: Callable[[int], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._work = work
        self.alarm = _Alarm(file, events)

    def start(self, ended: Callable[[Exception | None], None]) -> None:
        """Start working; ``ended`` is called in the loop, with the error if there was one."""
        threading.Thread(target=self._run, args=(ended,), name="antiphon-stdio", daemon=True).start()

    def post(self, call: Callable[..., None], *args: object) -> None:
        """Call a function in the loop, if it still runs."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *args)

    def _run(self, ended: Callable[[Exception | None], None]) -> None:
        error: OSError | None = None
        try:
            self._work(self._file.fileno())
        except OSError as broken:
            error = broken
        finally:
            self.alarm.close()
            with contextlib.suppress(OSError):
                self._file.close()
        self.post(ended, error)


class ThreadReader(asyncio.ReadTransport):
    """Reads a file in a thread, one piece at a time: the next one when the protocol has handled the last."""

    def __init__(self, file: IO[bytes], protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self._turn = threading.Semaphore()
        self._paused = False
        self._owed = False
        self._closing = False
        self._done = False
        self._worker = _Worker(file, getattr(select, "POLLIN", 0), self._work)
        protocol.connection_made(self)
        self._worker.start(self._lost)

    def is_closing(self) -> bool:
        """Tell whether it was closed, or ended by itself."""
        return self._closing

    def is_reading(self) -> bool:
        """Tell whether data may arrive now."""
        return not self._paused and not self._closing

    def pause_reading(self) -> None:
        """Pause reading; a piece that is being read still arrives."""
        self._paused = True

    def resume_reading(self) -> None:
        """Go on reading."""
        self._paused = False
        if self._owed:
            self._owed = False
            self._turn.release()

    def close(self) -> None:
        """Stop reading, at once."""
        if not self._closing:
            self._closing = True
            self._worker.alarm.ring()
            self._turn.release()
            # Not left to the thread, which may block in its read for ever where there is no ``poll``.
            self._worker.post(self._lost, None)

    def _work(self, fd: int) -> None:
        while self._turn.acquire() and self._worker.alarm.wait() and (data := os.read(fd, CHUNK)):
            self._worker.post(self._arrived, data)

    def _arrived(self, data: bytes) -> None:
        if self._closing:
            return
        self._protocol.data_received(data)
        if self._paused:
            self._owed = True
        else:
            self._turn.release()

    def _lost(self, error: Exception | None) -> None:
        if not self._done:
            self._done = self._closing = True
            self._worker.alarm.ring()
            self._protocol.connection_lost(error)


class ThreadWriter(asyncio.WriteTransport):
    """Writes a file in a thread, in order. ``close`` writes what is left, ``abort`` drops it."""

    def __init__(self, file: IO[bytes], protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._protocol = protocol
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waiting = 0
        self._high = CHUNK
        self._paused = False
        self._closing = False
        self._worker = _Worker(file, getattr(select, "POLLOUT", 0), self._work)
        protocol.connection_made(self)
        self._worker.start(self._lost)

    def is_closing(self) -> bool:
        """Tell whether it was closed, or ended by itself."""
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set how many bytes may wait. ``low`` is ignored: writers continue at half of ``high``."""
        self._high = CHUNK if high is None else high

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait to be written."""
        return self._waiting

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Queue bytes."""
        if self._closing or not data:
            return
        self._waiting += len(data)
        self._queue.put(bytes(data))
        if self._waiting > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """Accept no more data; end when everything is written."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)

    def abort(self) -> None:
        """Accept no more data; drop what is not written yet."""
        self.close()
        self._worker.alarm.ring()

    def _work(self, fd: int) -> None:
        while (data := self._queue.get()) is not None:
            rest = memoryview(data)
            while rest:
                if not self._worker.alarm.wait():
                    return
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(fd, rest[:CHUNK]) :]
            self._worker.post(self._written, len(data))

    def _written(self, size: int) -> None:
        self._waiting -= size
        if self._paused and self._waiting <= self._high // 2:
            self._paused = False
            self._protocol.resume_writing()

    def _lost(self, error: Exception | None) -> None:
        self._closing = True
        self._worker.alarm.ring()
        self._protocol.connection_lost(error)


async def connect_reader(file: IO[bytes], protocol: asyncio.Protocol) -> None:
    """Connect ``protocol`` to read from ``file``, which must be unbuffered."""
    if _pollable(file):
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, file)
    else:
        ThreadReader(file, protocol)


async def connect_writer(file: IO[bytes], protocol: asyncio.BaseProtocol, *, threaded: bool = False) -> None:
    """Connect ``protocol`` to write to ``file``, which must be unbuffered; with ``threaded`` always by a thread."""
    if _pollable(file) and not threaded:
        await asyncio.get_running_loop().connect_write_pipe(lambda: protocol, file)
    else:
        ThreadWriter(file, protocol)


def _pollable(file: IO[bytes]) -> bool:
    """Tell whether the event loop can wait for a file: a pipe or a socket, and not on Windows."""
    mode = os.fstat(file.fileno()).st_mode
    return os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
