"""An author's function, ready to be called: whether it is async, and whether it takes the context.

Owns the call itself; ``arguments`` converts its input; tools, resources and prompts convert its result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from antiphon.server.functions.signature import Signature
from antiphon.server.functions.workers import in_thread

__all__ = ["UserFunction", "holds_context"]


class UserFunction:
    """A function and how to run it. One that is not async runs in a thread, unless ``inline``."""

    __slots__ = ("_code", "call", "context", "inline", "is_async")

    def __init__(self, function: Callable[..., Any], signature: Signature, *, inline: bool = False) -> None:
        self.call = function
        self.context = signature.context
        """Name of the parameter that takes the context, or ``None``."""
        self.is_async = signature.is_async
        self.inline = inline
        self._code = b""

    @property
    def code(self) -> bytes:
        """The digest of the function's code."""
        if not self._code:
            from antiphon.server.functions.code_digest import digest_code

            self._code = digest_code(self.call)
        return self._code

    async def run(self, values: dict[str, Any], context: Any) -> Any:
        """Call the function with these keyword arguments, which it may modify, and with the context if it takes it."""
        if self.context is not None:
            values[self.context] = context
        if self.is_async:
            return await self.call(**values)
        value = self.call(**values) if self.inline else await in_thread(partial(self.call, **values))
        # A plain function may return a coroutine, if it wraps an async function.
        return await value if inspect.isawaitable(value) else value


def holds_context(function: Any) -> bool:
    """Tell whether a function can reach a context through its closure, or through the object it is bound to."""
    while isinstance(function, partial):
        function = function.func
    bound: dict[str, Any] = getattr(getattr(function, "__self__", None), "__dict__", {})
    function = inspect.unwrap(function)
    return any(_is_context(value) for value in (*bound.values(), *_cells(function)))


def _cells(function: Any) -> list[Any]:
    cells: tuple[Any, ...] = getattr(function, "__closure__", None) or ()
    held: list[Any] = []
    for cell in cells:
        # A variable of the outer function without a value is an empty cell.
        with suppress(ValueError):
            held.append(cell.cell_contents)
    return held


def _is_context(value: Any) -> bool:
    kind: type[Any] = value.__class__
    return getattr(kind, "__antiphon_context__", False) is True
