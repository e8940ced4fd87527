"""The client's loop over rounds: a pure function of two closures, and its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from antiphon.client.rounds.loop import (
    DEFAULT_LIMITS,
    MAX_STATE,
    Admit,
    Ask,
    PendingRound,
    RoundAsk,
    RoundLimits,
    answer_rounds,
    read_round,
)
from antiphon.errors import (
    ConfigError,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    Rejected,
    RemoteProtocolError,
)
from antiphon.wire.common import RequestParams, RoundParams, Wire
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.envelope import encode_value
from antiphon.wire.methods import MethodSpec
from antiphon.wire.origin import Round
from antiphon.wire.rounds import InputRequest, InputRequiredResult
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

DONE = CallToolResult(content=[])

SAMPLE = Raw(b'{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}')
FORM = Raw(b'{"message":"name?","requestedSchema":{"type":"object","properties":{}}}')
PENDING: PendingRound[CallToolResult] = PendingRound(
    method="tools/call",
    params=Raw(b'{"name":"t","arguments":{"x":1}}'),
    asks={
        "a": Ask(method="sampling/createMessage", raw=SAMPLE),
        "b": Ask(method="elicitation/create", raw=FORM),
        "c": Ask(method="roots/list"),
    },
    request_state="SECRET-STATE",
    number=2,
    asked=5,
    limits=RoundLimits(rounds=7, asks=9, at_once=2),
    remaining=12.5,
    call="3-abcd",
    identity="command:0",
    meta={"example.org/x": 1},
)


def ask(text: str = "?") -> InputRequest:
    """Make one sampling ask."""
    message = SamplingMessage(role="user", content=TextContent(text=text))
    params = CreateMessageRequestParams(messages=[message], max_tokens=5)
    return InputRequest(method="sampling/createMessage", params=Raw(encode_value(params)))


class Peer:
    """A server of prepared replies and an answerer, both of which remember."""

    def __init__(self, *replies: Wire) -> None:
        self.replies = list(replies)
        self.sent: list[RoundParams] = []
        self.rounds: list[Round] = []

    async def send(self, params: RoundParams) -> Any:
        self.sent.append(params)
        return self.replies.pop(0)

    async def answer(self, asked: RoundAsk, this: Round) -> Wire:
        params = asked.params
        assert isinstance(params, CreateMessageRequestParams)
        self.rounds.append(this)
        content = TextContent(text=params.messages[0].text.upper())
        return CreateMessageResult(role="assistant", content=content, model="m")


PARAMS = CallToolRequestParams.of("t", {"x": 1})


async def run_rounds(
    send: Callable[[RoundParams], Awaitable[Any]],
    answer: Any,
    limits: RoundLimits = DEFAULT_LIMITS,
    admit: Admit | None = None,
    inspect: Any = None,
) -> Any:
    """Make the first request of a call, and answer its rounds."""
    return await answer_rounds(
        await send(PARAMS), PARAMS, send, answer, limits, **({"admit": admit} if admit else {}), inspect=inspect
    )


async def test_a_result_ends_the_loop() -> None:
    """Without rounds there is one request."""
    peer = Peer(DONE)
    assert await run_rounds(peer.send, peer.answer) == DONE
    assert peer.sent == [PARAMS]


async def test_answers_and_state_travel_with_the_retry() -> None:
    """The same call again, with what the round wanted."""
    peer = Peer(InputRequiredResult(input_requests={"a": ask("x"), "b": ask("y")}, request_state="S"), DONE)
    result = await run_rounds(peer.send, peer.answer)
    retry = peer.sent[1]
    assert result == DONE
    assert retry.request_state == "S"
    assert sorted(retry.input_responses or {}) == ["a", "b"]
    assert b'"X"' in bytes((retry.input_responses or {})["a"])
    assert isinstance(retry, CallToolRequestParams)
    assert (retry.name, retry.arguments) == (PARAMS.name, PARAMS.arguments)


async def test_a_state_is_never_carried_over() -> None:
    """A round without a state is retried without one, whatever came before."""
    first = InputRequiredResult(input_requests={"a": ask()}, request_state="S")
    peer = Peer(first, InputRequiredResult(input_requests={"a": ask()}), DONE)
    await run_rounds(peer.send, peer.answer)
    assert [sent.request_state for sent in peer.sent] == [None, "S", None]


async def test_a_round_may_only_have_a_state() -> None:
    """The call is made again at once."""
    peer = Peer(InputRequiredResult(request_state="S"), DONE)
    await run_rounds(peer.send, peer.answer)
    assert peer.sent[1].input_responses is None


async def test_rounds_are_numbered() -> None:
    """The answerer knows how far it has come."""
    peer = Peer(
        InputRequiredResult(input_requests={"a": ask()}), InputRequiredResult(input_requests={"a": ask()}), DONE
    )
    await run_rounds(peer.send, peer.answer, RoundLimits(rounds=7))
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
        await run_rounds(peer.send, peer.answer, limits)
    assert len(peer.rounds) == len(peer.sent) - 1


async def test_a_refusal_gives_up_the_call_as_it_is() -> None:
    """No retry, no group of exceptions, and the other answers are called off."""
    called_off = asyncio.Event()

    async def answer(asked: RoundAsk, _this: Round) -> Wire:
        params = asked.params
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
        await run_rounds(peer.send, answer)
    assert called_off.is_set()
    assert len(peer.sent) == 1


@pytest.mark.parametrize("bad", [{"rounds": -1}, {"asks": -1}, {"at_once": 0}])
def test_limits_make_sense(bad: dict[str, int]) -> None:
    """With no turn at all a call would wait for ever."""
    with pytest.raises(ConfigError, match="at_once at least 1"):
        RoundLimits(**bad)


@pytest.mark.parametrize("at_once", [1, 3, 8])
async def test_few_of_a_round_are_answered_at_once(at_once: int) -> None:
    """The others wait for their turn."""
    running, most = 0, 0

    async def answer(_ask: RoundAsk, _this: Round) -> Wire:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1
        return CreateMessageResult(role="assistant", content=TextContent(text="x"), model="m")

    peer = Peer(InputRequiredResult(input_requests={str(n): ask() for n in range(20)}), DONE)
    await run_rounds(peer.send, answer, RoundLimits(at_once=at_once))
    assert most == at_once
    assert len(peer.sent[1].input_responses or {}) == 20


async def test_an_ask_is_admitted_before_any_is_answered() -> None:
    """What admits may change it; if it refuses one, none is answered, and the error names the place."""
    changed = CreateMessageRequestParams(
        messages=[SamplingMessage(role="user", content=TextContent(text="less"))], max_tokens=1
    )
    peer = Peer(InputRequiredResult(input_requests={"a": ask("more")}), DONE)
    await run_rounds(peer.send, peer.answer, admit=lambda _spec, _params: changed)
    assert b"LESS" in bytes((peer.sent[1].input_responses or {})["a"])

    def refuse(_spec: MethodSpec, params: Wire) -> Wire:
        if isinstance(params, CreateMessageRequestParams) and params.messages[0].text == "bad":
            raise InvalidParams("messages[0]: bad", data={"place": "messages[0]"})
        return params

    peer = Peer(InputRequiredResult(input_requests={"good": ask(), "no": ask("bad")}), DONE)
    with pytest.raises(
        RemoteProtocolError, match=r"^inputRequests\.no \(sampling/createMessage\): messages\[0\]: bad$"
    ):
        await run_rounds(peer.send, peer.answer, admit=refuse)
    assert peer.rounds == []


def test_an_ask_is_kept_as_it_came_unless_it_was_changed() -> None:
    """Members that we do not know stay in it for whoever looks at the round."""
    raw = Raw(bytes(ask().params)[:-1] + b',"new":1}')
    result = InputRequiredResult(input_requests={"a": InputRequest(method="sampling/createMessage", params=raw)})
    assert bytes(read_round(result, 1, 1, RoundLimits())["a"].raw) == bytes(raw)


@pytest.mark.parametrize("said", [10**400, -(10**400), float("inf"), "soon", None])
def test_a_time_that_no_clock_can_count_is_no_bound(said: object) -> None:
    """Other clocks add it to the time of day."""
    result = InputRequiredResult(input_requests={"a": ask()}, meta={"antiphon/answerWithin": {"a": said}})
    assert read_round(result, 1, 1, RoundLimits())["a"].within is None


async def test_a_round_can_be_looked_at_before_it_is_answered() -> None:
    """Number, asks and count; what it raises is raised, and nothing is answered or sent."""
    seen: list[tuple[Any, ...]] = []

    async def look(result: InputRequiredResult, asks: Any, this: Round, asked: int) -> None:
        assert all(isinstance(one, RoundAsk) for one in asks.values())
        seen.append((result.request_state, list(asks), this.n, asked, len(peer.rounds)))
        if this.n == 2:
            raise Rejected("enough")

    first = InputRequiredResult(input_requests={"a": ask(), "b": ask()}, request_state="S")
    peer = Peer(first, InputRequiredResult(input_requests={"c": ask()}), DONE)
    with pytest.raises(Rejected):
        await run_rounds(peer.send, peer.answer, inspect=look)
    assert seen == [("S", ["a", "b"], 1, 2, 0), (None, ["c"], 2, 3, 2)]
    assert len(peer.sent) == 2


async def test_an_ask_that_its_answerer_finds_invalid_is_the_servers_fault() -> None:
    """A host looks closer than the client; the caller of the tool learns which ask it was."""

    async def answer(_ask: RoundAsk, _this: Round) -> Wire:
        raise InvalidParams("tools[0].name: empty")

    peer = Peer(InputRequiredResult(input_requests={"a": ask()}), DONE)
    with pytest.raises(RemoteProtocolError, match=r"^inputRequests\.a .*: tools\[0\]\.name: empty$"):
        await run_rounds(peer.send, answer)


async def test_an_error_of_another_call_is_not_about_this_ask() -> None:
    """An answerer may call a server itself, and fail at that."""

    async def answer(_ask: RoundAsk, _this: Round) -> Wire:
        error = InvalidParams("no such tool")
        error.remote = True
        raise error

    peer = Peer(InputRequiredResult(input_requests={"a": ask()}), DONE)
    with pytest.raises(InvalidParams, match="no such tool"):
        await run_rounds(peer.send, answer)


async def test_what_an_answerer_raises_is_raised_as_it_is() -> None:
    """Of one ask as of several."""

    async def answer(_ask: RoundAsk, _this: Round) -> Wire:
        raise MethodNotFound("no")

    for keys in ("a", "ab"):
        peer = Peer(InputRequiredResult(input_requests={key: ask() for key in keys}), DONE)
        with pytest.raises(MethodNotFound):
            await run_rounds(peer.send, answer)


def test_the_asks_are_decoded_when_they_are_looked_at() -> None:
    """Each into the type of its method."""
    assert isinstance(PENDING.asks["a"].params, CreateMessageRequestParams)
    assert isinstance(PENDING.asks["b"].params, ElicitRequestParams)
    assert isinstance(PENDING.asks["c"].params, RequestParams)
    assert PENDING.asks["a"].params.messages[0].text == "hi"


def test_the_call_is_known() -> None:
    """Its params, decoded, with neither answers nor state."""
    params = PENDING.round_params
    assert isinstance(params, CallToolRequestParams)
    assert (params.name, bytes(params.arguments), params.request_state) == ("t", b'{"x":1}', None)


def test_it_survives_being_kept() -> None:
    """Everything comes back as it was, with its type or without."""
    kept = msgspec.json.encode(PENDING)
    assert msgspec.json.decode(kept, type=PendingRound[CallToolResult]) == PENDING
    back: PendingRound[CallToolResult] = msgspec.json.decode(kept, type=PendingRound)
    assert back == PENDING


@pytest.mark.parametrize("broken", [b"{}", b'{"method":3}', b"not json"])
def test_a_file_that_is_no_round_is_an_error(broken: bytes) -> None:
    """It says what is missing."""
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(broken, type=PendingRound)


def test_the_state_is_not_shown() -> None:
    """Whoever has it can go on with the call, so a log must not hold it."""
    assert "SECRET" not in repr(PENDING)
    assert "SECRET" not in f"{PENDING}"
    assert "12 characters" in repr(PENDING)
    assert "request_state=None" in repr(structs.replace(PENDING, request_state=None))


def test_only_some_methods_have_rounds() -> None:
    """A value that no client has made is refused when it is used."""
    with pytest.raises(LocalProtocolError, match="tools/list has no rounds"):
        _ = structs.replace(PENDING, method="tools/list").round_params
