"""One way to answer what a server asks, whether it came as a request or within a round.

Owns what a client offers and the shapes in which answerers may reply. Whether to answer, and with which model, is the
answerer's decision: a ``Host``, or any function of the same form.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from antiphon.errors import ConfigError, MethodNotFound
from antiphon.wire.common import (
    ClientCapabilities,
    ElicitationCapability,
    RootsCapability,
    SamplingCapability,
    Wire,
)
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.origin import Origin
from antiphon.wire.roots import ListRootsResult, Root
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = ["Answers", "Elicitor", "Roots", "Sampler"]

Sampler = Callable[[CreateMessageRequestParams, Origin], Awaitable[str | CreateMessageResult]]
"""Answers a sampling request; a string is a text answer. Raise ``Rejected`` to say no."""

Elicitor = Callable[[ElicitRequestParams, Origin], Awaitable[ElicitResult | Mapping[str, Any] | None]]
"""Answers an elicitation; a mapping is an accepted form, ``None`` declines."""

Roots = Sequence[str | Path | Root] | Callable[[], Awaitable[Sequence[str | Path | Root]]]

MAX_AT_ONCE = 8
"""Most asks answered at the same time; the others wait their turn."""


class Answers:
    """Everything a client can be asked for."""

    def __init__(self, sampling: Sampler | None, elicitation: Elicitor | None, roots: Roots | None) -> None:
        for name, answerer in (("sampling", sampling), ("elicitation", elicitation)):
            if answerer is not None and not callable(answerer):
                raise ConfigError(f"{name}= must be an async function (params, origin), or a Host; got {answerer!r}")
        self._sampling = sampling
        self._elicitation = elicitation
        self._roots = roots
        self._turns = asyncio.Semaphore(MAX_AT_ONCE)

    def capabilities(self) -> ClientCapabilities:
        """Say what is offered: what the answerer itself says, or else the plain form of it."""
        return ClientCapabilities(
            sampling=_own(self._sampling, "sampling", SamplingCapability()),
            elicitation=_own(self._elicitation, "elicitation", ElicitationCapability(form={})),
            roots=RootsCapability(list_changed=True) if self._roots is not None else None,
        )

    async def answer(self, params: Wire, origin: Origin) -> Wire:
        """Answer one ask.

        Raises:
            MethodNotFound: it is nothing this client offers.
            Whatever the answerer raises.
        """
        async with self._turns:
            if isinstance(params, CreateMessageRequestParams) and self._sampling is not None:
                return _message(await self._sampling(params, origin))
            if isinstance(params, ElicitRequestParams) and self._elicitation is not None:
                return _elicited(await self._elicitation(params, origin))
            if self._roots is not None:
                return ListRootsResult(roots=await self._list_roots())
        raise MethodNotFound("This client does not offer it")

    async def _list_roots(self) -> Sequence[Root]:
        given = self._roots
        if given is None:
            return []
        roots = await given() if callable(given) else given
        return [_root(one) for one in roots]

    def set_roots(self, roots: Roots) -> None:
        """Replace the roots that are offered from now on."""
        self._roots = roots


def _own(answerer: object, kind: str, plain: Any) -> Any:
    """Return the capability an answerer declares through ``capabilities`` (a ``Host`` does), or the plain one."""
    if answerer is None:
        return None
    owner: Any = answerer.__self__ if inspect.ismethod(answerer) else answerer
    declared = getattr(owner, "capabilities", None)
    return getattr(declared, kind) if isinstance(declared, ClientCapabilities) else plain


def _message(answer: str | CreateMessageResult) -> CreateMessageResult:
    if isinstance(answer, str):
        return CreateMessageResult(
            role="assistant", content=TextContent(text=answer), model="unnamed", stop_reason="endTurn"
        )
    return answer


def _elicited(answer: ElicitResult | Mapping[str, Any] | None) -> ElicitResult:
    if isinstance(answer, ElicitResult):
        return answer
    if answer is None:
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=dict(answer))


def _root(given: str | Path | Root) -> Root:
    if isinstance(given, Root):
        return given
    if isinstance(given, str) and "://" in given:
        return Root(uri=given)
    path = Path(given).absolute()
    return Root(uri=path.as_uri(), name=path.name or None)
