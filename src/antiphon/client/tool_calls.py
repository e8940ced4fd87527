"""Steps around each tool call: consent before it, a look-up of missing headers, and validation of the result.

Owns who is asked for consent, before anything of the call is sent, and which parts learn from a list of the server's
tools or forget it when it changes. A ``Host``, or any such function, decides. ``client`` and ``by_hand`` make the call
itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from msgspec import structs

from antiphon.client.features.cache import Cache
from antiphon.client.features.mirrored_headers import ToolHeaders
from antiphon.client.features.output_schemas import Outputs
from antiphon.client.link import Link
from antiphon.client.requests.attempts import TimeLeft
from antiphon.errors import ConfigError, HeaderMismatch, Rejected
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, ListToolsResult, Tool

__all__ = ["Confirmer", "Confirming", "Consent", "ToolCalls"]

Confirmer = Callable[[CallToolRequestParams, Origin], Awaitable[bool | None]]
"""Decides about a tool call: true allows it. Anything else, or raising ``Rejected``, refuses it."""

MAX_TOOLS = 10_000
"""Most tools whose definitions are remembered."""


@runtime_checkable
class Confirming(Protocol):
    """An object that decides about tool calls, such as a ``Host``."""

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool | None:
        """Decide about one call; see ``Confirmer``.

        Args:
            params: the call.
            origin: the server, and what it says about the tool.
        """
        ...


class Consent:
    """The consent to tool calls of one client."""

    def __init__(self, confirm: Confirmer | Confirming | None, timeout: float | None) -> None:
        if confirm is not None and not (callable(confirm) or hasattr(confirm, "confirm")):
            raise ConfigError(f"confirm= must be an async function (params, origin), or a Host; got {confirm!r}")
        self._confirm: Any = confirm.confirm if isinstance(confirm, Confirming) else confirm
        self._timeout = timeout
        self._tools: dict[str, Tool] = {}
        self._complete = False

    @property
    def is_needed(self) -> bool:
        """Whether there is somebody to ask."""
        return self._confirm is not None

    def learn(self, tools: Sequence[Tool]) -> None:
        """Remember the definitions of some tools."""
        for tool in tools if self._confirm is not None else ():
            if tool.name in self._tools or len(self._tools) < MAX_TOOLS:
                self._tools[tool.name] = tool

    def forget(self) -> None:
        """Forget all definitions, because the server's tools have changed."""
        self._tools.clear()
        self._complete = False

    async def ask(
        self,
        params: CallToolRequestParams,
        origin: Callable[[CallToolRequestParams, Tool | None], Origin],
        tools: Callable[[], AsyncIterator[Tool]],
    ) -> None:
        """Return if the call may be made. Without anybody to ask, every call may.

        If this tool is not known yet, the tools are listed first, so that its description can be shown.

        Raises:
            Rejected: the call was refused, or the decision took too long; nothing was sent.
        """
        if self._confirm is None:
            return
        if params.name not in self._tools and not self._complete:
            async for _ in tools():
                pass
            self._complete = True
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                allowed = await self._confirm(params, origin(params, self._tools.get(params.name)))
        except TimeoutError:
            if not limit.expired():
                raise
            raise Rejected(
                f"Nobody decided about the call of {params.name!r} in time", data={"reason": "expired"}
            ) from None
        if allowed is not True:
            raise Rejected(f"User rejected the call of {params.name!r}", data={"reason": "user"})


T = TypeVar("T")


class ToolCalls:
    """The tool calls of one client.

    ``tools`` lists all tools within a time limit, and calls ``learn`` for each page.
    """

    def __init__(
        self,
        link: Link,
        cache: Cache,
        headers: ToolHeaders,
        consent: Consent,
        tools: Callable[[TimeLeft | None], AsyncIterator[Tool]],
    ) -> None:
        self._link = link
        self._cache = cache
        self._headers = headers
        self._consent = consent
        self._outputs = Outputs()
        self._tools = tools

    def learn(self, page: ListToolsResult) -> ListToolsResult:
        """Learn from a page of the list, and return it with the tools that can be used here."""
        if self._link.is_http and self._link.calls.is_modern:
            page = structs.replace(page, tools=self._headers.learn(page.tools))
        self._outputs.learn(page.tools)
        self._consent.learn(page.tools)
        return page

    def forget(self) -> None:
        """Forget what was learnt, because the server's tools have changed."""
        self._outputs.forget()
        self._consent.forget()

    @property
    def need_consent(self) -> bool:
        """Whether somebody must be asked. Checked first, to save creating a coroutine for each call of most clients."""
        return self._consent.is_needed

    async def ask_consent(self, params: CallToolRequestParams, time: TimeLeft) -> None:
        """Return if a call may be made; see ``Consent.ask``. Listing the tools uses up ``time``, deciding does not."""
        await self._consent.ask(params, self._link.calls.origin_of, lambda: self._tools(time))

    async def make(self, name: str, call: Callable[[], Awaitable[T]], time: TimeLeft) -> T:
        """Make a call, repeat it if headers were missing, and validate the structured content of its result.

        ``time``: what is left for all of this, including the call.

        Raises:
            ResultInvalid: the structured content does not fit the tool's output schema.
        """
        try:
            result = await call()
        except HeaderMismatch:
            # The tool wants arguments in headers that we do not know (any more): look the tool up, and
            # try once more.
            if not await self._look_up(name, time):
                raise
            result = await call()
        if isinstance(result, CallToolResult) and result.structured_content is not None and not result.is_error:
            await self._outputs.check(name, result.structured_content, lambda: self._tools(time))
        return result

    async def _look_up(self, name: str, time: TimeLeft) -> bool:
        """List the tools again; tell whether this one exists and may need headers."""
        if not self._link.is_http:
            return False
        self._cache.drop("tools/list")
        return name in [tool.name async for tool in self._tools(time)]
