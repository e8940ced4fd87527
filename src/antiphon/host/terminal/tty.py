"""The person's terminal: reads lines and writes text, without blocking the event loop and without a thread.

Owns one terminal device, opened separately so that its flags do not affect the standard streams. POSIX only: on other
systems no terminal is found.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import sys

from antiphon.host.review.review import NoReviewer

__all__ = ["EndOfInput", "Tty", "find_terminal"]

_LONGEST_LINE = 4095
"""Linux silently cuts a line typed in canonical mode at 4096 bytes (``N_TTY_BUF_SIZE``)."""
_FLAGS = os.O_RDWR | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_NONBLOCK", 0)


class EndOfInput(Exception):
    """The person pressed Ctrl-D on an empty line."""


def find_terminal() -> str | None:
    """Return the path of the terminal on which a person can be asked, or ``None``.

    That is the one of a standard stream, else the controlling one. A background process has none, because reading would
    stop it.
    """
    if sys.platform == "win32":
        return None
    for fd in (0, 2, 1):
        with contextlib.suppress(OSError):
            return _if_foreground(os.ttyname(fd))
    return _if_foreground("/dev/tty")


def _if_foreground(path: str) -> str | None:
    try:
        fd = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        return path if os.tcgetpgrp(fd) == os.getpgrp() else None
    except OSError:
        # It is not our controlling terminal, so job control does not apply.
        return path
    finally:
        os.close(fd)


class Tty:
    """An open terminal, for one reader at a time."""

    def __init__(self, path: str) -> None:
        """Open the terminal.

        Raises:
            NoReviewer: it cannot be opened.
        """
        self.path = path
        try:
            self._fd = os.open(path, _FLAGS)
        except OSError as error:
            raise NoReviewer(f"the terminal cannot be opened: {error.strerror}") from None
        self._pending = bytearray()
        self._line_cut = False

    @property
    def columns(self) -> int:
        """Width in character cells; 80 if the terminal does not say."""
        try:
            return os.get_terminal_size(self._fd).columns or 80
        except OSError:
            return 80

    @property
    def rows(self) -> int:
        """Height in character cells; 24 if the terminal does not say."""
        try:
            return os.get_terminal_size(self._fd).lines or 24
        except OSError:
            return 24

    @property
    def line_was_cut(self) -> bool:
        """Whether the last line was so long that the terminal may have cut it."""
        return self._line_cut

    async def write(self, text: str) -> None:
        """Write a text unchanged: the caller has made it inert."""
        left = memoryview(text.encode("utf-8", "replace"))
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                await self._writable()
            except OSError as error:
                raise NoReviewer(f"the terminal is gone: {error.strerror}") from None

    def write_now(self, text: str) -> None:
        """Write as much of a short text as the terminal accepts at once, for use while being cancelled."""
        with contextlib.suppress(OSError):
            os.write(self._fd, text.encode("utf-8", "replace"))

    def discard_typed(self) -> None:
        """Discard what was typed before now, since it was not meant for what is shown next."""
        import termios

        self._pending.clear()
        with contextlib.suppress(OSError, termios.error):
            termios.tcflush(self._fd, termios.TCIFLUSH)

    async def read_line(self) -> str:
        """Wait for a line and return it without its end. Cancelling loses nothing that was typed.

        Raises:
            EndOfInput: the person pressed Ctrl-D.
            NoReviewer: the terminal is gone.
        """
        while b"\n" not in self._pending:
            chunk = await self._read()
            if not chunk and not self._pending:
                raise EndOfInput
            # Ctrl-D twice, or a terminal that hung up, ends a line without a line end.
            self._pending += chunk or b"\n"
        line, _, rest = bytes(self._pending).partition(b"\n")
        self._pending[:] = rest
        self._line_cut = len(line) >= _LONGEST_LINE
        return codecs.decode(line, "utf-8", "replace").rstrip("\r")

    async def _read(self) -> bytes:
        while True:
            await self._readable()
            try:
                return os.read(self._fd, 65536)
            except BlockingIOError:
                continue
            except OSError as error:
                raise NoReviewer(f"the terminal is gone: {error.strerror}") from None

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._fd, _finish, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._fd)

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_writer(self._fd, _finish, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._fd)

    def close(self) -> None:
        """Close the terminal."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _finish(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
