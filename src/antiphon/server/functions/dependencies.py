"""Dependencies of functions: ``db: Annotated[Db, Depends(get_db)]``, made for each call and closed after it.

Owns ``Depends``, which functions can provide a value, and the order in which they run: each once in a call, one after
another in the order of the parameters, so that a replay asks its client in the same order. They are no arguments: no
schema has them, and nothing of them is recorded.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from antiphon.errors import ConfigError
from antiphon.server.functions.signature import Signature, read_signature

Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a call: in a thread, or on the event loop."""

_CONTEXT = "(context)"
"""The argument for the context: a name that no parameter can have."""


class Depends:
    """Fill in a parameter with what a function provides: ``db: Annotated[Db, Depends(get_db)]``.

    The function may take other dependencies and the context. It returns the value, or yields it once and closes it
    behind the ``yield``, where an exception of the handler is raised again. It may be async; one that is not runs in a
    thread, as handlers do.

    Args:
        dependency: the function, or one that returns a context manager (``@asynccontextmanager``), which is entered.
        use_cache: call it once for all parameters of a call; false for a value of its own.
    """

    __slots__ = ("dependency", "use_cache")
    __antiphon_dependency__ = True
    """``signature`` recognises a dependency by this attribute."""

    def __new__(cls, dependency: Callable[..., Any], *, use_cache: bool = True) -> Any:
        """Make a dependency. Typed as ``Any``, so that it may also be a default: ``db: Db = Depends(get_db)``."""
        if not callable(dependency):
            raise ConfigError(f"Depends() takes a function, and not what its call returns: {dependency!r}")
        made = super().__new__(cls)
        made.dependency, made.use_cache = dependency, use_cache
        return made

    dependency: Callable[..., Any]
    use_cache: bool


class _Provider:
    """What provides one dependency: its function, and the providers of the function's own parameters."""

    def __init__(self, wanted: Depends, chain: tuple[Any, ...], run: Run) -> None:
        function = wanted.dependency
        if function in chain:
            raise ConfigError(f"the dependency {getattr(function, '__qualname__', function)} needs itself")
        signature = read_signature(function, noun="dependency", yields=True)
        if asked := [parameter.name for parameter in signature.parameters if parameter.required]:
            raise ConfigError(
                f"{signature.place}: parameter {asked[0]!r} is no dependency: annotate it with Depends(...), take "
                "ctx: Context, or give it a default"
            )
        self.function = function
        self.needs = _list_providers(signature, (*chain, function), run)
        self._key: Any = function if wanted.use_cache else self
        self._manage = _find_manager(function)
        self.context = signature.context
        self._run = _call_here if signature.is_async else run

    def walk(self) -> Iterator[_Provider]:
        """Yield this provider and all that it needs."""
        yield self
        for inner in self.needs.values():
            yield from inner.walk()

    async def provide(self, context: Any, made: dict[Any, Any], stack: AsyncExitStack) -> Any:
        """Return the value for one call. ``made``: the values so far; ``stack``: closes them in reverse order."""
        if self._key in made:
            return made[self._key]
        values = {name: await inner.provide(context, made, stack) for name, inner in self.needs.items()}
        if self.context is not None:
            values[self.context] = context
        if self._manage is None:
            value = await self._run(partial(self.function, **values))
            value = await value if inspect.isawaitable(value) else value
        else:
            value = await self._enter(self._manage(**values), stack)
        made[self._key] = value
        return value

    async def _enter(self, manager: Any, stack: AsyncExitStack) -> Any:
        if hasattr(manager, "__aenter__"):
            return await stack.enter_async_context(manager)
        value = await self._run(manager.__enter__)

        async def leave(*error: object) -> bool | None:
            return await self._run(partial(manager.__exit__, *error))

        stack.push_async_exit(leave)
        return value


async def _call_here(call: Callable[[], Any]) -> Any:
    return call()


def _find_manager(function: Any) -> Callable[..., Any] | None:
    """Return what makes the context manager of a call, for a function that yields; ``None`` for any other."""
    inner = inspect.unwrap(function)
    for each in (inner, type(inner).__call__):
        if inspect.isasyncgenfunction(each):
            return asynccontextmanager(function) if inner is function else function
        if inspect.isgeneratorfunction(each):
            return contextmanager(function) if inner is function else function
    return None


def _list_providers(signature: Signature, chain: tuple[Any, ...], run: Run) -> dict[str, _Provider]:
    return {name: _Provider(wanted, chain, run) for name, wanted in signature.dependencies.items()}


def inject_dependencies(
    function: Callable[..., Any], signature: Signature, in_thread: Run | None
) -> tuple[Callable[..., Awaitable[Any]], str | None, list[Callable[..., Any]]]:
    """Return a function that provides the dependencies of another one around each call of it.

    Also the name of its argument that takes the context, if any takes it, and the functions of the dependencies.

    Raises:
        ConfigError: a dependency has a parameter that nothing fills in, or needs itself.
    """
    run = in_thread or _call_here
    providers = _list_providers(signature, (), run)
    needed = [each for first in providers.values() for each in first.walk()]
    own, run_own = signature.context, _call_here if signature.is_async else run

    @functools.wraps(function)
    async def call(**values: Any) -> Any:
        context = values.pop(_CONTEXT, None)
        async with AsyncExitStack() as stack:
            made: dict[Any, Any] = {}
            for name, provider in providers.items():
                values[name] = await provider.provide(context, made, stack)
            if own is not None:
                values[own] = context
            value = await run_own(partial(function, **values))
            return await value if inspect.isawaitable(value) else value
        raise ConfigError(f"{signature.place}: a dependency has caught the exception; raise it again after cleaning up")

    takes_context = own is not None or any(each.context is not None for each in needed)
    return call, _CONTEXT if takes_context else None, [each.function for each in needed]
