"""A round that waits for its answers, as a value: it can be inspected, stored, and continued in another process.

Owns what must be remembered of a call between two rounds. ``calls`` and ``by_hand`` make and continue rounds. Source:
2026-07-28 basic/patterns/mrtr, "the requests in each step are completely independent".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from msgspec import Raw, Struct, field

from antiphon.client.rounds.loop import RoundLimits
from antiphon.errors import LocalProtocolError
from antiphon.wire.common import RoundParams, Wire
from antiphon.wire.envelope import decode
from antiphon.wire.methods import METHODS

__all__ = ["Ask", "PendingRound"]

R_co = TypeVar("R_co", bound=Wire, covariant=True)


class Ask(Struct, frozen=True, kw_only=True):
    """One question of a round."""

    method: str
    """``"sampling/createMessage"``, ``"elicitation/create"`` or ``"roots/list"``."""
    raw: Raw = field(name="params", default=Raw(b"{}"))
    """The params as JSON, limited to what an answerer may see."""

    @property
    def params(self) -> Any:
        """The params, decoded: ``CreateMessageRequestParams``, ``ElicitRequestParams`` or ``RequestParams``."""
        return decode(self.raw, METHODS[self.method].params)


class PendingRound(Struct, Generic[R_co], frozen=True, kw_only=True, omit_defaults=True):
    """A call that was answered with questions, with everything needed to continue it.

    Plain data: ``msgspec.json.encode(pending)`` stores it, ``msgspec.json.decode(data, type=PendingRound)`` restores
    it, in any process. Its type parameter is the type of the call's result. Anyone who holds it can continue the call,
    so protect it like a password. Its ``repr`` leaves out ``requestState``.
    """

    method: str
    """``"tools/call"``, ``"prompts/get"`` or ``"resources/read"``."""
    params: Raw
    """Params of the call as JSON: name and arguments, or the URI."""
    asks: Mapping[str, Ask]
    """The questions by their keys; if there are none, the call is just repeated."""
    request_state: str | None = None
    """The state to send back to the server unchanged; only the server can read it."""
    number: int
    """Which round of the call this is, from 1."""
    asked: int
    """Number of questions of the call so far, including those of this round."""
    limits: RoundLimits
    """The limits of the whole call."""
    remaining: float | None = None
    """Seconds left of the call's ``timeout``, without the time until it is continued; ``None`` for no deadline."""
    call: str
    """Names the call: ``origin.call.id`` of all its asks."""
    identity: str
    """The server it is for, as in ``origin.identity``: no other server may see the state or the answers."""
    meta: dict[str, Any] | None = None
    """Further members of ``_meta`` that the caller gave."""

    def __repr__(self) -> str:
        state = "None" if self.request_state is None else f"<{len(self.request_state)} characters>"
        return (
            f"PendingRound(method={self.method!r}, call={self.call!r}, number={self.number}, "
            f"asks={list(self.asks)!r}, request_state={state})"
        )

    @property
    def round_params(self) -> RoundParams:
        """The params of the call, decoded.

        Raises:
            LocalProtocolError: the method has no rounds, so no client made this.
        """
        spec = METHODS.get(self.method)
        if spec is None or not spec.rounds:
            raise LocalProtocolError(f"{self.method} has no rounds")
        read: Any = decode(self.params, spec.params)
        return read
