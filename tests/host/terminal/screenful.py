"""A pseudo-terminal within the test, and the person who reads and types at it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import tty
from collections.abc import Iterator


class Screenful:
    """The person's side of a pseudo-terminal."""

    def __init__(self, person: int, path: str) -> None:
        self.path = path
        self.seen = ""
        self._fd = person
        self._at = 0

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._fd, text.encode())

    async def expect(self, text: str) -> str:
        """Wait until this appears behind what was awaited before; return what stood between."""
        async with asyncio.timeout(30):
            while (found := self.seen.find(text, self._at)) < 0:
                await self._more()
        between, self._at = self.seen[self._at : found], found + len(text)
        return between

    async def _more(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._fd, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_reader(self._fd)
        self._read()

    def read_rest(self) -> None:
        """Read what is there already."""
        while select.select([self._fd], [], [], 0)[0]:
            self._read()

    def _read(self) -> None:
        self.seen += os.read(self._fd, 65536).decode("utf-8", "replace").replace("\r", "")


@contextlib.contextmanager
def screenful(*, echo: bool = True) -> Iterator[Screenful]:
    """Open a pseudo-terminal. Without ``echo`` what is typed is not shown."""
    person, program = os.openpty()
    try:
        if not echo:
            import termios

            modes = termios.tcgetattr(program)
            modes[tty.LFLAG] &= ~termios.ECHO
            termios.tcsetattr(program, termios.TCSANOW, modes)
        yield Screenful(person, os.ttyname(program))
    finally:
        os.close(program)
        os.close(person)
