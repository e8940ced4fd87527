"""What goes around each call of a tool: consent before it, headers looked up if they lack, the result checked.

Owns who learns from a list of the server's tools, and who forgets when it changes. The call itself is made by whoever
brings it: ``client`` as a whole, ``by_hand`` round by round.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from msgspec import structs

from antiphon.client.answers.consent import Consent
from antiphon.client.features.cache import Cache
from antiphon.client.features.mirrored_headers import ToolHeaders
from antiphon.client.features.output_schemas import Outputs
from antiphon.client.link import Link
from antiphon.client.requests.time_left import TimeLeft
from antiphon.errors import HeaderMismatch
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, ListToolsResult, Tool

__all__ = ["ToolCalls"]

T = TypeVar("T")


class ToolCalls:
    """The calls of one server's tools. ``tools`` lists them all within a time, and lets them be learnt."""

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
        """Learn from a page of the list; return it with the tools that may be used here."""
        if self._link.is_http and self._link.calls.is_modern:
            page = structs.replace(page, tools=self._headers.learn(page.tools))
        self._outputs.learn(page.tools)
        self._consent.learn(page.tools)
        return page

    def forget(self) -> None:
        """Forget what was learnt: the server's tools have changed."""
        self._outputs.forget()
        self._consent.forget()

    @property
    def need_consent(self) -> bool:
        """Whether somebody is to be asked; mostly nobody is, and a coroutine that says so is one too many."""
        return self._consent.is_needed

    async def ask_consent(self, params: CallToolRequestParams, time: TimeLeft) -> None:
        """Return if a call may be made; see ``Consent.ask``. Listing the tools takes ``time``, deciding does not."""
        await self._consent.ask(params, self._link.calls.origin_of, lambda: self._tools(time))

    async def make(self, name: str, call: Callable[[], Awaitable[T]], time: TimeLeft) -> T:
        """Make a call, a second time if it lacked headers, and check the structured content of its result.

        ``time``: what is left for all of it; the call spends it as well.

        Raises:
            ResultInvalid: that does not fit the tool's output schema.
        """
        try:
            result = await call()
        except HeaderMismatch:
            # The tool wants arguments in headers, and we did not know, or no longer: look it up, and try once more.
            if not await self._look_up(name, time):
                raise
            result = await call()
        if isinstance(result, CallToolResult) and result.structured_content is not None and not result.is_error:
            await self._outputs.check(name, result.structured_content, lambda: self._tools(time))
        return result

    async def _look_up(self, name: str, time: TimeLeft) -> bool:
        """List the tools anew; tell whether this one is there and its headers could matter."""
        if not self._link.is_http:
            return False
        self._cache.drop("tools/list")
        return name in [tool.name async for tool in self._tools(time)]
