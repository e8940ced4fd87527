"""Whether a tool may be called, before anything of the call is sent.

Owns who is asked, and what the server says of its tools, which goes with the question. What is decided, and how, is the
business of whoever is asked: a ``Host``, or any function of the same form.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from antiphon.errors import ConfigError, Rejected
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolRequestParams, Tool

__all__ = ["Confirmer", "Confirming", "Consent"]

Confirmer = Callable[[CallToolRequestParams, Origin], Awaitable[bool | None]]
"""Decides about the call of a tool: true to make it. Anything else, or to raise ``Rejected``, refuses it."""

MAX_TOOLS = 10_000
"""Most tools whose definitions are remembered."""


@runtime_checkable
class Confirming(Protocol):
    """Something that decides about the calls of tools beside other things: a ``Host``."""

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool | None:
        """Decide about one call; see ``Confirmer``."""
        ...


class Consent:
    """The consent to calls of tools of one client."""

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
        """Remember what the server says of some tools."""
        for tool in tools if self._confirm is not None else ():
            if tool.name in self._tools or len(self._tools) < MAX_TOOLS:
                self._tools[tool.name] = tool

    def forget(self) -> None:
        """Forget everything: the server's tools have changed."""
        self._tools.clear()
        self._complete = False

    async def ask(
        self,
        params: CallToolRequestParams,
        origin: Callable[[CallToolRequestParams, Tool | None], Origin],
        tools: Callable[[], AsyncIterator[Tool]],
    ) -> None:
        """Return if the call may be made; without anybody to ask it always may.

        The tools are listed once if this one is not known yet: whoever decides wants to see what it is.

        Raises:
            Rejected: it may not, or whoever was asked took too long; nothing was sent.
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
