"""Ready middleware for servers: ``server.middleware(TimingMiddleware())``.

Owns what most servers would write themselves, with nothing that an author could not write over ``@server.middleware``.
The names are those of FastMCP where it has such a middleware.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from hashlib import sha256
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

from antiphon.errors import InternalError, PeerError
from antiphon.server.as_tools import PromptsAsTools, ResourcesAsTools
from antiphon.server.rate_limits import Rate, RateLimiter
from antiphon.server.server_middleware import CallNext, ServerRequest
from antiphon.server.tool_search import SearchTools
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.prompts import GetPromptResult
from antiphon.wire.resources import ReadResourceResult
from antiphon.wire.tools import CallToolResult, fail_tool

__all__ = [
    "ErrorHandlingMiddleware",
    "LoggingMiddleware",
    "PromptsAsTools",
    "RateLimitingMiddleware",
    "ResourcesAsTools",
    "ResponseCachingMiddleware",
    "ResponseLimitingMiddleware",
    "RetryMiddleware",
    "SearchTools",
    "TimingMiddleware",
]

Clock = Callable[[], float]
"""Returns seconds."""

log = logging.getLogger("antiphon.server")

_MAX_LOGGED = 16 * 1024
"""Most characters of a request or a result that are searched for secrets: enough for any line that is read."""

_ENTRY = 500
"""Bytes that a result in a cache takes besides its own."""


def _mask(text: str) -> str:
    # Loaded when something is logged: a host's module, which most servers do not need.
    from antiphon.host.checks.redact import mask_text

    return mask_text(text[:_MAX_LOGGED])


def _describe(request: ServerRequest) -> str:
    """Return the method, and what is called, in one line without what looks like a secret."""
    subject = getattr(request.params, "name", None) or getattr(request.params, "uri", None)
    # Masked before it is cut, so that no half of a secret is left at the end.
    return request.method if subject is None else f"{request.method} {ascii(_mask(subject)[:128])[1:-1]}"


class TimingMiddleware(Struct, eq=False):
    """Log how long each request took. The time in which a person thinks counts, too.

    Args:
        logger: where to log; ``antiphon.server`` by default.
        log_level: level of the records, ``INFO`` by default.
        clock: returns seconds.
    """

    logger: logging.Logger = log
    log_level: int = logging.INFO
    clock: Clock = time.perf_counter

    async def __call__(self, request: ServerRequest, call_next: CallNext) -> Any:
        """Log the time of a request."""
        begun = self.clock()
        try:
            return await call_next(request)
        finally:
            taken = (self.clock() - begun) * 1000
            self.logger.log(self.log_level, "%s took %.1f ms", _describe(request), taken)


class LoggingMiddleware(Struct, eq=False):
    """Log each request and how it ended, with what looks like a secret masked.

    Args:
        logger: where to log; ``antiphon.server`` by default.
        log_level: level of the records, ``INFO`` by default; failures are warnings.
        include_payloads: log params and results as JSON, too.
        max_payload_length: most characters of each, 1,000 by default.
    """

    logger: logging.Logger = log
    log_level: int = logging.INFO
    include_payloads: bool = False
    max_payload_length: int = 1_000

    async def __call__(self, request: ServerRequest, call_next: CallNext) -> Any:
        """Log a request and its end."""
        name = _describe(request)
        self.logger.log(self.log_level, "%s%s", name, self._render(request.params))
        try:
            result = await call_next(request)
        except Exception as error:
            self.logger.warning("%s failed: %s", name, self._shorten(f"{type(error).__name__}: {error}"))
            raise
        level = logging.WARNING if getattr(result, "is_error", False) else self.log_level
        self.logger.log(level, "%s ended%s", name, self._render(result))
        return result

    def _render(self, value: object) -> str:
        if not self.include_payloads:
            return ""
        if getattr(value, "meta", None) is not None:
            # What it holds is about the connection, and would fill the line.
            value = structs.replace(cast("Any", value), meta=None)
        return f" {self._shorten(encode_value(value)[: 4 * _MAX_LOGGED].decode(errors='replace'))}"

    def _shorten(self, text: str) -> str:
        masked = _mask(text)
        return masked if len(masked) <= self.max_payload_length else f"{masked[: self.max_payload_length]}..."


class ErrorHandlingMiddleware(Struct, eq=False):
    """Tell clients of failures by a number only, and log the rest under this number, with what looks secret masked.

    The text of an exception that is no ``ToolError`` is never sent; this also hides what a ``ToolError`` says. Errors
    of the protocol, such as ``InvalidParams`` or ``Rejected``, stay, since clients act on them.

    Args:
        logger: where to log; ``antiphon.server`` by default.
        error_callback: called with each failure as well: its number, its method and its text; none by default.
    """

    logger: logging.Logger = log
    error_callback: Callable[[str, str, str], object] | None = None

    async def __call__(self, request: ServerRequest, call_next: CallNext) -> Any:
        """Mask the failure of a request."""
        try:
            result = await call_next(request)
        except PeerError as error:
            if not isinstance(error, InternalError):
                raise
            text = error.message
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        else:
            if not getattr(result, "is_error", False):
                return result
            return fail_tool(self._note(request, result.text or "a result that is an error"))
        raise InternalError(self._note(request, text)) from None

    def _note(self, request: ServerRequest, text: str) -> str:
        number = secrets.token_hex(4)
        self.logger.error("%s failed (error %s): %s", _describe(request), number, _mask(text))
        if self.error_callback is not None:
            self.error_callback(number, request.method, text)
        return f"It failed (error {number})."


class RateLimitingMiddleware:
    """Limit how often each caller calls tools. A call over the rate waits its turn, or is refused.

    A caller is a principal, or a connection without one. ``Server(tool_rate=)`` is a limit for all tools together.

    Args:
        rate: rate of every tool that is not in ``tools``, each by itself; no limit by default.
        tools: rates by the names of tools.
        clock: returns seconds.
    """

    def __init__(
        self, rate: Rate | None = None, *, tools: Mapping[str, Rate] | None = None, clock: Clock = time.monotonic
    ) -> None:
        self._limits = {name: RateLimiter(each, clock) for name, each in (tools or {}).items()}
        self._others = None if rate is None else RateLimiter(rate, clock)

    async def __call__(self, request: ServerRequest, call_next: CallNext) -> Any:
        """Let a call wait for its turn."""
        if request.method == "tools/call":
            name, caller = request.params.name, request.ctx.request.principal or id(request.client)
            is_known = request.find_tool(name) is not None
            # A rate by its name would tell of a tool that is hidden.
            limit, key = self._limits.get(name) if is_known or name not in request.ctx.server.tools else None, caller
            if limit is None:
                # Names come from clients: those that no tool has share one bucket.
                limit, key = self._others, (caller, name if is_known else None)
            if limit is not None and (wait := limit.take(key)):
                await asyncio.sleep(wait)
        return await call_next(request)


class ResponseLimitingMiddleware(Struct, eq=False, kw_only=True):
    """Keep results of tools below a size: text is cut, other results become an error that says so.

    Args:
        max_size: most bytes of a result as JSON; a million by default.
        truncation_suffix: ends a text that was cut.
        tools: names of the tools that are limited; all by default.
    """

    max_size: int = 1_000_000
    truncation_suffix: str = "\n[... cut]"
    tools: Collection[str] | None = None

    async def __call__(self, request: ServerRequest, call_next: CallNext) -> Any:
        """Cut a result that is too large."""
        result = await call_next(request)
        is_limited = isinstance(result, CallToolResult) and (self.tools is None or request.params.name in self.tools)
        if not is_limited or (size := len(encode_value(result))) <= self.max_size:
            return result
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        rest = structs.replace(result, content=[TextContent(text=self.truncation_suffix)])
        room = self.max_size - len(encode_value(rest))
        if result.structured_content is not None or not text or room < 0:
            return fail_tool(f"The result has {size} bytes, and at most {self.max_size} are sent. Ask for less.")
        # In JSON a character takes up to six bytes.
        while (size := len(encode_value(text)) - 2) > room:
            text = text[: len(text) * room // size]
        return structs.replace(result, content=[TextContent(text=text + self.truncation_suffix)])


class RetryMiddleware(Struct, eq=False, kw_only=True):
    """Try a request again if its handler raised an exception that may pass, such as ``ConnectionError``.

    A tool is called again only if its annotations say that it only reads or is idempotent, and if the client was not
    asked meanwhile.

    Args:
        max_retries: most further attempts, 3 by default.
        base_delay: seconds before the second attempt, 1 by default; twice as many before each further one.
        max_delay: most seconds before an attempt, 60 by default.
        retry_exceptions: classes of exceptions that may pass.
        sleep: waits for some seconds.
    """

    max_retries: int = 3
    base_delay: float = 1.0
    max_delay: float = 60.0
    retry_exceptions: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    async def __call__(self, request: ServerRequest, call_next: CallNext) -> Any:
        """Try a request until it succeeds."""
        for attempt in range(self.max_retries):
            try:
                result = await call_next(request)
            except self.retry_exceptions:
                if not self._may_repeat(request):
                    raise
            else:
                failure = request.failure if getattr(result, "is_error", False) else None
                if failure is None or not issubclass(failure, self.retry_exceptions) or not self._may_repeat(request):
                    return result
            await self.sleep(min(self.base_delay * 2**attempt, self.max_delay))
        return await call_next(request)

    def _may_repeat(self, request: ServerRequest) -> bool:
        # Also after an exception: other middleware may raise one when the tool has run.
        return not request.has_asked and (request.method != "tools/call" or getattr(request.feature, "repeats", False))


class ResponseCachingMiddleware:
    """Give the result of a tool, a resource or a prompt again, to the same principal, scopes and arguments.

    Callers without a principal share results. Errors are not kept, nor what the client was asked for; what is hidden,
    removed or replaced meanwhile is not given again.

    Args:
        tools: seconds by the names of tools, beside those with ``cache=``.
        resources: seconds by URIs, likewise.
        prompts: seconds by the names of prompts, likewise.
        max_bytes: most bytes of all results, 64 MiB by default; what was not used for the longest time is dropped.
        clock: returns seconds.
    """

    def __init__(
        self, *, tools: Mapping[str, float] | None = None, resources: Mapping[str, float] | None = None,
        prompts: Mapping[str, float] | None = None, max_bytes: int = 64 * 1024 * 1024, clock: Clock = time.monotonic,
    ) -> None:  # fmt: skip
        self._seconds = {"tools/call": tools or {}, "resources/read": resources or {}, "prompts/get": prompts or {}}
        self._most, self._clock = max_bytes, clock
        self._kept: OrderedDict[object, tuple[float, int, Any]] = OrderedDict()
        self._bytes = 0

    async def __call__(self, request: ServerRequest, call_next: CallNext) -> Any:
        """Answer from the cache, or fill it."""
        subject: str = getattr(request.params, "name", None) or getattr(request.params, "uri", "")
        feature, facts = request.feature, request.ctx.request
        seconds = self._seconds.get(request.method, {}).get(subject, getattr(feature, "cache", None))
        if not seconds:
            return await call_next(request)
        arguments = sha256(msgspec.json.encode(request.arguments, order="sorted")).digest()
        # With the scopes, which may be checked behind this, and the feature, which may be replaced, or hidden by now.
        key = request.method, subject, feature, facts.principal, facts.scopes, arguments
        known = self._kept.get(key)
        if known is not None and known[0] > self._clock():
            self._kept.move_to_end(key)
            return known[2]
        result = await call_next(request)
        is_final = isinstance(result, CallToolResult | ReadResourceResult | GetPromptResult)
        if is_final and not getattr(result, "is_error", False) and not request.has_asked:
            self._keep(key, seconds, result)
        return result

    def _keep(self, key: object, seconds: float, result: Any) -> None:
        self._drop(key)
        size = len(encode_value(result)) + _ENTRY
        self._kept[key] = self._clock() + seconds, size, result
        self._bytes += size
        while self._bytes > self._most:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: object) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self._bytes -= old[1]
