"""When a round is sent: asks are out, and a few passes of the event loop have brought no further one.

So asks that are raised together travel together, and what else the handler waits for delays none. Owns the counting of
passes. What is sent, and whether there is still anybody to send it to, is ``parked_call``'s business.

The design: docs/topics/eras-and-rounds.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

__all__ = ["PASSES", "Quiescence"]

PASSES = 8
"""Passes of the event loop without a new ask before a round is sent. Measured: ``gather`` nested four deep needs 4,
five ``sleep(0)`` need 5; each pass costs about 1.5 microseconds."""

_DIRECT_PASSES = 0
"""The same where every ask comes from the body's own task: it waits for them, and a task that it made before has its
turn in the pass that is waited for anyway."""


Send = Callable[[], bool]
"""Sends a round; tells whether there was one to send. Raises nothing: the event loop calls it, for nobody."""


class Quiescence(Struct, gc=False):
    """The passes of the event loop since the last ask of one call."""

    _passes: int = _DIRECT_PASSES
    _quiet: int = 0
    _is_counting: bool = False

    def count(self, then: Send, *, is_direct: bool = True) -> None:
        """Count anew, since something was asked or can be sent again; call ``then`` when nothing more has come.

        ``is_direct``: no other task than the body's has asked. ``then`` is handed in each time: kept here, it would be
        garbage together with its call that only a collection finds.
        """
        self._quiet = 0
        if not is_direct:
            self._passes = PASSES
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._tick, then)

    def look_again(self, seconds: float, then: Send) -> None:
        """Call ``then`` once more after so many seconds: when it was called, it was too early."""
        self._is_counting = True
        asyncio.get_running_loop().call_later(seconds, self._tick, then)

    def _tick(self, then: Send) -> None:
        self._quiet += 1
        if self._quiet <= self._passes:
            asyncio.get_running_loop().call_soon(self._tick, then)
        else:
            self._is_counting = False
            if then():
                self._passes = _DIRECT_PASSES
