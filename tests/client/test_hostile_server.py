"""A server that asks for more than it should: what the defaults of a client make of it, on every kind of transport."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import sys
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client, PeerError, RemoteProtocolError
from antiphon.client.answers.answerers import MAX_TOKENS
from antiphon.client.rounds.loop import RoundLimits
from antiphon.wire.origin import Origin
from tests.support import hostile
from tests.support.hostile import MIB, SECRET, Attacker
from tests.support.raw_server import RawServer
from tests.support.web import result, serving

LEGACY, MODERN = "2025-11-25", "2026-07-28"
TRANSPORTS = ["memory", "http", "stdio"]
DONE = {"content": [{"type": "text", "text": "done"}]}


class Model:
    """An answerer that counts: how often it was asked, how often at once, for what."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.origins: list[Origin] = []
        self.at_once = 0
        self.most_at_once = 0
        self.stopped = 0
        self.gate: asyncio.Event | None = None

    async def __call__(self, params: Any, origin: Origin) -> str:
        self.asked.append(params)
        self.origins.append(origin)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await (self.gate.wait() if self.gate is not None else asyncio.sleep(0))
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        finally:
            self.at_once -= 1
        return "yes"


@asynccontextmanager
async def attacked(transport: str, model: Model, **options: Any) -> AsyncGenerator[tuple[Client, Attacker]]:
    """Connect a client to the hostile server; what a child process was asked is not seen."""
    attacker = Attacker()

    async def over_http(_request: Any, seen: Any) -> Any:
        return result(seen.body["id"], attacker.reply(seen.body))

    if transport == "http":
        async with serving(over_http) as site, Client(site.url, sampling=model, revision=MODERN, **options) as client:
            yield client, attacker
        return
    target: Any = [sys.executable, str(Path(hostile.__file__))]
    if transport == "memory":
        target = RawServer(tools_call=attacker.reply)
    async with Client(target, sampling=model, revision=MODERN, **options) as client:
        yield client, attacker


async def refusal(client: Client, tool: str) -> str:
    """Call a tool that is refused, and return what the error says; the error itself is let go of."""
    try:
        await client.call_tool(tool)
    except (RemoteProtocolError, PeerError) as error:
        # Over HTTP an answer that is too large is a failure of the request, which has errors of its own.
        return str(error)
    raise AssertionError("the call was not refused")


async def is_refused(client: Client, tool: str, match: str) -> None:
    """Call a tool; the call is given up with an error that is clear and short, and the client stays usable."""
    said = await refusal(client, tool)
    assert re.search(match, said)
    assert len(said) < 500
    assert SECRET not in said
    assert (await client.call_tool("ok")).text == "done"


# --- too much, in rounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_five_hundred_asks_in_one_round_are_refused_whole(transport: str) -> None:
    """Not one of them is answered."""
    model = Model()
    async with attacked(transport, model) as (client, _):
        await is_refused(client, "500 asks", "more than 100 answers in one call")
    assert model.asked == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_as_many_asks_as_are_allowed_are_answered_few_at_once(transport: str) -> None:
    """A hundred, eight at the same time."""
    model = Model()
    async with attacked(transport, model) as (client, _):
        assert (await client.call_tool("100 asks")).text == "done"
    assert (len(model.asked), model.most_at_once) == (100, 8)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("tool", "why", "answers"),
    [("endless rounds", "more than 64 rounds", 64), ("endless pairs", "more than 100 answers", 100)],
)
async def test_endless_rounds_end(transport: str, tool: str, why: str, answers: int) -> None:
    """By the number of rounds, or of asks: never more than a hundred answers."""
    model = Model()
    async with attacked(transport, model) as (client, _):
        await is_refused(client, tool, why)
    assert len(model.asked) == answers


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_state_of_50_mb_is_refused(transport: str) -> None:
    """The message is drained, not kept; the call that it was for fails."""
    model = Model()
    async with attacked(transport, model) as (client, _):
        await is_refused(client, "50 MB state", "too large|more than")
    assert model.asked == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_50_mb_of_asks_are_refused(transport: str) -> None:
    """So are they."""
    model = Model()
    async with attacked(transport, model) as (client, _):
        await is_refused(client, "50 MB of asks", "too large|more than")
    assert model.asked == []


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_json_that_nests_without_end_is_refused(transport: str) -> None:
    """Before anybody walks through it."""
    model = Model()
    async with attacked(transport, model) as (client, _):
        await is_refused(client, "deep", "nested deeper than 128")
    assert model.asked == []


async def test_a_state_that_is_longer_than_any_server_needs_is_refused() -> None:
    """It would come back with every retry."""
    model = Model()
    async with attacked("memory", model) as (client, _):
        await is_refused(client, "2 MB state", "requestState is longer than 1048576 characters")
    assert model.asked == []


async def test_a_billion_tokens_are_not_asked_for() -> None:
    """The client may sample fewer, and does."""
    model = Model()
    async with attacked("memory", model) as (client, _):
        assert (await client.call_tool("a billion tokens")).text == "done"
    assert [asked.max_tokens for asked in model.asked] == [MAX_TOKENS]


async def test_a_round_that_asks_nothing_is_refused() -> None:
    """Neither asks nor state: there would be nothing to retry with."""
    async with attacked("memory", Model()) as (client, _):
        await is_refused(client, "nothing", "neither what nor in which state")


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ("tools", r"inputRequests\.bad \(sampling/createMessage\): .*did not declare"),
        ("tool choice", r"inputRequests\.bad \(sampling/createMessage\): .*did not declare"),
        ("form", r"inputRequests\.bad \(elicitation/create\): .*did not declare"),
        ("roots", r"inputRequests\.bad \(roots/list\): .*did not declare"),
        ("no ask", r"inputRequests\.bad \(tools/call\): this is nothing a round may ask"),
        ("no user", r"inputRequests\.bad \(sampling/createMessage\): .*role"),
        ("lone result", r"inputRequests\.bad \(sampling/createMessage\): messages\[1\]\.content\.toolUseId"),
        ("long key", r"inputRequests\.k{100}\.\.\. \(m{100}\.\.\.\)"),
    ],
)
async def test_one_bad_ask_refuses_the_whole_round(tool: str, why: str) -> None:
    """The error names its key and its method; the good one beside it is not answered; nothing is sent again."""
    model = Model()
    async with attacked("memory", model) as (client, attacker):
        await is_refused(client, tool, why)
    assert model.asked == []
    assert [params["name"] for params in attacker.requests] == [tool, "ok"]


async def test_the_same_key_twice_is_one_ask() -> None:
    """What JSON makes of it: the last one counts."""
    model = Model()
    first, second = (json.dumps(hostile.sample(said)) for said in ("first", "second"))
    head = '"resultType":"input_required","requestState":"s"'

    class Twice(RawServer):
        def __init__(self) -> None:
            super().__init__(tools_call=self.reply)

        def reply(self, request: Any) -> Any:
            if "requestState" in request["params"]:
                return {"resultType": "complete", **DONE}
            asks = f'"inputRequests":{{"a":{first},"a":{second}}}'
            self.send_raw(f'{{"jsonrpc":"2.0","id":{request["id"]},"result":{{{head},{asks}}}}}'.encode())
            return None

    async with Client(Twice(), sampling=model, revision=MODERN) as client:
        assert (await client.call_tool("t")).text == "done"
    assert [asked.messages[0].text for asked in model.asked] == ["second"]


async def test_a_refused_call_is_not_heard_of_again() -> None:
    """No request is live between rounds, so there is nothing to cancel: the server waits for its time to live."""
    server = RawServer(tools_call=lambda _: hostile.attack("500 asks", 1))
    async with Client(server, sampling=Model(), revision=MODERN) as client:
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("t")
        await client.ping()
    assert [message["method"] for message in server.received] == ["server/discover", "tools/call", "server/discover"]


async def test_the_state_is_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Neither when all goes well nor when a round is refused; it travels as it came."""
    with caplog.at_level(logging.DEBUG):
        async with attacked("memory", Model()) as (client, attacker):
            await client.call_tool("100 asks")
            await is_refused(client, "endless rounds", "more than 64")
    assert [params.get("requestState") for params in attacker.requests[:2]] == [None, SECRET]
    assert SECRET not in caplog.text


# --- memory --------------------------------------------------------------------------------------------------------


async def peak_of(work: Callable[[], Awaitable[object]]) -> tuple[int, int]:
    """Return how many bytes some work took at most, and how many are left after it."""
    gc.collect()
    tracemalloc.start()
    try:
        await work()
        gc.collect()
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak, left


async def test_states_that_grow_take_no_more_than_the_last_of_them() -> None:
    """64 rounds with states of 30 MB together, each of which is longer than the one before."""
    async with attacked("stdio", Model()) as (client, _):
        peak, left = await peak_of(lambda: is_refused(client, "growing state", "more than 64 rounds"))
    assert peak < 16 * MIB
    assert left < MIB


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ("15 MB of asks", "more than 5 answers"),
        ("unreadable", "answer to tools/call cannot be read"),
        ("unreadable ask", r"inputRequests\.a .*maxTokens"),
    ],
)
async def test_large_messages_leave_nothing_behind(tool: str, why: str) -> None:
    """Ten of them, one after the other: the frame, what is read of it, and after that nothing."""
    async with attacked("stdio", Model(), limits=RoundLimits(asks=5)) as (client, _):

        async def ten() -> None:
            for _ in range(10):
                await is_refused(client, tool, why)

        peak, left = await peak_of(ten)
    assert peak < 48 * MIB
    assert left < MIB


# --- asks that come as requests (up to 2025-11-25) -----------------------------------------------------------------


@asynccontextmanager
async def asked(model: Model | None, **options: Any) -> AsyncGenerator[tuple[Client, RawServer, asyncio.Task[Any]]]:
    """Open a call on a legacy server, which now may ask."""
    server = RawServer(tools_call=lambda _: None)
    async with Client(server, sampling=model, revision=LEGACY, **options) as client:
        call = asyncio.create_task(client.call_tool("t"))
        await server.request("tools/call")
        yield client, server, call
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


async def finish(server: RawServer) -> None:
    """Give the call its result."""
    server.send({"id": (await server.request("tools/call"))["id"], "result": DONE})


async def test_a_legacy_call_is_given_up_after_a_hundred_asks() -> None:
    """The next one gets an error, our call is cancelled there and fails here; the client stays usable."""
    model = Model()
    async with asked(model) as (client, server, call):
        for number in range(120):
            server.sample(number)
        answers = [await server.answer(number) for number in range(120)]
        with pytest.raises(RemoteProtocolError, match="more than 100 answers in one call"):
            await call
        cancelled = await server.request("notifications/cancelled")
        assert cancelled["params"]["requestId"] == (await server.request("tools/call"))["id"]
        await client.ping()
    assert sum("result" in answer for answer in answers) <= 100
    assert len(model.asked) <= 100


async def test_a_flood_of_asks_is_answered_few_at_once() -> None:
    """A hundred come at once; they wait for their turn."""
    model = Model()
    model.gate = asyncio.Event()
    async with asked(model) as (client, server, call):
        for number in range(100):
            server.sample(number)
        await client.ping()
        assert model.at_once == 8
        model.gate.set()
        answers = [await server.answer(number) for number in range(100)]
        await finish(server)
        assert (await call).text == "done"
    assert all("result" in answer for answer in answers)
    assert (len(model.asked), model.most_at_once) == (100, 8)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("sampling/createMessage", hostile.sample(tools=[{"name": "t", "inputSchema": {}}])["params"], -32602),
        ("sampling/createMessage", hostile.sample(toolChoice={"mode": "auto"})["params"], -32602),
        ("elicitation/create", hostile.form()["params"], -32601),
        ("roots/list", {}, -32601),
        ("tools/call", {"name": "t"}, -32601),
    ],
)
async def test_what_was_not_declared_is_refused(method: str, params: Any, code: int) -> None:
    """The ask gets an error, the answerer does not see it, the call goes on."""
    model = Model()
    async with asked(model) as (_, server, call):
        server.ask("x", method, **params)
        assert (await server.answer("x"))["error"]["code"] == code
        await finish(server)
        assert (await call).text == "done"
    assert model.asked == []


async def test_an_ask_that_breaks_the_rules_is_refused_with_the_place() -> None:
    """-32602, and the answerer does not see it."""
    model = Model()
    async with asked(model) as (_, server, _call):
        server.ask("x", "sampling/createMessage", messages=[hostile.text("?"), hostile.LONE_RESULT], maxTokens=5)
        error = (await server.answer("x"))["error"]
    assert (error["code"], error["data"]) == (-32602, {"place": "messages[1].content.toolUseId"})
    assert model.asked == []


async def test_a_billion_tokens_are_not_asked_for_by_a_request_either() -> None:
    """Nor the context of other servers."""
    model = Model()
    async with asked(model) as (_, server, _call):
        server.ask("x", "sampling/createMessage", **_ask(maxTokens=10**9, includeContext="allServers"))
        assert "result" in await server.answer("x")
    assert (model.asked[0].max_tokens, model.asked[0].include_context) == (MAX_TOKENS, None)


def _ask(**more: Any) -> dict[str, Any]:
    return hostile.sample(**more)["params"]


async def test_json_that_nests_without_end_is_refused_by_id() -> None:
    """The ask gets an error; the call goes on."""
    model = Model()
    async with asked(model) as (_, server, call):
        server.ask("x", "sampling/createMessage", **_ask(metadata=hostile.deep(200)))
        assert (await server.answer("x"))["error"]["code"] == -32600
        await finish(server)
        assert (await call).text == "done"
    assert model.asked == []


async def test_a_second_ask_under_a_live_id_is_refused() -> None:
    """The first one is answered."""
    model = Model()
    model.gate = asyncio.Event()
    async with asked(model) as (_, server, _call):
        server.sample("x")
        server.sample("x")
        assert (await server.answer("x"))["error"]["code"] == -32600
        server.answers.clear()
        model.gate.set()
        assert "result" in await server.answer("x")
    assert len(model.asked) == 1


async def test_an_ask_before_any_call_is_refused() -> None:
    """Sampling belongs to a request of ours (2025-11-25 client/sampling)."""
    model = Model()
    server = RawServer()
    async with Client(server, sampling=model, revision=LEGACY) as client:
        server.sample("x")
        assert (await server.answer("x"))["error"]["code"] == -32602
        await client.ping()
    assert model.asked == []


async def test_an_ask_after_the_result_is_refused() -> None:
    """The call it might have belonged to has ended."""
    model = Model()
    async with asked(model) as (_, server, call):
        await finish(server)
        server.sample("x")
        assert (await server.answer("x"))["error"]["code"] == -32602
        assert (await call).text == "done"
    assert model.asked == []


async def test_an_ask_ends_with_its_call() -> None:
    """The server gave its result without waiting: nobody is bothered any longer."""
    model = Model()
    model.gate = asyncio.Event()
    async with asked(model) as (client, server, call):
        server.sample("x")
        server.sample("y")
        await client.ping()
        await finish(server)
        assert (await call).text == "done"
        assert "error" in await server.answer("x")
        assert "error" in await server.answer("y")
        await client.ping()
    assert (len(model.asked), model.stopped) == (2, 2)


async def test_an_ask_ends_with_a_call_that_we_no_longer_want() -> None:
    """A person is not asked for something that nobody will use."""
    model = Model()
    model.gate = asyncio.Event()
    async with asked(model) as (client, server, call):
        server.sample("x")
        await client.ping()
        call.cancel()
        assert "error" in await server.answer("x")
    assert model.stopped == 1


# --- asks where there are only rounds (2026-07-28) ------------------------------------------------------------------


async def test_a_stray_request_is_dropped_and_counted() -> None:
    """The client writes no replies in this revision."""
    model = Model()
    server = RawServer(tools_call=lambda _: None)
    async with Client(server, sampling=model, revision=MODERN) as client:
        call = asyncio.create_task(client.call_tool("t"))
        await server.request("tools/call")
        for number in range(500):
            server.sample(number)
        await finish(server)
        assert (await call).text == "done"
        assert client._link.calls.peer.ignored == 500
    assert model.asked == []
    assert server.answers == {}


async def test_a_second_reply_to_a_call_is_dropped() -> None:
    """Whatever it holds: the first one was the reply."""
    model = Model()

    def twice(message: Any) -> Any:
        server.send({"id": message["id"], "result": {"resultType": "complete", **DONE}})
        return hostile.attack("endless rounds", 1)

    server = RawServer(tools_call=twice)
    async with Client(server, sampling=model, revision=MODERN) as client:
        assert (await client.call_tool("t")).text == "done"
        await client.ping()
    assert model.asked == []
