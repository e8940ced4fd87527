"""Run a handler where it is called, and learn at once when it first has to wait.

Most handlers never wait, and a task for each would cost more than they do. So the task that reads frames runs
them itself. The moment one waits, ``waits`` is called: that task now belongs to the handler, and its owner lets
another take over the reading. A handler that has a task of its own anyway is awaited there (``run_alone``).
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, TypeVar

__all__ = ["drive", "run_alone"]

T = TypeVar("T")
A = TypeVar("A")


_PASSING = (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit)
"""What goes through as it is: failures, and the ends of a task and of the process."""


@types.coroutine
def drive(handler: Coroutine[Any, Any, T], waits: Callable[[A], object], subject: A) -> Generator[Any, Any, T]:
    """Await ``handler`` in a context of its own; call ``waits(subject)`` before it is suspended for the first time.

    The context (``contextvars``) is a copy, so that what one handler sets is not seen by the next in the same task.
    """
    context = copy_context()
    try:
        pending = context.run(handler.send, None)
    except StopIteration as stop:
        return stop.value
    except _PASSING:
        raise
    except BaseException as error:
        raise _failure(error) from error
    try:
        waits(subject)
    except BaseException:
        handler.close()
        raise
    return (yield from _go_on(handler, context, pending))


def _go_on(handler: Coroutine[Any, Any, T], context: Context, pending: Any) -> Generator[Any, Any, T]:
    while True:
        try:
            value = yield pending
        except GeneratorExit:
            handler.close()
            raise
        except BaseException as error:
            step, argument = handler.throw, error
        else:
            step, argument = handler.send, value
        try:
            pending = context.run(step, argument)
        except StopIteration as stop:
            return stop.value
        except _PASSING:
            # An exception that was thrown in leads to this frame; kept here, both would be garbage.
            argument = step = None
            raise
        except BaseException as error:
            raise _failure(error) from error


async def run_alone(handler: Coroutine[Any, Any, T], waits: Callable[[A], object], subject: A) -> T:
    """Await ``handler`` in a task that is its alone: ``waits(subject)`` is called at once, whether it does or not.

    It has the context of that task, and costs less to be resumed than one that is driven.
    """
    waits(subject)
    try:
        return await handler
    except _PASSING:
        raise
    except BaseException as error:
        raise _failure(error) from error


def _failure(error: BaseException) -> RuntimeError:
    # What test runners raise to get past those who catch every ``Exception``, or a ``GeneratorExit`` of the handler's
    # own, would end the task that runs it, and leave the peer without an answer. PEP 479 does so with StopIteration.
    return RuntimeError(f"the handler raised {type(error).__name__}")
