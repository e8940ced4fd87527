"""One modern call that asks: one body, several requests, and every way in which they can go wrong."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from msgspec import Raw

from antiphon import Client, Context, InternalError, PeerError, Server
from antiphon.server.calls.parked_call import PASSES, Quiescence, replace_unsendable, weight_of
from antiphon.server.calls.server_rounds import ServerRounds
from antiphon.server.state.request_state import make_refusal
from antiphon.testing import Script, connected
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams
from antiphon.wire.tools import CallToolResult
from tests.support.catalogue import answered, catalogue, only
from tests.support.raw_client import raw_client, said, text

Json = dict[str, Any]


async def test_a_call_that_asks_is_answered_with_its_question() -> None:
    """The first reply carries the ask as a legacy server would have sent it, and a state."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        round = await client.call("one", {"question": "why?"})
        _, ask = only(round)
    assert round["resultType"] == "input_required"
    assert ask["method"] == "sampling/createMessage"
    assert ask["params"]["messages"][0]["content"] == {"type": "text", "text": "why?"}
    assert round["requestState"]


async def test_the_body_runs_once() -> None:
    """The retry wakes the handler where it stood."""
    server, done = catalogue()
    async with raw_client(server) as client:
        round = await client.call("one", {"question": "why?"})
        result = await answered(client, "one", round, "because", arguments={"question": "why?"})
    assert text(result) == "because"
    assert result["resultType"] == "complete"
    assert done == ["began", "ended"]


@pytest.mark.parametrize("timeout", [None, 5.0])
async def test_the_person_s_clock_is_that_of_the_parked_call(timeout: float | None) -> None:
    """The server says for how long it waits: as long as the call is kept, or less if the author waits less."""
    server = Server("shop", parked_for=30.0)
    seen: list[float | None] = []

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.sample("Which?", max_tokens=5, timeout=timeout)).text

    async def answer(_: CreateMessageRequestParams, origin: Origin) -> str:
        seen.append(origin.patience)
        return "this"

    async with Client(server, sampling=answer, answer_timeout=60.0) as client:
        await client.call_tool("ask")
    (patience,) = seen
    most = 30.0 if timeout is None else timeout
    assert patience is not None
    assert 0.0 <= patience <= most


async def test_asks_raised_together_share_a_round() -> None:
    """A ``gather`` costs one round, and each answer finds its ask."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        round = await client.call("both")
        asks = {ask["params"]["messages"][0]["content"]["text"]: key for key, ask in round["inputRequests"].items()}
        result = await client.retry(round, "both", {asks["b"]: said("B"), asks["a"]: said("A")})
    assert sorted(asks) == ["a", "b"]
    assert text(result) == "AB"


@pytest.mark.parametrize("durable", [False, True], ids=["here", "journalled"])
async def test_a_round_that_cannot_be_sent_fails_the_call(
    durable: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever raises: the client hears of it without the words, the log has them, and the handler is cancelled."""

    def broken(*_: object) -> str:
        raise RuntimeError("words of ours")

    server, done = catalogue(keys=[b"k" * 32]) if durable else catalogue()
    monkeypatch.setattr(ServerRounds, "seal_with_journal" if durable else "seal", broken)
    async with raw_client(server) as client, asyncio.timeout(30):
        error = await client.error("tools/call", name="one", arguments={"question": "why?"})
        await client.reply(client.modern("tools/list"))
        assert done == ["began", "CancelledError"]
    assert error["code"] == -32603
    assert "words of ours" not in str(error)
    assert "words of ours" in caplog.text


async def test_asks_one_after_another_take_a_round_each() -> None:
    """Every round has a state of its own."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        first = await client.call("twice")
        second = await answered(client, "twice", first, "one")
        result = await answered(client, "twice", second, "two")
    assert only(second)[1]["params"]["messages"][0]["content"]["text"] == "after one"
    assert first["requestState"] != second["requestState"]
    assert text(result) == "two"


async def test_a_missing_answer_is_asked_again() -> None:
    """A partial retry gets a round with what is missing."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        round = await client.call("both")
        one, other = round["inputRequests"]
        again = await client.retry(round, "both", {one: said("X")})
        result = await client.retry(again, "both", {other: said("Y")})
    assert list(again["inputRequests"]) == [other]
    assert text(result) == "XY"


async def test_answers_to_nothing_are_ignored() -> None:
    """A client may send more than it was asked for."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        round = await client.call("named")
        result = await client.retry(round, "named", {"choice": said("this"), "junk": {"x": 1}, "more": said("no")})
    assert text(result) == "this"


@pytest.mark.parametrize("bad", [12345, None, {}, {"role": "assistant"}, [said("x")], "text"])
async def test_an_answer_that_cannot_be_read_leaves_the_call_as_it_was(bad: Any) -> None:
    """It is -32602 that names the key, and the same state still works with a good answer."""
    server, done = catalogue()
    async with raw_client(server) as client:
        arguments = {"question": "why?"}
        round = await client.call("one", arguments)
        key, _ = only(round)
        params = {"name": "one", "arguments": arguments, "requestState": round["requestState"]}
        error = await client.error("tools/call", **params, inputResponses={key: bad})
        result = await client.retry(round, "one", {key: said("good")}, arguments=arguments)
    assert error["code"] == -32602
    assert key in error["message"]
    assert text(result) == "good"
    assert done == ["began", "ended"]


async def test_cancelling_the_retry_cancels_the_handler() -> None:
    """While a request is live, its cancellation is the handler's."""
    server, done = catalogue()
    woken, gone = asyncio.Event(), asyncio.Event()

    @server.tool
    async def slow(ctx: Context) -> str:
        await ctx.sample("?")
        done.append("woken")
        woken.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return ""

    async with raw_client(server) as client:
        round = await client.call("slow")
        id = client.modern("tools/call", name="slow", requestState=round["requestState"],
                           inputResponses={only(round)[0]: said("go")}, arguments={})  # fmt: skip
        async with asyncio.timeout(30):
            await woken.wait()
            client.send({"method": "notifications/cancelled", "params": {"requestId": id}})
            await gone.wait()
    assert done == ["woken"]


async def test_the_end_of_a_round_cancels_nothing() -> None:
    """A late cancellation of a request that was answered with a round has no effect."""
    server, done = catalogue()
    async with raw_client(server) as client:
        id = client.modern("tools/call", name="one", arguments={"question": "q"})
        round = (await client.reply(id))["result"]
        client.send({"method": "notifications/cancelled", "params": {"requestId": id}})
        result = await answered(client, "one", round, "x", arguments={"question": "q"})
    assert text(result) == "x"
    assert done == ["began", "ended"]


async def test_a_handler_that_ends_while_its_round_is_out_keeps_its_result() -> None:
    """An ask with a timeout does not wait for the retry; the retry gets what came of it."""
    ended = asyncio.Event()
    server, _ = catalogue()

    @server.tool
    async def impatient(ctx: Context) -> str:
        try:
            return (await ctx.sample("?", timeout=0.01)).text
        except TimeoutError:
            ended.set()
            return "went on without you"

    async with raw_client(server) as client:
        round = await client.call("impatient")
        async with asyncio.timeout(30):
            await ended.wait()
        result = await answered(client, "impatient", round, "too late")
    assert text(result) == "went on without you"


async def test_a_failure_after_the_retry_is_a_tool_result() -> None:
    """Errors stay on their plane whichever request they reach."""
    server, _ = catalogue()

    @server.tool
    async def breaks(ctx: Context) -> str:
        await ctx.sample("?")
        raise ValueError("secret detail")

    async with raw_client(server) as client:
        result = await answered(client, "breaks", await client.call("breaks"), "x")
    assert result["isError"] is True
    assert "secret" not in text(result)


async def test_an_answer_under_the_authors_key_needs_no_state() -> None:
    """A key that is part of a tool's contract is input like any argument."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        result = await client.call("named", inputResponses={"choice": said("the red one")})
    assert text(result) == "the red one"


@pytest.mark.parametrize("unreadable", [12345, "text", None, {"role": "user"}])
async def test_an_answer_that_came_unasked_and_cannot_be_read_is_asked_for(unreadable: Any) -> None:
    """It is client input like any other: never taken for an answer, never fatal."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        round = await client.call("named", inputResponses={"choice": unreadable})
    assert list(round["inputRequests"]) == ["choice"]


async def test_a_made_up_key_needs_its_state() -> None:
    """Answers to keys of the engine's are worth nothing without the round they belong to."""
    server, _ = catalogue()
    async with raw_client(server) as client:
        first = await client.call("one", {"question": "q"})
        again = await client.call("one", {"question": "q"}, inputResponses={only(first)[0]: said("forged")})
    assert again["resultType"] == "input_required"


async def test_two_asks_may_not_have_one_key() -> None:
    """The author learns at once."""
    server, _ = catalogue()
    problems: list[str] = []

    @server.tool
    async def clash(ctx: Context) -> str:
        results = await asyncio.gather(ctx.sample("a", key="k"), ctx.sample("b", key="k"), return_exceptions=True)
        problems.extend(str(one) for one in results if isinstance(one, Exception))
        return "done"

    async with raw_client(server) as client:
        round = await client.call("clash")
        await client.retry(round, "clash", {"k": said("x")})
    assert len(problems) == 1
    assert "'k'" in problems[0]


async def test_progress_and_logs_go_to_the_request_that_is_live() -> None:
    """Each request has its own token and log level; between rounds both are dropped."""
    server, _ = catalogue()

    @server.tool
    async def chatty(ctx: Context) -> str:
        await ctx.progress(1)
        await ctx.info("before")
        await ctx.sample("?")
        await ctx.progress(2)
        await ctx.info("after")
        return "done"

    level = {"io.modelcontextprotocol/logLevel": "info"}
    async with raw_client(server) as client:
        round = await client.call("chatty", meta={"progressToken": "first"})
        await answered(client, "chatty", round, "x", meta={"progressToken": "second", **level})
    progress = [m["params"] for m in client.notifications if m["method"] == "notifications/progress"]
    logs = [m["params"]["data"] for m in client.notifications if m["method"] == "notifications/message"]
    assert [(p["progressToken"], p["progress"]) for p in progress] == [("first", 1), ("second", 2)]
    assert logs == ["after"]


async def test_retries_that_wait_together_get_the_same_reply() -> None:
    """A client may repeat a retry while the first still runs."""
    server, _ = catalogue()
    release = asyncio.Event()

    @server.tool
    async def gate(ctx: Context) -> str:
        answer = await ctx.sample("?")
        await release.wait()
        return answer.text

    async with raw_client(server) as client:
        round = await client.call("gate")
        retry: Json = {"name": "gate", "arguments": {}, "requestState": round["requestState"],
                       "inputResponses": {only(round)[0]: said("x")}}  # fmt: skip
        ids = [client.modern("tools/call", **retry) for _ in range(3)]
        refused = [client.modern("tools/call", **retry) for _ in range(8)]
        assert (await client.reply(refused[-1]))["error"]["message"] == make_refusal().message
        release.set()
        results = [(await client.reply(id))["result"] for id in ids]
    assert [text(result) for result in results] == ["x"] * 3


UNSENDABLE = CallToolResult(content=[], structured_content={"at": object()})


def test_of_a_result_its_fault_is_delivered() -> None:
    """And what is kept says no more than that it failed."""
    fault = TypeError("object")
    delivered, kept = replace_unsendable(UNSENDABLE, fault)
    assert delivered is fault
    assert b"Internal error" in bytes(kept)


def test_an_error_is_delivered_as_it_is() -> None:
    """It is for the session to refuse and to log."""
    error = PeerError("odd", data={"at": object()})
    delivered, kept = replace_unsendable(error, TypeError("object"))
    assert delivered is error
    assert b"Internal error" in bytes(kept)


@pytest.mark.parametrize("asks", [0, 1])
@pytest.mark.parametrize("failure", [PeerError("odd", data=object()), PeerError("odd", data={"at": object()})])
async def test_a_prompt_that_raises_what_cannot_be_sent_is_answered(asks: int, failure: PeerError) -> None:
    """Before its first round and after it; nobody waits for the deadline."""
    server = Server("odd")

    @server.prompt
    async def odd(ctx: Context) -> str:
        for _ in range(asks):
            await ctx.sample("q")
        raise failure

    async with connected(server, sampling=Script(["a"])) as client:
        with pytest.raises(InternalError, match="Internal error"):
            await client.get_prompt("odd")


async def test_a_result_that_cannot_be_sent_after_a_round_is_answered() -> None:
    """The round before it has made it a call that is kept."""
    server = Server("odd")

    @server.tool
    async def odd(ctx: Context) -> CallToolResult:
        await ctx.sample("q")
        return UNSENDABLE

    async with connected(server, sampling=Script(["a"])) as client:
        with pytest.raises(InternalError, match="Internal error"):
            await client.call_tool("odd")


async def test_a_handler_that_cancels_itself_is_not_told_of_a_state() -> None:
    """The client sent none: what happened is that the request was abandoned, as it is in the other era."""
    server = Server("odd")

    @server.tool
    async def odd(ctx: Context) -> Any:
        raise asyncio.CancelledError

    for revision in ("2025-11-25", "2026-07-28"):
        async with connected(server, revision=revision) as client:
            with pytest.raises(InternalError, match="The request was abandoned"):
                await client.call_tool("odd")


class Counting:
    """Counts how often a round was to be sent. ``is_there``: whether there is one to send."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.sent = 0
        self.is_there = is_there

    def send(self) -> bool:
        """Take note."""
        self.sent += 1
        return self.is_there


async def passes(number: int) -> None:
    """Let so many passes of the event loop go by."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_what_the_body_itself_asks_is_sent_at_the_next_pass() -> None:
    """It waits for its answer: nobody but a task it made can add an ask, and that one has its turn before."""
    rounds = Counting()
    sent_before: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: sent_before.append(rounds.sent))
    Quiescence().count(rounds.send)
    assert rounds.sent == 0
    await passes(1)
    assert (sent_before, rounds.sent) == ([0], 1)


async def test_what_another_task_asks_waits_for_its_siblings() -> None:
    """A few passes more: those of a nested ``gather``."""
    rounds = Counting()
    Quiescence().count(rounds.send, is_direct=False)
    await passes(PASSES)
    assert rounds.sent == 0
    await passes(1)
    assert rounds.sent == 1


async def test_another_ask_begins_the_count_anew() -> None:
    """And the round is sent once."""
    rounds, quiescence = Counting(), Quiescence()
    quiescence.count(rounds.send, is_direct=False)
    await passes(PASSES)
    quiescence.count(rounds.send)
    await passes(PASSES)
    assert rounds.sent == 0
    await passes(2)
    assert rounds.sent == 1


async def test_after_a_round_the_count_is_short_again() -> None:
    """The next ask may be the body's own."""
    rounds, quiescence = Counting(), Quiescence()
    quiescence.count(rounds.send, is_direct=False)
    await passes(PASSES + 1)
    quiescence.count(rounds.send)
    await passes(2)
    assert rounds.sent == 2


async def test_while_there_is_no_round_the_count_stays_long() -> None:
    """Asks of other tasks that came while nobody could be asked are waited for when somebody can."""
    rounds, quiescence = Counting(is_there=False), Quiescence()
    quiescence.count(rounds.send, is_direct=False)
    await passes(PASSES + 1)
    quiescence.count(rounds.send)
    await passes(PASSES)
    assert rounds.sent == 1


async def test_what_was_too_early_is_looked_at_again() -> None:
    """After some time, and without counting anew."""
    quiescence, done, tries = Quiescence(), asyncio.Event(), list[int]()

    def send() -> bool:
        tries.append(1)
        if len(tries) == 1:
            quiescence.look_again(0.001, send)
            return False
        done.set()
        return True

    quiescence.count(send)
    async with asyncio.timeout(30):
        await done.wait()
    assert len(tries) == 2


VALUES: dict[str, Any] = {
    "ascii": {"text": "x" * 100_000},
    "latin": {"text": "\u00e9" * 50_000},
    "chinese": {"text": "\u6570" * 50_000},
    "one wide character": {"text": "x" * 100_000 + "\U0001f600"},
    "short strings": {"texts": [f"text {n}" for n in range(10_000)]},
    "numbers": {"numbers": [n + 0.5 for n in range(20_000)]},
    "empty arrays": {"lists": [[] for _ in range(20_000)]},
    "objects": {"rows": [{"name": f"n{n}", "count": n + 1000} for n in range(5_000)]},
}


def size_of(value: Any) -> int:
    """Return what a value has in memory, with all that is in it."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(size_of(name) + size_of(member) for name, member in value.items())
    return size + sum(size_of(member) for member in value) if isinstance(value, list) else size


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("escapes", [True, False], ids=["escaped", "plain"])
def test_it_weighs_at_least_what_it_is(kind: str, escapes: bool) -> None:
    """The JSON and the values: never less, and not many times as much, or calls would be evicted for nothing."""
    data = json.dumps(VALUES[kind], ensure_ascii=escapes).encode()
    real = len(data) + size_of(json.loads(data))
    assert real * 0.95 <= weight_of(data) <= real * 5 + 4096
    assert weight_of(Raw(data)) == weight_of(data)


@pytest.mark.parametrize("kind", VALUES)
def test_a_large_message_is_weighed_by_a_sample(kind: str) -> None:
    """Nearly as well: what is heavy in it lies in many places, and a wide character anywhere is found."""
    data = json.dumps([["x" * 1_500_000], *[VALUES[kind]] * 12, ["x" * 1_500_000]], ensure_ascii=False).encode()
    real = len(data) + size_of(json.loads(data))
    assert real * 0.8 <= weight_of(data) <= real * 5


def test_a_wide_character_is_found_in_a_large_text() -> None:
    """It makes every character of its string four bytes wide, wherever it stands."""
    text = "x" * 3_000_000 + "\U0001f600" + "x" * 1_000_000
    for is_ascii in (True, False):
        weight = weight_of(json.dumps(text, ensure_ascii=is_ascii).encode())
        assert weight >= 0.99 * (len(text) + size_of(text))


def test_a_small_message_is_not_looked_at() -> None:
    """The overhead of a call has room for what comes of it."""
    assert weight_of(b"[]" * 10) == 40
