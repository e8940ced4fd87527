"""What runs in a side process: one piece of work after the other, with limits on memory and processor time.

Owns the messages between the two processes. ``pool`` writes a request to our standard input:

    header    the lengths of the two parts (4 bytes, 8 bytes) and the seconds of processor time (8 bytes, a float)
    function  ``package.module:name``, in UTF-8
    payload   bytes, for the function

The reply on our standard output is a header (one byte for ``DONE``, ``FAILED`` or ``TOO_LARGE``, then the length in 8
bytes) and the bytes that the function returned, or the text of its error. Work that takes too long has no reply: the
process ends.
"""

from __future__ import annotations

import importlib
import signal
import struct
import sys

REQUEST = struct.Struct("!IQd")
REPLY = struct.Struct("!BQ")
DONE, FAILED, TOO_LARGE = 0, 1, 2
ENVIRONMENT = {"MIMALLOC_ARENA_RESERVE": "64M"}
"""What this process must be started with. A free-threaded Python would reserve 1 GiB of address space, all of it."""


def main(memory: int) -> None:
    """Do the work requested on standard input, until it ends. ``memory``: bytes of address space for this process."""
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    # Nothing that prints may write into the replies.
    sys.stdout = sys.stderr
    # Ctrl+C is for the main program. This process ends with it; until then the program may still need a result.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory(memory)
    while len(header := requests.read(REQUEST.size)) == REQUEST.size:
        name_length, length, seconds = REQUEST.unpack(header)
        name = requests.read(name_length).decode()
        payload = requests.read(length)
        _limit_time(seconds)
        status, answer = _compute_outcome(name, payload)
        _limit_time(0)
        replies.write(REPLY.pack(status, len(answer)))
        replies.write(answer)
        replies.flush()


def _compute_outcome(name: str, payload: bytes) -> tuple[int, bytes]:
    try:
        module, _, function = name.partition(":")
        return DONE, getattr(importlib.import_module(module), function)(payload)
    except MemoryError:
        return TOO_LARGE, b""
    except Exception as error:
        # The error may quote what the peer sent, however long.
        return FAILED, f"{type(error).__name__}: {error}"[:500].encode("utf-8", "replace")


def _limit_memory(memory: int) -> None:
    """Limit the address space. Windows has no such limit: there only the caller's time limit applies."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        bound = memory if most == resource.RLIM_INFINITY else min(memory, most)
        resource.setrlimit(resource.RLIMIT_AS, (bound, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time(seconds: float) -> None:
    """End this process by a signal after ``seconds`` of processor time (0: never), even if it hangs outside Python."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)
