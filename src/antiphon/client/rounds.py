"""Input rounds, the client's side: call, be asked, answer, call again, until there is a result (from 2026-07-28).

Pure loop over two functions: ``send`` makes one request of the params, ``answer`` answers one ask. Owns the limits.
Source: 2026-07-28 basic/patterns/mrtr.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import DecodeError, Raw, Struct, structs

from antiphon.errors import RemoteProtocolError
from antiphon.wire.common import RoundParams, Wire
from antiphon.wire.envelope import encode
from antiphon.wire.methods import METHODS, MethodSpec
from antiphon.wire.origin import Round
from antiphon.wire.rounds import InputRequest, InputRequiredResult
from antiphon.wire.unknown import decode

__all__ = ["DEFAULT_LIMITS", "RoundLimits", "run_rounds"]

R = TypeVar("R", bound=Wire)
Answer = Callable[[MethodSpec, Wire, Round], Awaitable[Wire]]
Send = Callable[[RoundParams], Awaitable[R | InputRequiredResult]]

MAX_STATE = 1024 * 1024
"""Longest ``requestState`` taken, in characters: it comes back with every retry."""


class RoundLimits(Struct, frozen=True, kw_only=True):
    """What one call of ours may cost in questions."""

    rounds: int = 64
    asks: int = 100


DEFAULT_LIMITS = RoundLimits()


async def run_rounds(
    send: Send[R], answer: Answer, params: RoundParams, limits: RoundLimits = DEFAULT_LIMITS
) -> tuple[R, int]:
    """Make a call and go along with its rounds; return the result and how many rounds there were.

    A refused ask gives up the whole call: a round has no error member.

    Raises:
        RemoteProtocolError: the server asks too often, too much, or what no round may ask; nothing of that round was
        answered. Whatever ``send`` and ``answer`` raise.
    """
    asked = 0
    for number in range(1, limits.rounds + 2):
        result = await send(params)
        if not isinstance(result, InputRequiredResult):
            return result, number - 1
        asks = result.input_requests or {}
        asked += len(asks)
        _check(result, number, asked, limits)
        readable = {key: _read(key, ask) for key, ask in asks.items()}
        this = Round(n=number, max=limits.rounds)
        answers = await _answer_all(readable, lambda spec, ask, this=this: answer(spec, ask, this))
        # "If the result does not contain requestState, the client MUST NOT include one in the retry."
        params = structs.replace(params, input_responses=answers or None, request_state=result.request_state)
    raise AssertionError("the last round was refused above")


def _check(result: InputRequiredResult, number: int, asked: int, limits: RoundLimits) -> None:
    if number > limits.rounds:
        raise RemoteProtocolError(f"The server asked for more than {limits.rounds} rounds in one call")
    if asked > limits.asks:
        raise RemoteProtocolError(f"The server asked for more than {limits.asks} answers in one call")
    if not result.input_requests and result.request_state is None:
        raise RemoteProtocolError("The server asked for input, but said neither what nor in which state")
    if result.request_state is not None and len(result.request_state) > MAX_STATE:
        raise RemoteProtocolError(f"The server's requestState is longer than {MAX_STATE} characters")


def _read(key: str, ask: InputRequest) -> tuple[MethodSpec, Wire]:
    spec = METHODS.get(ask.method)
    if spec is None or not spec.ask:
        raise RemoteProtocolError(f"inputRequests.{key}: {ask.method!r} is nothing a round may ask")
    try:
        return spec, decode(ask.params, spec.params)
    except DecodeError as error:
        raise RemoteProtocolError(f"inputRequests.{key}: {error}") from None


async def _answer_all(
    asks: dict[str, tuple[MethodSpec, Wire]], answer: Callable[[MethodSpec, Wire], Awaitable[Wire]]
) -> dict[str, Raw]:
    """Answer all asks at once. The first failure ends the others and is raised as it is, never in a group."""
    tasks = {key: asyncio.ensure_future(answer(*ask)) for key, ask in asks.items()}
    try:
        answers = await asyncio.gather(*tasks.values())
    except BaseException:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        raise
    return {key: Raw(encode(given)) for key, given in zip(tasks, answers, strict=True)}
