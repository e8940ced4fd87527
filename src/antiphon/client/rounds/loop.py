"""The client's loop of input rounds: call, answer, and call again until there is a result (from 2026-07-28).

The loop works on functions, and answers a round completely or not at all::

    send(params) --result--> return it
      ^     |
      |   a round: asks, state
      |     v
      |   admit every ask --one is refused--> the call ends
      |     v
      |   inspect the round, answer its asks (at most ``at_once`` at a time)
      |     v
      +-- params with the answers and the state

Owns the limits, and a round as a value that can be stored and continued in another process. Source: 2026-07-28
basic/patterns/mrtr.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

from msgspec import DecodeError, Raw, Struct, field, structs

from antiphon.errors import ConfigError, InvalidParams, LocalProtocolError, RemoteProtocolError
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.protocol.session import shorten_text
from antiphon.wire.common import RoundParams, Wire
from antiphon.wire.envelope import decode_wire, encode_value, problem_of
from antiphon.wire.lossless import merge_change
from antiphon.wire.methods import METHODS, MethodSpec
from antiphon.wire.origin import Round
from antiphon.wire.rounds import ANSWER_WITHIN, InputRequest, InputRequiredResult

R = TypeVar("R", bound=Wire)
Admit = Callable[[MethodSpec, Wire], Wire]
Answer = Callable[["RoundAsk", Round], Awaitable[Wire | Raw]]
Send = Callable[[RoundParams], Awaitable[R | InputRequiredResult]]

MAX_STATE = 1024 * 1024
"""Longest ``requestState`` accepted, in characters, since every retry sends it back."""

R_co = TypeVar("R_co", bound=Wire, covariant=True)


class RoundLimits(Struct, frozen=True, kw_only=True):
    """How many questions the server may ask during one call, on every revision.

    Args:
        rounds: how often the call may be answered with questions (2026-07-28); 64 by default.
        asks: most questions in all rounds together, 100 by default; before 2026-07-28, most requests during the call.
        at_once: most questions of the call that are with answerers at the same time, 8 by default; others wait.

    Raises:
        ConfigError: a limit is negative, or ``at_once`` is 0.
    """

    rounds: int = 64
    asks: int = 100
    at_once: int = 8

    def __post_init__(self) -> None:
        if self.rounds < 0 or self.asks < 0 or self.at_once < 1:
            raise ConfigError("RoundLimits: rounds and asks must be at least 0, at_once at least 1")


DEFAULT_LIMITS = RoundLimits()


class RoundAsk(NamedTuple):
    """One ask of a round that passed the checks. ``raw``: the params as JSON, with unknown members."""

    spec: MethodSpec
    params: Wire
    raw: Raw
    key: str
    within: float | None = None
    """Seconds for which the server waits for the answer, if it says so."""


Inspect = Callable[[InputRequiredResult, Mapping[str, RoundAsk], Round, int], Awaitable[object]]


def _as_it_is(_spec: MethodSpec, params: Wire) -> Wire:
    return params


async def answer_rounds(
    result: R | InputRequiredResult,
    params: RoundParams,
    send: Send[R],
    answer: Answer,
    limits: RoundLimits = DEFAULT_LIMITS,
    *,
    admit: Admit = _as_it_is,
    inspect: Inspect | None = None,
) -> R:
    """Answer the rounds of a call that was made, beginning with what its first request returned; return its result.

    ``inspect`` is called with each round before any of its asks is answered: with the result, the asks, the round
    and the number of asks so far. An ask that is refused ends the whole call, because a round has no error member.
    Raises as ``read_round``, ``send``, ``inspect`` and ``answer`` do.
    """
    number = asked = 0
    while isinstance(result, InputRequiredResult):
        number += 1
        asked += len(result.input_requests or ())
        asks = read_round(result, number, asked, limits, admit)
        this = Round(n=number, max=limits.rounds)
        if inspect is not None:
            await inspect(result, asks, this, asked)
        answers = await answer_all(asks, answer, this, limits.at_once)
        params = make_retry(params, answers, result.request_state)
        result = await send(params)
    return result


def read_round(
    result: InputRequiredResult, number: int, asked: int, limits: RoundLimits, admit: Admit = _as_it_is
) -> dict[str, RoundAsk]:
    """Read the asks of a round; ``asked`` counts those of all rounds so far, including this one.

    Raises ``RemoteProtocolError``, which names key and method, if the round exceeds a limit or an ask may not be
    answered.
    """
    if number > limits.rounds:
        raise RemoteProtocolError(f"The server asked for more than {limits.rounds} rounds in one call")
    if asked > limits.asks:
        raise RemoteProtocolError(f"The server asked for more than {limits.asks} answers in one call")
    if not result.input_requests and result.request_state is None:
        raise RemoteProtocolError("The server asked for input, but said neither what nor in which state")
    if result.request_state is not None and len(result.request_state) > MAX_STATE:
        raise RemoteProtocolError(f"The server's requestState is longer than {MAX_STATE} characters")
    said = (result.meta or {}).get(ANSWER_WITHIN)
    times = cast("dict[str, object]", said) if isinstance(said, dict) else {}
    return {key: _read_ask(key, ask, admit, times.get(key)) for key, ask in (result.input_requests or {}).items()}


def _read_ask(key: str, ask: InputRequest, admit: Admit, within: object) -> RoundAsk:
    spec = METHODS.get(ask.method)
    if spec is None or not spec.ask:
        raise RemoteProtocolError(f"{_name_place(key, ask.method)}: this is nothing a round may ask")
    try:
        read = decode_wire(ask.params, spec.params)
        params = admit(spec, read)
    except InvalidParams as error:
        raise RemoteProtocolError(f"{_name_place(key, ask.method)}: {error.message}") from None
    except (DecodeError, RemoteProtocolError) as error:
        raise RemoteProtocolError(f"{_name_place(key, ask.method)}: {problem_of(error)}") from None
    raw = ask.params if params is read else Raw(merge_change(ask.params or b"{}", read, params))
    return RoundAsk(spec, params, raw, key, within if isinstance(within, int | float) and abs(within) < 1e9 else None)


def _name_place(key: str, method: str) -> str:
    return f"inputRequests.{shorten_text(key)} ({shorten_text(method)})"


async def answer_all(asks: Mapping[str, RoundAsk], answer: Answer, this: Round, at_once: int) -> dict[str, Wire | Raw]:
    """Answer the asks of a round, ``at_once`` of them at the same time.

    The first failure cancels the others and is raised by itself, never in a group. If an answerer finds an ask invalid,
    the server is at fault.
    """
    if len(asks) <= 1:
        # Usually a round has one ask, which needs no task of its own.
        return {key: await _answer_ask(key, ask, answer, this) for key, ask in asks.items()}
    turns = asyncio.Semaphore(at_once)

    async def in_turn(key: str, ask: RoundAsk) -> Wire | Raw:
        async with turns:
            return await _answer_ask(key, ask, answer, this)

    tasks = {key: asyncio.ensure_future(in_turn(key, ask)) for key, ask in asks.items()}
    try:
        answers = await asyncio.gather(*tasks.values())
    except BaseException:
        await end_tasks(*tasks.values())
        raise
    return dict(zip(tasks, answers, strict=True))


async def _answer_ask(key: str, ask: RoundAsk, answer: Answer, this: Round) -> Wire | Raw:
    try:
        return await answer(ask, this)
    except InvalidParams as error:
        if error.remote:
            # The error of a call that the answerer itself made, so it is not about this ask.
            raise
        raise RemoteProtocolError(f"{_name_place(key, ask.spec.name)}: {error.message}") from None


def make_retry(params: RoundParams, answers: Mapping[str, Wire | Raw], state: str | None) -> RoundParams:
    """Make the params of a retry: those of the call, the answers, and the state unchanged."""
    # "If the result does not contain requestState, the client MUST NOT include one in the retry."
    encoded = {key: Raw(encode_value(given)) for key, given in answers.items()}
    return structs.replace(params, input_responses=encoded or None, request_state=state)


class Ask(Struct, frozen=True, kw_only=True):
    """One question of a round."""

    method: str
    """``"sampling/createMessage"``, ``"elicitation/create"`` or ``"roots/list"``."""
    raw: Raw = field(name="params", default=Raw(b"{}"))
    """The params as JSON, limited to what an answerer may see."""

    @property
    def params(self) -> Any:
        """The params, decoded: ``CreateMessageRequestParams``, ``ElicitRequestParams`` or ``RequestParams``."""
        return decode_wire(self.raw, METHODS[self.method].params)


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
        read: Any = decode_wire(self.params, spec.params)
        return read
