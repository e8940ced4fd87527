"""Calling user code: an exception in a callback is logged, and the connection continues."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVarTuple

__all__ = ["awaited", "called"]

log = logging.getLogger("antiphon.connection")

A = TypeVarTuple("A")


def called(what: str, callback: Callable[[*A], object], *arguments: *A) -> object:
    """Call a callback and return its result; ``None`` if it fails. ``what`` names it in the log."""
    try:
        return callback(*arguments)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        log.exception("a callback for %s failed", what)
        return None


async def awaited(work: Awaitable[object]) -> None:
    """Await what a callback returned."""
    try:
        await work
    except Exception:
        log.exception("a callback failed")
