"""A person's function, ready to be called: whether it is async, whether it wants the context, how its result is had.

Owns the call itself. What goes in is ``arguments``' business, what comes out is that of tools, resources and prompts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from antiphon.server.signature import Signature
from antiphon.server.workers import in_thread

__all__ = ["UserFunction"]


class UserFunction:
    """A function and how to run it. One that is not async runs in a thread, unless ``inline``."""

    __slots__ = ("call", "context", "inline", "is_async")

    def __init__(self, function: Callable[..., Any], signature: Signature, *, inline: bool = False) -> None:
        self.call = function
        self.context = signature.context
        """Name of the parameter that takes the context, or ``None``."""
        self.is_async = signature.is_async
        self.inline = inline

    async def run(self, values: dict[str, Any], context: Any) -> Any:
        """Call the function with these keyword arguments, which are taken over, and the context if it wants it."""
        if self.context is not None:
            values[self.context] = context
        if self.is_async:
            return await self.call(**values)
        value = self.call(**values) if self.inline else await in_thread(partial(self.call, **values))
        # A plain function may still hand out a coroutine: a wrapper that is not async around a function that is.
        return await value if inspect.isawaitable(value) else value
