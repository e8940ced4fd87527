"""Calls whose rounds the caller answers by hand: inspect a round, keep it, and answer it later or in another process.

Owns the public calls of ``client.rounds``: those of ``Client``, one round at a time. ``loop`` has the type of a
round. Source: 2026-07-28 basic/patterns/mrtr.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType

from antiphon.client.link import ServerLink
from antiphon.client.requests.request_calls import Calls
from antiphon.client.rounds.loop import PendingRound
from antiphon.client.tool_calls import ToolCalls
from antiphon.errors import Rejected
from antiphon.machine.call_time import TimeLeft
from antiphon.wire.common import ClientCapabilities, ElicitationCapability, SamplingCapability, Wire
from antiphon.wire.prompts import GetPromptRequestParams, GetPromptResult
from antiphon.wire.resources import ReadResourceRequestParams, ReadResourceResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

R = TypeVar("R", bound=Wire)


class ByHand:
    """An answerer that declares capabilities without answering: its owner answers every ask by hand.

    Use ``BY_HAND``, as in ``Client(target, sampling=BY_HAND, elicitation=BY_HAND)``, and make the calls through
    ``client.rounds``. It refuses asks that come as requests (before 2026-07-28) or within calls made in any other way.
    """

    capabilities = ClientCapabilities(
        sampling=SamplingCapability(tools={}), elicitation=ElicitationCapability(form={}, url={})
    )
    """The capabilities that it declares."""

    async def __call__(self, _params: object, _origin: object) -> Any:
        """Refuse the ask, since it did not come through ``client.rounds``."""
        raise Rejected("User rejected sampling request: it is answered by hand only", data={"reason": "by-hand"})


BY_HAND = ByHand()


class Rounds(Struct, eq=False):
    """The calls of a client, one round at a time. Reached as ``client.rounds``.

    Each call returns the result or, if the server asks something first, a ``PendingRound`` with nothing answered;
    continue with ``resume``. Before 2026-07-28 there are no rounds: the client's answerers answer, and the result is
    returned. The calls raise what those of ``Client`` raise.
    """

    _link: ServerLink
    _tool_calls: ToolCalls
    _timeout: Callable[[float | UnsetType | None], float | None]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | UnsetType | None = UNSET,
        progress: Callable[..., object] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> CallToolResult | PendingRound[CallToolResult]:
        """Call a tool, up to its first round.

        Args:
            name: name of the tool.
            arguments: the tool's arguments by name; none by default.
            timeout: seconds for this call, or ``None`` for no limit; by default the client's ``timeout``.
            progress: called with each progress report: ``(progress, total, message)``; may be async.
            meta: further members of the request's ``_meta``.
        """
        params = CallToolRequestParams.of(name, arguments if arguments is not None else {})
        return await self._tool_calls.call(Calls.start, params, TimeLeft(self._timeout(timeout)), progress, meta)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: float | UnsetType | None = UNSET
    ) -> GetPromptResult | PendingRound[GetPromptResult]:
        """Fetch a prompt, up to its first round.

        Args:
            name: name of the prompt.
            arguments: the prompt's arguments by name; none by default.
            timeout: seconds for this call, or ``None`` for no limit; by default the client's ``timeout``.
        """
        params = GetPromptRequestParams(name=name, arguments=dict(arguments) if arguments is not None else None)
        return await self._link.run(
            Calls.start, "prompts/get", params, GetPromptResult, timeout=TimeLeft(self._timeout(timeout))
        )

    async def read_resource(
        self, uri: str, *, timeout: float | UnsetType | None = UNSET
    ) -> ReadResourceResult | PendingRound[ReadResourceResult]:
        """Read a resource, up to its first round. The cache is neither read nor written.

        Args:
            uri: URI of the resource.
            timeout: seconds for this call, or ``None`` for no limit; by default the client's ``timeout``.
        """
        params = ReadResourceRequestParams(uri=uri)
        return await self._link.run(
            Calls.start, "resources/read", params, ReadResourceResult, timeout=TimeLeft(self._timeout(timeout))
        )

    async def answer(self, pending: PendingRound[Any]) -> dict[str, Wire]:
        """Have the client's own answerers answer a round, as an automatic call would; nothing is sent.

        Args:
            pending: the round.

        Returns:
            The answers by the keys of their asks, for ``resume``.

        Raises:
            Whatever an answerer raises; the other answerers are then cancelled.
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
        """Continue a call, on this or any other client of the same server.

        Args:
            pending: the round that the call stopped at.
            answers: answers by the keys of their asks, as an answerer gives them (a string, a mapping, ``None``) or as
                results. The server asks again for those left out.
            timeout: seconds for the rest of the call, or ``None`` for no limit; by default what the call has left.
            progress: called with each progress report: ``(progress, total, message)``; may be async.

        Raises:
            LocalProtocolError: the call belongs to another server, an answer fits no ask, or this connection has no
                rounds; nothing was sent.
            InvalidParams: the server no longer knows the call, or its time is over.
        """
        left = TimeLeft(pending.remaining if isinstance(timeout, UnsetType) else timeout)

        def go_on() -> Awaitable[R | PendingRound[R]]:
            return self._link.run(Calls.resume, pending, answers, timeout=left, progress=progress)

        params = pending.round_params
        if not isinstance(params, CallToolRequestParams):
            return await go_on()
        return await self._tool_calls.pass_later(params, None, self._tool_calls.make(params.name, go_on, left))
