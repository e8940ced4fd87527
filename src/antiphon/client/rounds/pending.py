"""A round that waits for its answers, as a value: it can be looked at, kept on disk, and gone on with elsewhere.

Owns what has to be remembered of a call between two rounds. How a round is made and gone on with is ``calls``' and
``by_hand``'s business. Source: 2026-07-28 basic/patterns/mrtr, "the requests in each step are completely independent".
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
    """The params as JSON: what an answerer may see of them."""

    @property
    def params(self) -> Any:
        """The params, decoded: ``CreateMessageRequestParams``, ``ElicitRequestParams`` or ``RequestParams``."""
        return decode(self.raw, METHODS[self.method].params)


class PendingRound(Struct, Generic[R_co], frozen=True, kw_only=True, omit_defaults=True):
    """A call that was answered with questions, and all that is needed to go on with it.

    Plain data: ``msgspec.json.encode(pending)`` keeps it, ``msgspec.json.decode(data, type=PendingRound)`` brings it
    back, in any process. Its type parameter is the type of the call's result. Whoever holds it can go on with the call:
    keep it like a password. ``requestState`` is not shown when it is printed.
    """

    method: str
    """``"tools/call"``, ``"prompts/get"`` or ``"resources/read"``."""
    params: Raw
    """Params of the call as JSON: name and arguments, or the URI."""
    asks: Mapping[str, Ask]
    """The questions by their keys; may be empty, then the call is simply to be made again."""
    request_state: str | None = None
    """What the server wants back, untouched. Nobody but the server knows what is in it."""
    number: int
    """Which round of the call this is, from 1."""
    asked: int
    """Questions of the call so far, those of this round included."""
    limits: RoundLimits
    """What the call may cost in all; they go along with it."""
    remaining: float | None = None
    """Seconds left of the call's ``timeout``; ``None`` is no deadline. The time until it goes on does not count."""
    call: str
    """Names the call: ``origin.call.id`` of all its asks."""
    identity: str
    """The server it is for, as in ``origin.identity``: no other must see the state or the answers."""
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
            LocalProtocolError: the method has no rounds: this was never made by a client.
        """
        spec = METHODS.get(self.method)
        if spec is None or not spec.rounds:
            raise LocalProtocolError(f"{self.method} has no rounds")
        read: Any = decode(self.params, spec.params)
        return read
