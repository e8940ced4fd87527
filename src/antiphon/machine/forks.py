"""Gives forked children default signal handlers, so that a signal for a child does not act on the server.

A fork copies the handlers of the event loop, and shares the pipe that wakes it: a SIGTERM for a worker of
``multiprocessing`` would wake the server, which then ends, and the worker would go on (CPython issue 94454). A handler
that the program had before the server ran is inherited, as everywhere.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Generator, Mapping
from typing import Any

__all__ = ["guard_children"]

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD") if hasattr(signal, name)]
"""The signals that servers, event loops and our own processes handle."""

_before: list[Mapping[Any, Any]] = []
"""The handlers before each server that runs in this process."""


@contextlib.contextmanager
def guard_children() -> Generator[None]:
    """Guard the children that are forked meanwhile. Enter it before the event loop sets its handlers."""
    _before.append({number: signal.getsignal(number) for number in _SIGNALS})
    try:
        yield
    finally:
        _before.pop()


def _restore() -> None:
    """Undo in a child what the server has set."""
    if not _before:
        return
    with contextlib.suppress(ValueError):
        # Not possible outside of the main interpreter, which then has set nothing.
        signal.set_wakeup_fd(-1)
        for number, handler in _before[0].items():
            if callable(signal.getsignal(number)) and signal.getsignal(number) is not handler:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _before.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restore)
