"""Calls whose rounds the caller goes through by hand: look at a round, keep it, answer it when and where one likes.

Owns the public calls of ``client.rounds``, which are those of ``Client`` with one step each. What a round is made of is
in ``pending``. Source: 2026-07-28 basic/patterns/mrtr.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from antiphon.client.link import Link
from antiphon.client.requests.attempts import TimeLeft
from antiphon.client.requests.calls import Calls
from antiphon.client.rounds.pending import PendingRound
from antiphon.client.tool_calls import ToolCalls
from antiphon.errors import Rejected
from antiphon.wire.common import ClientCapabilities, ElicitationCapability, SamplingCapability, Wire
from antiphon.wire.prompts import GetPromptRequestParams, GetPromptResult
from antiphon.wire.resources import ReadResourceRequestParams, ReadResourceResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

__all__ = ["BY_HAND", "ByHand", "Rounds"]

R = TypeVar("R", bound=Wire)


class ByHand:
    """An answerer that answers nothing itself: it only offers what its owner answers by hand.

    Use ``BY_HAND``, as ``Client(target, sampling=BY_HAND, elicitation=BY_HAND)``, and make the calls through
    ``client.rounds``. Where asks come as requests (before 2026-07-28), or within a call that was not made by hand, it
    refuses.
    """

    capabilities = ClientCapabilities(
        sampling=SamplingCapability(tools={}), elicitation=ElicitationCapability(form={}, url={})
    )
    """What it offers."""

    async def __call__(self, _params: object, _origin: object) -> Any:
        """Refuse."""
        raise Rejected("User rejected sampling request: it is answered by hand only", data={"reason": "by-hand"})


BY_HAND = ByHand()


class Rounds:
    """The calls of a client, a step at a time. Reached as ``client.rounds``.

    Each returns the result, or a ``PendingRound`` if the server wants to know something first; nothing was answered
    then. Go on with ``resume``. Before 2026-07-28 there are no rounds: asks go to the client's answerers, and what is
    returned is the result. ``timeout`` and what is raised are as for the calls of ``Client``.
    """

    def __init__(
        self,
        link: Link,
        tool_calls: ToolCalls,
        timeout: Callable[[float | UnsetType | None], float | None],
    ) -> None:
        self._link = link
        self._tool_calls = tool_calls
        self._timeout = timeout

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | UnsetType | None = UNSET,
        progress: Callable[..., object] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> CallToolResult | PendingRound[CallToolResult]:
        """Call a tool, up to its first round."""
        params = CallToolRequestParams.of(name, arguments if arguments is not None else {})
        time = TimeLeft(self._timeout(timeout))
        await self._tool_calls.ask_consent(params, time)
        options: dict[str, Any] = {"timeout": time, "progress": progress, "meta": meta}
        return await self._tool_calls.make(
            name, lambda: self._link.run(Calls.start, "tools/call", params, CallToolResult, **options), time
        )

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: float | UnsetType | None = UNSET
    ) -> GetPromptResult | PendingRound[GetPromptResult]:
        """Fetch a prompt, up to its first round."""
        params = GetPromptRequestParams(name=name, arguments=dict(arguments) if arguments is not None else None)
        return await self._link.run(Calls.start, "prompts/get", params, GetPromptResult, timeout=self._timeout(timeout))

    async def read_resource(
        self, uri: str, *, timeout: float | UnsetType | None = UNSET
    ) -> ReadResourceResult | PendingRound[ReadResourceResult]:
        """Read a resource, up to its first round. Nothing is taken from the cache, and nothing put there."""
        params = ReadResourceRequestParams(uri=uri)
        return await self._link.run(
            Calls.start, "resources/read", params, ReadResourceResult, timeout=self._timeout(timeout)
        )

    async def answer(self, pending: PendingRound[Any]) -> dict[str, Wire]:
        """Have a round answered by the client's own answerers, as an automatic call would; nothing is sent.

        Raises:
            Whatever an answerer raises: the others are given up.
        """
        return await self._link.calls.answer(pending)

    async def resume(
        self,
        pending: PendingRound[R],
        answers: Mapping[str, object],
        *,
        timeout: float | UnsetType | None = UNSET,
        progress: Callable[..., object] | None = None,
    ) -> R | PendingRound[R]:
        """Go on with a call, on this or any other client of the same server.

        ``answers``: by the key of their ask, as answerers give them (a string, a mapping, ``None``) or as results. One
        that is left out is asked for again. ``timeout``: instead of the seconds the call has left.

        Raises:
            LocalProtocolError: the call is another server's, there is no such ask, this is no answer to it, or this
                connection has no rounds; nothing was sent.
            InvalidParams: the server no longer knows the call, or it has been gone on with for too long.
        """
        left = TimeLeft(pending.remaining if isinstance(timeout, UnsetType) else timeout)

        def go_on() -> Awaitable[R | PendingRound[R]]:
            return self._link.run(Calls.resume, pending, answers, timeout=left, progress=progress)

        params = pending.round_params
        return await (
            self._tool_calls.make(params.name, go_on, left) if isinstance(params, CallToolRequestParams) else go_on()
        )
