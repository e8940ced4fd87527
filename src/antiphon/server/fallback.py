"""The server's own model, for clients without sampling.

Owns the forms in which an author may give a model, and the conversion of its answers. ``tool_loop`` decides when it is
used: never after the client refused.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, cast, runtime_checkable

from antiphon.errors import CallTimeout, ConfigError, SamplingFailed, SamplingUnavailable
from antiphon.wire.content import TextContent
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

log = logging.getLogger("antiphon.server")

Completion = str | CreateMessageResult


@runtime_checkable
class Completes(Protocol):
    """An object with a ``complete`` method, such as every provider of ``antiphon.host``."""

    async def complete(self, params: CreateMessageRequestParams) -> Completion:
        """Return a completion; a string is a text answer.

        Args:
            params: the request.
        """
        ...


SamplingFallback = Completes | Callable[[CreateMessageRequestParams], Awaitable[Completion]]
"""The server's own model: an async function of the request's params, or an object with ``complete(params)``."""


class Fallback:
    """The server's own model. Raises ``ConfigError`` for anything that cannot be one."""

    __slots__ = ("_complete", "_takes_tools")

    def __init__(self, given: SamplingFallback) -> None:
        self._takes_tools = bool(getattr(given, "tools", True))
        complete = given.complete if isinstance(given, Completes) else given
        if not callable(complete) or not _takes_one(complete):
            raise ConfigError(
                "sampling_fallback= must be an async function of one argument, the params of the request, or an object "
                f"with complete(params), such as a provider of antiphon.host; got {given!r}"
            )
        self._complete = complete

    def stands_for(self, needed: str) -> bool:
        """Return whether this model can replace a client capability, such as ``sampling.tools``."""
        return needed == "sampling" or (needed == "sampling.tools" and self._takes_tools)

    async def complete(self, params: CreateMessageRequestParams, timeout: float | None) -> CreateMessageResult:
        """Complete one request, within ``timeout`` seconds."""
        if params.tools and not self._takes_tools:
            raise SamplingUnavailable("Neither the client nor the server's own model takes tools in sampling")
        clock = asyncio.timeout(timeout)
        try:
            async with clock:
                answer = await self._complete(params)
        except Exception as error:
            if clock.expired():
                raise CallTimeout(f"The server's own model did not answer within {timeout:g} s") from None
            log.exception("sampling_fallback failed")
            raise SamplingFailed(f"The server's own model failed: {type(error).__name__}") from error
        if isinstance(answer, str):
            return CreateMessageResult(
                role="assistant", content=TextContent(text=answer), model="unnamed", stop_reason="endTurn"
            )
        if not isinstance(cast("object", answer), CreateMessageResult):
            raise SamplingFailed(f"The server's own model gave a {type(answer).__name__}: give text or a result")
        return answer


def _takes_one(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError):
        return False
    return True
