"""The requests of one call share one deadline, and are not made in a spin."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from antiphon import Client, PeerError
from antiphon.client.known_tools import KnownTools
from antiphon.client.requests import attempts as module
from antiphon.client.requests.attempts import may_repeat
from antiphon.client.rounds.loop import RoundLimits
from antiphon.errors import CallTimeout, RemoteProtocolError
from antiphon.machine.call_time import TimeLeft
from antiphon.transports.http.client.error_replies import BROKEN
from tests.support.child_server import ended, served, started
from tests.support.raw_server import RawServer
from tests.support.web import result, serving

ONLY_STATE = {"resultType": "input_required", "requestState": "s"}
DONE = {"content": [{"type": "text", "text": "done"}]}

INFO = {"name": "web", "version": "1"}


class Busy(RawServer):
    """Says ``times`` times that it needs time, and counts the retries."""

    def __init__(self, times: int) -> None:
        super().__init__(tools_call=self.reply)
        self.times = times
        self.came: list[float] = []

    def reply(self, _message: dict[str, Any]) -> dict[str, Any]:
        self.came.append(asyncio.get_running_loop().time())
        return ONLY_STATE if len(self.came) <= self.times else DONE


async def test_a_server_that_only_wants_time_gets_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first retry is made at once, then each waits twice as long as the one before."""
    server = Busy(4)
    rests: list[tuple[int, float]] = []

    async def rest(seconds: float) -> None:
        rests.append((len(server.came), seconds))

    monkeypatch.setattr("antiphon.client.requests.attempts.asyncio.sleep", rest)
    async with Client(server, revision="2026-07-28") as client:
        assert (await client.call_tool("t")).text == "done"
    assert rests == [(2, 0.01), (3, 0.02), (4, 0.04)]


async def test_the_rests_are_part_of_the_deadline() -> None:
    """No person is waited for in them."""
    server = Busy(1_000)
    async with Client(server, revision="2026-07-28", limits=RoundLimits(rounds=2_000)) as client:
        with pytest.raises(CallTimeout, match=r"within 1 s"):
            await client.call_tool("t", timeout=1.0)
        # A busy machine may make fewer of them; without rests there are hundreds.
        assert len(server.came) <= 9


async def test_a_server_that_only_wants_time_ends_by_its_rounds() -> None:
    """Without a deadline as well."""
    server = Busy(1_000)
    async with Client(server, revision="2026-07-28", timeout=None, limits=RoundLimits(rounds=3)) as client:
        with pytest.raises(RemoteProtocolError, match="more than 3 rounds"):
            await client.call_tool("t")
    assert len(server.came) == 4


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_without_any_time_nothing_is_sent(revision: str) -> None:
    """A server that is told of a call and of its end at once has had work for nothing."""
    server = Busy(0)
    async with Client(server, revision=revision) as client:
        with pytest.raises(CallTimeout):
            await client.call_tool("t", timeout=0)
        await client.ping()
    assert server.came == []


async def test_what_is_spent_is_gone() -> None:
    """Never less than nothing, and then nothing is begun any more."""
    time = TimeLeft(2.0)
    time.spend(1.5)
    assert (time.seconds, time.is_over) == (0.5, False)
    time.spend(1.5)
    assert (time.seconds, time.is_over) == (0.0, True)
    with pytest.raises(CallTimeout, match="tools/call was not answered within 2 s"):
        async with time.limit("tools/call"):
            raise AssertionError("it was begun")


async def test_what_takes_longer_is_ended() -> None:
    """It had what was left, and that is spent."""
    time = TimeLeft(0.01)
    with pytest.raises(CallTimeout):
        async with time.limit("tools/call"):
            await asyncio.Event().wait()
    assert time.is_over


async def test_without_a_timeout_there_is_time_for_all() -> None:
    """Nothing is counted."""
    time = TimeLeft(None)
    async with time.limit("tools/call"):
        await asyncio.sleep(0)
    time.spend(1_000)
    assert (time.seconds, time.is_over) == (None, False)


async def test_a_timeout_of_something_within_is_its_own() -> None:
    """It is raised as it is."""
    with pytest.raises(TimeoutError) as caught:
        async with TimeLeft(60.0).limit("tools/call"):
            raise TimeoutError("another")
    assert not isinstance(caught.value, CallTimeout)


def test_what_is_left_goes_on() -> None:
    """A number begins anew, what is left stays what it is."""
    time = TimeLeft(1.0)
    assert TimeLeft.of(time) is time
    assert TimeLeft.of(1.0).seconds == 1.0


@pytest.mark.parametrize(
    ("method", "may"),
    [("tools/list", True), ("resources/read", True), ("prompts/get", True), ("subscriptions/listen", False)],
)
def test_what_changes_nothing_may_be_done_twice(method: str, may: bool) -> None:
    """A subscription is its listener's to renew."""
    assert may_repeat(method, None, KnownTools()) is may


def resetting(bodies: list[Any], resets: int, *, after: int = 0) -> Any:
    """Make a modern server that resets the connection of so many requests, ``after`` some behind the probe."""

    async def answers(request: Any, seen: Any) -> Any:
        done = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
        if seen.body["method"] == "server/discover":
            said = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": INFO}
            return result(seen.body["id"], {**done, **said})
        bodies.append(seen.body)
        if after < len(bodies) <= after + resets:
            request.transport.abort()
            return web.Response()
        if seen.body["method"] == "tools/list":
            listed = {"name": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
            return result(seen.body["id"], {**done, "tools": [listed]})
        return result(seen.body["id"], {"resultType": "complete", "content": []})

    return answers


async def test_a_repetition_is_the_same_request_under_a_new_id() -> None:
    """Params and the caller's ``_meta`` are those of the lost one; the progress token is the new id."""
    bodies: list[Any] = []
    answers = resetting(bodies, 0)

    async def later(request: Any, seen: Any) -> Any:
        if seen.body["method"] == "tools/call" and not any(each["method"] == "tools/call" for each in bodies):
            bodies.append(seen.body)
            request.transport.abort()
            return web.Response()
        return await answers(request, seen)

    async with serving(later) as site, Client(site.url) as client:
        await client.list_tools()
        await client.call_tool("t", {"n": 12345678901234567890}, progress=print, meta={"com.example/a": 1})
    first, again = bodies[1:]
    assert first["id"] != again["id"]
    for body in (first, again):
        assert body["params"]["_meta"].pop("progressToken") == body["id"]
    assert first["params"] == again["params"]
    assert again["params"]["_meta"]["com.example/a"] == 1


async def test_a_server_that_resets_each_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many tries, with pauses between; the error says how many it were."""
    monkeypatch.setattr(module, "PAUSES", (0.01, 0.02, 0.03))
    bodies: list[Any] = []
    async with serving(resetting(bodies, 100)) as site, Client(site.url) as client:
        with pytest.raises(PeerError, match="sent 4 times") as raised:
            await client.list_tools()
        assert raised.value.code == BROKEN
        assert len(bodies) == 4


async def test_a_failure_that_is_no_loss_is_not_repeated() -> None:
    """The server has answered: that is its answer."""
    bodies: list[Any] = []
    answers = resetting(bodies, 0)

    async def refusing(request: Any, seen: Any) -> Any:
        if seen.body["method"] == "tools/list":
            bodies.append(seen.body)
            return web.Response(status=503)
        return await answers(request, seen)

    async with serving(refusing) as site, Client(site.url) as client:
        with pytest.raises(PeerError, match="503"):
            await client.list_tools()
    assert len(bodies) == 1


def unavailable(bodies: list[Any], times: int, headers: dict[str, str]) -> Any:
    """Make a modern server that answers the first so many calls of an unmarked tool with 503."""

    async def answers(_request: Any, seen: Any) -> Any:
        if seen.body["method"] == "server/discover":
            said = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": INFO}
            done = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
            return result(seen.body["id"], {**done, **said})
        bodies.append(seen.body)
        if len(bodies) <= times:
            return web.Response(status=503, headers=headers)
        return result(seen.body["id"], {"resultType": "complete", "content": []})

    return answers


async def test_what_was_not_accepted_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any tool: the server says itself, with a header of ours, that the request went nowhere."""
    monkeypatch.setattr(module, "PAUSES", (0.0, 0.0))
    bodies: list[Any] = []
    async with serving(unavailable(bodies, 2, {"Antiphon-Not-Accepted": "1"})) as site, Client(site.url) as client:
        await client.call_tool("t")
    assert len(bodies) == 3


async def test_a_503_alone_does_not_tell() -> None:
    """A proxy may say so after it has handed the call on: a tool that is not marked is called once."""
    bodies: list[Any] = []
    async with serving(unavailable(bodies, 1, {})) as site, Client(site.url) as client:
        with pytest.raises(PeerError, match="503"):
            await client.call_tool("t")
    assert len(bodies) == 1


SEVERAL = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5}
ASKS = {
    "resultType": "input_required",
    "requestState": "s",
    "inputRequests": {"k": {"method": "sampling/createMessage", "params": SEVERAL}},
}


def throttling(bodies: list[Any], named: str) -> Any:
    """Make a modern server that asks once, and refuses the first retry with the answer as one too many."""

    async def answers(_request: Any, seen: Any) -> Any:
        if seen.body["method"] == "server/discover":
            said = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": INFO}
            return result(seen.body["id"], {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **said})
        bodies.append(seen.body["params"])
        if len(bodies) == 2:
            return web.Response(status=429, headers={"Retry-After": named})
        return result(seen.body["id"], ASKS if len(bodies) == 1 else {"resultType": "complete", **DONE})

    return answers


async def answer(_params: Any, _origin: Any) -> str:
    """Answer as a person does."""
    return "yes"


async def test_an_answer_that_was_one_too_many_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not carried out, and may have cost a person time; another attempt is made when the server wants it."""
    slept: list[float] = []

    async def rest(seconds: float) -> None:
        slept.append(seconds)

    bodies: list[Any] = []
    async with serving(throttling(bodies, "7")) as site, Client(site.url, sampling=answer) as client:
        monkeypatch.setattr("antiphon.client.requests.attempts.asyncio.sleep", rest)
        assert (await client.call_tool("t")).text == "done"
    assert slept[0] == 7.0
    assert bodies[1]["inputResponses"] == bodies[2]["inputResponses"]


async def test_a_call_does_not_wait_longer_for_another_attempt_than_it_has() -> None:
    """The caller gets what the server has said, at once."""
    bodies: list[Any] = []
    async with serving(throttling(bodies, "50")) as site, Client(site.url, sampling=answer, timeout=30) as client:
        with pytest.raises(PeerError, match=r"429 .*Retry-After: 50"):
            await client.call_tool("t")
    assert len(bodies) == 2


ASKING = '''
from antiphon import Context, Server

server = Server("gap", version="1", keys=[b"k" * 32])


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the client's model."""
    return (await ctx.sample("?", max_tokens=5)).text
'''


async def test_a_gap_within_a_round_is_waited_out(tmp_path: Path) -> None:
    """A person has answered: that nobody listens for a moment, as in a restart, does not lose what they said."""
    async with served(ASKING, tmp_path) as (process, place):
        again: list[Any] = []

        async def answer(_params: Any, _origin: Any) -> str:
            process.kill()
            await ended(process)
            asyncio.get_running_loop().call_later(0.6, begin)
            return "said"

        def begin() -> None:
            again.append(started("serve", str(tmp_path / "program.py"), "--http", place))

        try:
            async with Client(f"http://{place}/mcp", sampling=answer, revision="2026-07-28") as client:
                assert (await client.call_tool("ask")).text == "said"
        finally:
            for each in again:
                each.kill()
                each.communicate()


TASKING = '''
from pathlib import Path
from antiphon import Context, Server
from antiphon.server import SqlTaskStore, TaskOptions

tasks = TaskOptions(store=SqlTaskStore(Path(__file__).with_name("tasks.db")), poll_every=0.05, lease=1)
server = Server("gap", version="1", keys=[b"k" * 32], tasks=tasks)


@server.tool(task="required")
async def ask(ctx: Context) -> str:
    """Ask."""
    return (await ctx.sample("?")).text
'''


async def test_a_gap_while_a_task_is_followed_is_waited_out(tmp_path: Path) -> None:
    """The task has begun: an error would lose what a person has said, and make the caller begin another one."""
    async with served(TASKING, tmp_path) as (process, place):
        again: list[Any] = []

        async def answer(_params: Any, _origin: Any) -> str:
            if not again:
                process.kill()
                await ended(process)
                asyncio.get_running_loop().call_later(0.6, begin)
                again.append(None)
            return "said"

        def begin() -> None:
            again[0] = started("serve", str(tmp_path / "program.py"), "--http", place)

        try:
            async with Client(f"http://{place}/mcp", sampling=answer, revision="2026-07-28") as client:
                assert (await client.call_tool("ask")).text == "said"
        finally:
            for each in filter(None, again):
                each.kill()
                each.communicate()


async def test_before_the_first_round_an_absent_server_is_told_at_once(tmp_path: Path) -> None:
    """Nobody has answered anything yet, and the caller may know better what to do."""
    async with (
        served(ASKING, tmp_path) as (process, place),
        Client(f"http://{place}/mcp", revision="2026-07-28") as client,
    ):
        process.kill()
        await ended(process)
        with pytest.raises(PeerError, match=r"refused|closed|reset|broke off"):
            await client.call_tool("ask")


async def test_a_call_that_may_be_repeated_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a server knows it again; two calls have two names, and one that is never repeated has none."""
    monkeypatch.setattr(module, "PAUSES", (0.0,))
    bodies: list[Any] = []
    async with serving(resetting(bodies, 0)) as site, Client(site.url) as client:
        await client.call_tool("t")
        _ = [tool async for tool in client.tools()]
        for _ in range(2):
            await client.call_tool("t")
    names = [body["params"]["_meta"].get("antiphon/call") for body in bodies if body["method"] == "tools/call"]
    assert names[0] is None
    assert len({*names[1:]} - {None}) == 2
    bodies.clear()
    async with serving(resetting(bodies, 1, after=1)) as site, Client(site.url) as client:
        _ = [tool async for tool in client.tools()]
        await client.call_tool("t")
    sent = [body["params"]["_meta"]["antiphon/call"] for body in bodies if body["method"] == "tools/call"]
    assert (len(sent), len({*sent})) == (2, 1)
