"""The client's loop over rounds: a pure function of two closures, and its limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from antiphon.client.rounds import MAX_STATE, RoundLimits, run_rounds
from antiphon.errors import Rejected, RemoteProtocolError
from antiphon.wire.common import RoundParams, Wire
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode
from antiphon.wire.methods import MethodSpec
from antiphon.wire.origin import Round
from antiphon.wire.rounds import InputRequest, InputRequiredResult
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

DONE = CallToolResult(content=[])


def ask(text: str = "?") -> InputRequest:
    """Make one sampling ask."""
    message = SamplingMessage(role="user", content=TextContent(text=text))
    params = CreateMessageRequestParams(messages=[message], max_tokens=5)
    return InputRequest(method="sampling/createMessage", params=Raw(encode(params)))


class Peer:
    """A server of prepared replies and an answerer, both of which remember."""

    def __init__(self, *replies: Wire) -> None:
        self.replies = list(replies)
        self.sent: list[RoundParams] = []
        self.rounds: list[Round] = []

    async def send(self, params: RoundParams) -> Any:
        self.sent.append(params)
        return self.replies.pop(0)

    async def answer(self, _spec: MethodSpec, params: Wire, this: Round) -> Wire:
        assert isinstance(params, CreateMessageRequestParams)
        self.rounds.append(this)
        content = TextContent(text=params.messages[0].text.upper())
        return CreateMessageResult(role="assistant", content=content, model="m")


PARAMS = CallToolRequestParams.of("t", {"x": 1})


async def test_a_result_ends_the_loop() -> None:
    """Without rounds there is one request."""
    peer = Peer(DONE)
    assert await run_rounds(peer.send, peer.answer, PARAMS) == (DONE, 0)
    assert peer.sent == [PARAMS]


async def test_answers_and_state_travel_with_the_retry() -> None:
    """The same call again, with what the round wanted."""
    peer = Peer(InputRequiredResult(input_requests={"a": ask("x"), "b": ask("y")}, request_state="S"), DONE)
    result, rounds = await run_rounds(peer.send, peer.answer, PARAMS)
    retry = peer.sent[1]
    assert (result, rounds) == (DONE, 1)
    assert retry.request_state == "S"
    assert sorted(retry.input_responses or {}) == ["a", "b"]
    assert b'"X"' in bytes((retry.input_responses or {})["a"])
    assert isinstance(retry, CallToolRequestParams)
    assert (retry.name, retry.arguments) == (PARAMS.name, PARAMS.arguments)


async def test_a_state_is_never_carried_over() -> None:
    """A round without a state is retried without one, whatever came before."""
    first = InputRequiredResult(input_requests={"a": ask()}, request_state="S")
    peer = Peer(first, InputRequiredResult(input_requests={"a": ask()}), DONE)
    await run_rounds(peer.send, peer.answer, PARAMS)
    assert [sent.request_state for sent in peer.sent] == [None, "S", None]


async def test_a_round_may_only_have_a_state() -> None:
    """The call is made again at once."""
    peer = Peer(InputRequiredResult(request_state="S"), DONE)
    await run_rounds(peer.send, peer.answer, PARAMS)
    assert peer.sent[1].input_responses is None


async def test_rounds_are_numbered() -> None:
    """The answerer knows how far it has come."""
    peer = Peer(
        InputRequiredResult(input_requests={"a": ask()}), InputRequiredResult(input_requests={"a": ask()}), DONE
    )
    await run_rounds(peer.send, peer.answer, PARAMS, RoundLimits(rounds=7))
    assert peer.rounds == [Round(n=1, max=7), Round(n=2, max=7)]


@pytest.mark.parametrize(
    ("limits", "replies", "why"),
    [
        (RoundLimits(rounds=2), [InputRequiredResult(input_requests={"a": ask()})] * 3, "more than 2 rounds"),
        (RoundLimits(asks=2), [InputRequiredResult(input_requests={k: ask() for k in "abc"})], "more than 2 answers"),
        (RoundLimits(), [InputRequiredResult()], "neither what nor in which state"),
        (RoundLimits(), [InputRequiredResult(request_state="x" * (MAX_STATE + 1))], "longer than"),
        (
            RoundLimits(),
            [InputRequiredResult(input_requests={"a": InputRequest(method="tools/call")})],
            "nothing a round",
        ),
        (RoundLimits(), [InputRequiredResult(input_requests={"a": InputRequest(method="no/such")})], "nothing a round"),
        (
            RoundLimits(),
            [InputRequiredResult(input_requests={"good": ask(), "bad": InputRequest(method="sampling/createMessage")})],
            "inputRequests.bad",
        ),
    ],
)
async def test_a_round_that_asks_too_much_is_refused_whole(
    limits: RoundLimits, replies: list[InputRequiredResult], why: str
) -> None:
    """None of its asks is answered."""
    peer = Peer(*replies, DONE)
    with pytest.raises(RemoteProtocolError, match=why):
        await run_rounds(peer.send, peer.answer, PARAMS, limits)
    assert len(peer.rounds) == len(peer.sent) - 1


async def test_a_refusal_gives_up_the_call_as_it_is() -> None:
    """No retry, no group of exceptions, and the other answers are called off."""
    called_off = asyncio.Event()

    async def answer(_spec: MethodSpec, params: Wire, _this: Round) -> Wire:
        assert isinstance(params, CreateMessageRequestParams)
        if params.messages[0].text == "no":
            raise Rejected("User rejected sampling request")
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()
        raise AssertionError

    peer = Peer(InputRequiredResult(input_requests={"a": ask("wait"), "b": ask("no")}), DONE)
    with pytest.raises(Rejected):
        await run_rounds(peer.send, answer, PARAMS)
    assert called_off.is_set()
    assert len(peer.sent) == 1
