"""An author's function, ready to be called: whether it is async, whether it takes the context, and its dependencies.

Owns the call itself; ``arguments`` converts its input; tools, resources and prompts convert its result.
A function that is not async runs in one of a bounded set of threads (``Workers``), which are kept. Unlike
``asyncio.to_thread`` this shares no threads with name look-ups, and the threads are daemons, so that a function that
never returns does not keep the process alive after its client has gone.

Dependencies (``db: Annotated[Db, Depends(get_db)]``) are made for each call, each once, one after another in the order
of the parameters, so that a replay asks its client in the same order, and closed after it. They are no arguments: no
schema has them, and nothing of them is recorded.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from itertools import count
from queue import SimpleQueue
from types import CodeType
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import ConfigError
from antiphon.machine.asyncio_tasks import settle_future
from antiphon.server.functions.signature import Signature, read_signature


class UserFunction:
    """A function and how to run it. One that is not async runs in a thread, unless ``inline``."""

    __slots__ = ("_code", "_needed", "call", "context", "inline", "is_async")

    def __init__(self, function: Callable[..., Any], signature: Signature, *, inline: bool = False) -> None:
        self.call = function
        self.context = signature.context
        """Name of the parameter that takes the context, or ``None``."""
        self.is_async = signature.is_async
        self.inline = inline
        self._code = b""
        self._needed: Sequence[Callable[..., Any]] = ()
        """The functions that provide its dependencies."""
        if signature.dependencies:
            self.call, self.context, self._needed = inject_dependencies(function, signature, inline=inline)
            self.is_async = True

    @property
    def code(self) -> bytes:
        """The digest of the function's code, and of its dependencies'."""
        if not self._code:
            self._code = b"".join(map(digest_code, (self.call, *self._needed)))
        return self._code

    async def run(self, values: dict[str, Any], context: Any) -> Any:
        """Call the function with these keyword arguments, which it may modify, and with the context if it takes it."""
        if self.context is not None:
            values[self.context] = context
        try:
            runs_here = self.is_async or self.inline
            value = self.call(**values) if runs_here else await in_thread(partial(self.call, **values))
            # A plain function may return a coroutine, if it wraps an async function.
            return await value if inspect.isawaitable(value) else value
        except SystemExit as error:
            # A parser of a command line that the function uses raises it; the server serves others, too.
            raise RuntimeError(f"SystemExit: {error}") from error


def holds_context(function: Any) -> bool:
    """Return whether a function can reach a context through its closure, or through the object it is bound to."""
    while isinstance(function, partial):
        function = function.func
    bound: dict[str, Any] = getattr(getattr(function, "__self__", None), "__dict__", {})
    function = inspect.unwrap(function)
    held = (*bound.values(), *_list_cells(function))
    return any(getattr(value.__class__, "__antiphon_context__", False) is True for value in held)


def _list_cells(function: Any) -> list[Any]:
    cells: tuple[Any, ...] = getattr(function, "__closure__", None) or ()
    held: list[Any] = []
    for cell in cells:
        # A variable of the outer function without a value is an empty cell.
        with suppress(ValueError):
            held.append(cell.cell_contents)
    return held


def digest_code(function: Callable[..., Any]) -> bytes:
    """Compute the digest of a function's instructions, names and constants, or of its type's ``__call__``."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _list_parts(_code_of(function)):
        digest.update(part)
        digest.update(b"\0")
    return digest.digest()


def _code_of(function: Any) -> CodeType:
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__code__") and not hasattr(function, "__func__"):
        function = type(function).__call__
    # A function written in C has no code.
    return getattr(getattr(function, "__func__", function), "__code__", (lambda: None).__code__)


def _list_parts(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield " ".join((*code.co_names, *code.co_varnames, *code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_parts(constant)
        elif isinstance(constant, frozenset):
            # The order of a set differs between processes.
            yield repr(sorted(map(repr, cast("frozenset[object]", constant)))).encode()
        else:
            yield repr(constant).encode()


MAX_THREADS = 40
"""Most functions that run at the same time; others wait. The same number as anyio's default, which other servers
use."""


class _Job(Struct, frozen=True):
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    context: Context
    call: Callable[[], Any]


class Workers:
    """Up to ``limit`` threads that run calls in order of arrival, those of several event loops as well."""

    def __init__(self, limit: int = MAX_THREADS) -> None:
        self._startable, self._idle, self._count = threading.Semaphore(limit), threading.Semaphore(0), count(1)
        self._jobs: SimpleQueue[_Job] = SimpleQueue()

    async def run(self, call: Callable[[], Any]) -> Any:
        """Run ``call`` in a thread, with the caller's context; a call that has begun outlives its caller."""
        loop = asyncio.get_running_loop()
        if not self._idle.acquire(blocking=False) and self._startable.acquire(blocking=False):
            thread = threading.Thread(target=self._work, name=f"antiphon-{next(self._count)}", daemon=True)
            try:
                # Outside the context of this call, which a thread of a free-threaded Python would keep.
                Context().run(thread.start)
            except BaseException:
                # The system has no more threads now, but may have one for a later call.
                self._startable.release()
                raise
        future: asyncio.Future[Any] = loop.create_future()
        self._jobs.put(_Job(loop, future, copy_context(), call))
        return await future

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            value, failure = (None, None) if job.future.cancelled() else _perform_job(job)
            # Marked idle before the result is delivered, so that the receiver's next call finds this
            # thread.
            self._idle.release()
            # If the loop was closed meanwhile, nobody waits for the result.
            with suppress(RuntimeError):
                job.loop.call_soon_threadsafe(settle_future, job.future, failure, value)
            del job, value, failure


def _perform_job(job: _Job) -> tuple[Any, BaseException | None]:
    try:
        return job.context.run(job.call), None
    except (SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit) as error:
        # The first ends the thread silently, the second, which no signal raises in a thread, the server, and the last
        # two the coroutine that waits.
        return None, RuntimeError(f"{type(error).__name__} in a thread: {error}")
    except BaseException as error:
        return None, error


_workers = Workers()
in_thread = _workers.run
"""Run a call in one of the process's worker threads. See ``Workers.run``."""
if hasattr(os, "register_at_fork"):
    # A forked child has none of the threads.
    os.register_at_fork(after_in_child=_workers.__init__)


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


class _Step(Struct, frozen=True):
    """One call of those that a handler with dependencies takes: of a dependency, or of the handler itself."""

    function: UserFunction
    """For a dependency that yields it makes the context manager."""
    needs: dict[str, Any]
    """The keys of the steps whose values fill in its parameters, by their names."""
    is_managed: bool
    inline: bool

    async def perform(self, values: dict[str, Any], context: Any, stack: AsyncExitStack) -> Any:
        """Return the value for one call, with these arguments; ``stack`` closes it."""
        manager = await self.function.run(values, context)
        if not self.is_managed:
            return manager
        if hasattr(manager, "__aenter__"):
            return await stack.enter_async_context(manager)
        if self.inline:
            return stack.enter_context(manager)
        value = await in_thread(manager.__enter__)

        async def leave(*error: object) -> bool | None:
            return await in_thread(partial(manager.__exit__, *error))

        stack.push_async_exit(leave)
        return value


def _add_step(
    steps: dict[Any, _Step], key: Any, function: Any, signature: Signature, inline: bool, chain: tuple[Any, ...] = ()
) -> None:
    """Add the step of a function after those of its dependencies.

    ``key``: name of its value, ``None`` for the handler; ``chain``: what needs the function, from the handler on.
    """
    needs: dict[str, Any] = {}
    for name, wanted in signature.dependencies.items():
        inner = wanted.dependency
        if inner in (*chain, function):
            raise ConfigError(f"the dependency {getattr(inner, '__qualname__', inner)} needs itself")
        needs[name] = inner if wanted.use_cache else object()
        if needs[name] not in steps:
            read = read_signature(inner, noun="dependency", yields=True)
            if asked := [parameter.name for parameter in read.parameters if parameter.required]:
                raise ConfigError(
                    f"{read.place}: parameter {asked[0]!r} is no dependency: annotate it with Depends(...), take "
                    "ctx: Context, or give it a default"
                )
            _add_step(steps, needs[name], inner, read, inline, (*chain, function))
    manage = _find_manager(function) if chain else None
    called = UserFunction(manage or function, replace(signature, dependencies={}), inline=inline or manage is not None)
    steps[key] = _Step(called, needs, manage is not None, inline)


def _find_manager(function: Any) -> Callable[..., Any] | None:
    """Return what makes the context manager of a call, for a function that yields; ``None`` for any other."""
    inner = inspect.unwrap(function)
    for each in (inner, type(inner).__call__):
        if inspect.isasyncgenfunction(each):
            return asynccontextmanager(function) if inner is function else function
        if inspect.isgeneratorfunction(each):
            return contextmanager(function) if inner is function else function
    return None


def inject_dependencies(
    function: Callable[..., Any], signature: Signature, *, inline: bool
) -> tuple[Callable[..., Awaitable[Any]], str | None, list[Callable[..., Any]]]:
    """Return a function that provides the dependencies of another one around each call of it.

    Also the name of its argument that takes the context, if any takes it, and the functions of the dependencies. Raises
    ``ConfigError``: a dependency has a parameter that nothing fills in, or needs itself.
    """
    steps: dict[Any, _Step] = {}
    _add_step(steps, None, function, signature, inline)

    @functools.wraps(function)
    async def call(**values: Any) -> Any:
        context, made = values.pop(_CONTEXT, None), dict[Any, Any]()
        async with AsyncExitStack() as stack:
            for key, step in steps.items():
                needed = {name: made[each] for name, each in step.needs.items()}
                made[key] = await step.perform({**values, **needed} if key is None else needed, context, stack)
            return made[None]
        raise ConfigError(f"{signature.place}: a dependency has caught the exception; raise it again after cleaning up")

    takes_context = any(step.function.context is not None for step in steps.values())
    return call, _CONTEXT if takes_context else None, [step.function.call for step in steps.values()][:-1]
