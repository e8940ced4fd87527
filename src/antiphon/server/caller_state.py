"""State of each caller that outlives a call: a dependency with a bound on the number of callers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from antiphon.errors import ConfigError
from antiphon.server.context import Context

S = TypeVar("S")


class PerCaller(Generic[S]):
    """Keep one object for each caller: ``basket: Annotated[list[str], Depends(PerCaller(list))]``.

    A caller is a principal, on whatever connection. One without a principal is its connection, and its object ends with
    the connection; so at 2026-07-28 over HTTP, where no request belongs to another, it has a new object each time.

    Args:
        make: makes the object of a new caller.
        max_callers: most principals with an object, 10,000 by default; then the object that was not used for the
            longest time is dropped.
    """

    def __init__(self, make: Callable[[], S], *, max_callers: int = 10_000) -> None:
        if max_callers < 1:
            raise ConfigError(f"PerCaller(max_callers=) must be at least 1, got {max_callers}")
        self._make = make
        self._max_callers = max_callers
        self._by_principal: OrderedDict[str, S] = OrderedDict()
        self._by_connection: WeakKeyDictionary[object, S] = WeakKeyDictionary()
        self._lock = Lock()

    def __call__(self, ctx: Context) -> S:
        """Return the object of the caller.

        Args:
            ctx: the context of the call.
        """
        # Dependencies run in threads, so two calls of a new caller may arrive here together.
        with self._lock:
            principal = ctx.request.principal
            if principal is None:
                connection = ctx.request.connection
                if connection not in self._by_connection:
                    self._by_connection[connection] = self._make()
                return self._by_connection[connection]
            if principal not in self._by_principal:
                self._by_principal[principal] = self._make()
            self._by_principal.move_to_end(principal)
            while len(self._by_principal) > self._max_callers:
                self._by_principal.popitem(last=False)
            return self._by_principal[principal]
