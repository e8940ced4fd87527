"""Connects a byte stream of the operating system to asyncio: by the event loop where it can, else by a thread.

Both ways take the file over, call the same asyncio protocols, and close the file at the end.
"""

from __future__ import annotations

import asyncio
import os
import stat
from typing import IO

from antiphon.transports.stdio.threads import ThreadReader, ThreadWriter

__all__ = ["connect_reader", "connect_writer"]


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
