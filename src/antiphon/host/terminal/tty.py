"""The person's terminal: reads lines and writes text, without blocking the event loop and without a thread.

Owns one terminal device, opened separately so that its flags do not affect the standard streams.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from antiphon.host.review.review import NoReviewer

_LONGEST_LINE = 4095
"""Linux silently cuts a line typed in canonical mode at 4096 bytes (``N_TTY_BUF_SIZE``)."""
_FLAGS = os.O_RDWR | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_NONBLOCK", 0)


_KEYS_EVERY = 0.03
"""Seconds between two looks for a key while a person is asked; a person does not notice them."""
_INTERRUPT, _END, _ENTER, _ERASE = "\x03", "\x1a", "\r", "\b"
_STANDARD_INPUT, _LINE_INPUT = -10, 0x0002
"""``STD_INPUT_HANDLE`` and ``ENABLE_LINE_INPUT`` (Windows console, ``GetStdHandle`` and ``GetConsoleMode``)."""
_SPECIAL = ("\0", "\xe0")
"""Begin the code of an arrow or a function key, which has two parts (Microsoft C runtime, ``_getwch``)."""


class EndOfInput(Exception):
    """The person pressed Ctrl-D on an empty line."""


def find_terminal() -> str | None:
    """Return the path of the terminal on which a person can be asked, or ``None``.

    That is the one of a standard stream, else the controlling one. A background process has none, because reading would
    stop it.
    """
    if sys.platform == "win32":
        return "CON" if sys.stdin is not None and sys.stdin.isatty() else None
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


def reads_keys(path: str) -> bool:
    """Return whether a program reads single keys at this terminal, as full-screen programs do.

    Such a program (curses, Textual) also draws on the whole screen, so a question of ours would spoil it.
    """
    if path == "CON":
        mode = _read_console_mode()
        return mode is not None and not mode & _LINE_INPUT
    import termios

    try:
        fd = os.open(path, _FLAGS)
    except OSError:
        return False
    try:
        flags = termios.tcgetattr(fd)
    except termios.error:
        return False
    finally:
        os.close(fd)
    # curses without cbreak() still waits for lines, but gets Enter as a carriage return, which ends no line.
    return not (flags[3] & termios.ICANON and flags[0] & termios.ICRNL)


def _read_console_mode() -> int | None:
    """Return how the console of a Windows program gives it what is typed; ``None`` if it does not say."""
    import ctypes

    kernel = getattr(getattr(ctypes, "windll", None), "kernel32", None)
    mode = ctypes.c_uint32()
    is_read = kernel is not None and kernel.GetConsoleMode(kernel.GetStdHandle(_STANDARD_INPUT), ctypes.byref(mode))
    return mode.value if is_read else None


def open_terminal(path: str) -> Tty:
    """Open the terminal that ``find_terminal`` has found, or raise ``NoReviewer``."""
    return WindowsTty() if path == "CON" else Tty(path)


class Tty:
    """An open terminal, for one reader at a time."""

    def __init__(self, path: str) -> None:
        """Open the terminal, or raise ``NoReviewer``."""
        self.path = path
        try:
            self._fd = os.open(path, _FLAGS)
        except OSError as error:
            raise NoReviewer(f"the terminal cannot be opened: {error.strerror}") from None
        self._pending = bytearray()
        self.line_was_cut = False
        """Whether the last line was so long that the terminal may have cut it."""

    @property
    def columns(self) -> int:
        """Width in character cells; 80 if the terminal does not say."""
        return self._find_size().columns or 80

    @property
    def rows(self) -> int:
        """Height in character cells; 24 if the terminal does not say."""
        return self._find_size().lines or 24

    def _find_size(self) -> os.terminal_size:
        try:
            return os.get_terminal_size(self._fd)
        except OSError:
            return os.terminal_size((0, 0))

    async def write(self, text: str) -> None:
        """Write a text unchanged: the caller has made it inert."""
        left = memoryview(text.encode("utf-8", "replace"))
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await self._wait_ready(loop.add_writer, loop.remove_writer)
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

        Raises ``EndOfInput`` if the person pressed Ctrl-D, and ``NoReviewer`` if the terminal is gone.
        """
        while b"\n" not in self._pending:
            chunk = await self._read_chunk()
            if not chunk and not self._pending:
                raise EndOfInput
            # Ctrl-D twice, or a terminal that hung up, ends a line without a line end.
            self._pending += chunk or b"\n"
        line, _, rest = bytes(self._pending).partition(b"\n")
        self._pending[:] = rest
        self.line_was_cut = len(line) >= _LONGEST_LINE
        return codecs.decode(line, "utf-8", "replace").rstrip("\r")

    async def _read_chunk(self) -> bytes:
        loop = asyncio.get_running_loop()
        while True:
            await self._wait_ready(loop.add_reader, loop.remove_reader)
            try:
                return os.read(self._fd, 65536)
            except BlockingIOError:
                continue
            except OSError as error:
                raise NoReviewer(f"the terminal is gone: {error.strerror}") from None

    async def _wait_ready(self, add: Callable[..., object], remove: Callable[[int], object]) -> None:
        """Wait until the terminal can be read or written: ``add`` and ``remove`` are the loop's methods for either."""
        ready = asyncio.Event()
        add(self._fd, ready.set)
        try:
            await ready.wait()
        finally:
            remove(self._fd)

    def close(self) -> None:
        """Close the terminal."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class WindowsTty(Tty):
    """The console of a Windows program, for one reader at a time.

    Keys are read one by one by ``keyboard`` (the module ``msvcrt``), and shown on ``screen`` (the console). A line that
    the console itself reads could be neither waited for without a thread nor discarded.
    """

    def __init__(self, keyboard: Any = None, screen: TextIO | None = None) -> None:
        self.path = "CON"
        self._line = ""
        self.line_was_cut = False
        self._fd = -1
        try:
            self._keyboard: Any = keyboard or importlib.import_module("msvcrt")
            self._screen = screen or _open_screen()
            with contextlib.suppress(OSError, ValueError):
                self._fd = self._screen.fileno()
        except (ImportError, OSError) as error:
            raise NoReviewer(f"the console cannot be opened: {error}") from None

    async def write(self, text: str) -> None:
        """Write a text unchanged: the caller has made it inert."""
        try:
            self._screen.write(text)
            self._screen.flush()
        except OSError as error:
            raise NoReviewer(f"the console is gone: {error}") from None

    def write_now(self, text: str) -> None:
        """Write a short text, for use while being cancelled."""
        with contextlib.suppress(OSError):
            self._screen.write(text)
            self._screen.flush()

    def discard_typed(self) -> None:
        """Discard what was typed before now, since it was not meant for what is shown next."""
        self._line = ""
        while self._keyboard.kbhit():
            self._keyboard.getwch()

    async def read_line(self) -> str:
        """Wait for a line as ``Tty.read_line`` does: Ctrl-Z ends the input, and Ctrl-C is a ``KeyboardInterrupt``."""
        while True:
            while self._keyboard.kbhit():
                key = self._keyboard.getwch()
                if key in _SPECIAL:
                    self._keyboard.getwch()
                elif key == _INTERRUPT:
                    raise KeyboardInterrupt
                elif key == _END and not self._line:
                    raise EndOfInput
                elif key in ("\n", _ENTER):
                    line, self._line = self._line, ""
                    await self.write("\n")
                    return line
                else:
                    await self._take(key)
            await asyncio.sleep(_KEYS_EVERY)

    async def _take(self, key: str) -> None:
        """Add a key to the line, or erase the last one, and show it."""
        if key == _ERASE:
            if self._line:
                self._line = self._line[:-1]
                await self.write("\b \b")
        elif key == "\t" or key.isprintable():
            self._line += key
            await self.write(key)

    def close(self) -> None:
        """Close the console."""
        with contextlib.suppress(OSError):
            self._screen.close()


def _open_screen() -> TextIO:
    return Path("CONOUT$").open("w", encoding="utf-8")
