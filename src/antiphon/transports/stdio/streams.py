"""The standard streams of this process, taken over for the protocol.

2025-11-25 basic/transports, stdio: "The server MUST NOT write anything to its stdout that is not a valid MCP message."
A stray ``print``, of this program, a C library or a child process, must not break this, and nothing else may read
stdin. So file descriptors 0 and 1 themselves are replaced: by ``/dev/null`` and by stderr.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import IO, ClassVar

from antiphon.errors import ConfigError, LocalProtocolError

__all__ = ["StandardStreams"]


class StandardStreams:
    """Takes standard input and output for one user at a time, until ``restore``.

    Raises:
        LocalProtocolError: they are taken already.
        ConfigError: one of them is closed.
    """

    _taken: ClassVar[bool] = False

    def __init__(self) -> None:
        if StandardStreams._taken:
            raise LocalProtocolError("standard input and output already belong to another channel of this process")
        # They were closed when Python started, and their numbers may belong to other files by now.
        if sys.__stdin__ is None or sys.__stdout__ is None:
            raise ConfigError("standard input or output is closed: a stdio server needs both")
        # Two copies each: the transports close theirs, and the other restores the stream.
        self.stdin: IO[bytes] = os.fdopen(os.dup(0), "rb", buffering=0)
        self.stdout: IO[bytes] = os.fdopen(os.dup(1), "wb", buffering=0)
        self._kept = [os.dup(0), os.dup(1)]
        self._blocking = [_is_blocking(fd) for fd in self._kept]
        self._printed = sys.stdout
        self._exchange()
        StandardStreams._taken = True

    @property
    def one_socket(self) -> bool:
        """Whether both are the same file (a socket, under inetd), so that the event loop can use only one of them."""
        return os.path.sameopenfile(*self._kept)

    def restore(self) -> None:
        """Restore the streams. May be called twice."""
        if not self._kept:
            return
        _flush(self._printed)
        if sys.stdout is sys.stderr:
            sys.stdout = self._printed
        for fd, kept in enumerate(self._kept):
            # The transports made it non-blocking, for all processes that share it.
            if self._blocking[fd]:
                os.set_blocking(kept, True)
            os.dup2(kept, fd)
            os.close(kept)
        self._kept = []
        StandardStreams._taken = False

    def _exchange(self) -> None:
        _flush(self._printed)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        # If stderr is closed, stray output is lost.
        os.dup2(nothing if sys.__stderr__ is None else 2, 1)
        os.close(nothing)
        if sys.stderr is not None:
            sys.stdout = sys.stderr


def _is_blocking(fd: int) -> bool:
    return os.name == "posix" and os.get_blocking(fd)


def _flush(stream: IO[str] | None) -> None:
    """Write out what Python has buffered, so that it goes where the descriptor points now."""
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
