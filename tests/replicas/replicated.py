"""What several replicas of a server do together, on any engine. ``Replicated`` is a class of tests.

Its module has two fixtures: ``engine`` is a function that makes one more replica's part in the same cluster, and
``kill`` an async one that lets such a part vanish for the others.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from antiphon import Context, Server
from antiphon.replicas.http import membership
from antiphon.server import Cluster, Rate
from antiphon.types import ToolAnnotations
from tests.support.network import until
from tests.transports.http.server.driver import Open, Response, ask, begin, closing, listen, post

Engine = Callable[[], Any]
Kill = Callable[[Any], Awaitable[None]]
REVISION = "2025-11-25"
NUMBERS = itertools.count()


class Replica:
    """One of the servers."""

    def __init__(self, cluster: Cluster, *, max_sessions: int = 100, **options: Any) -> None:
        self.cluster = cluster
        self.server = Server("catalogue", keys=[b"k" * 32], cluster=cluster, declares=["resources"], **options)
        self.app = self.server.asgi(
            check_token=lambda token: token.removeprefix("token-of-"), idle_timeout=600, max_sessions=max_sessions
        )
        self.cancelled = asyncio.Event()
        self.held: asyncio.Event | None = None
        self.runs = self.reserved = 0
        self.server.tool(self.describe)
        self.server.tool(self.wait)
        self.server.tool(self.whoami)
        self.server.tool(annotations=ToolAnnotations(idempotent_hint=True))(self.look_up)
        self.server.tool(self.order)
        self.server.resource("catalogue://{product}")(lambda product: product)

    async def describe(self, product: str, ctx: Context) -> str:
        """Describe a product by a model."""
        self.runs += 1
        return (await ctx.sample(f"Describe {product}")).text

    async def look_up(self, product: str, ctx: Context) -> str:
        """Ask twice; whoever runs it again does no harm."""
        self.runs += 1
        if self.held is not None:
            self.held.set()
            await asyncio.Event().wait()
        first = (await ctx.sample(f"first {product}")).text
        return f"{first} {(await ctx.sample(f'second {product}')).text}"

    async def order(self, product: str, ctx: Context) -> str:
        """Ask, take a step, and ask again."""
        self.runs += 1
        wish = (await ctx.sample(f"wish {product}")).text
        number = await ctx.step("reserve", self.reserve)
        await ctx.progress(1, 2)
        return f"{wish} {number} {(await ctx.sample(f'card {product}')).text}"

    def hold(self) -> asyncio.Event:
        """Let ``look_up`` do nothing but set an event, from now on."""
        self.held = asyncio.Event()
        return self.held

    async def reserve(self) -> str:
        """Take a number."""
        self.reserved += 1
        return f"number of {self.cluster.replica}"

    async def wait(self, ctx: Context) -> str:
        """Wait until the client cancels."""
        self.runs += 1
        await ctx.progress(1, 2)
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        return ""

    def whoami(self, ctx: Context) -> str:
        """Tell who calls, and a header of theirs."""
        return f"{ctx.request.principal} {ctx.request.headers['x-color']}"


class Trio:
    """Three replicas, and a client of them that knows one session id."""

    def __init__(self, replicas: list[Replica], kill: Kill) -> None:
        self.replicas = replicas
        self._kill = kill
        self.session = ""
        self.revision = REVISION

    async def open(self, at: int = 0, principal: str = "ann", revision: str = REVISION) -> None:
        """Greet one of the replicas."""
        self.revision = revision
        params = {
            "protocolVersion": revision,
            "capabilities": {"sampling": {}},
            "clientInfo": {"name": "c", "version": "1"},
        }
        greeted = await self.post(at, {"id": 0, "method": "initialize", "params": params}, principal)
        self.session = greeted.headers["mcp-session-id"]
        accepted = await self.post(at, {"method": "notifications/initialized"}, principal)
        assert accepted.status == 202

    async def post(self, at: int, message: dict[str, Any], principal: str = "ann") -> Response:
        """Post to one of the replicas, and wait for the response."""
        return await self.begin(at, message, principal).done()

    def begin(self, at: int, message: dict[str, Any], principal: str = "ann") -> Open:
        """Post to one of the replicas."""
        return begin(self.replicas[at].app, {"jsonrpc": "2.0", **message}, **self.headers(principal))

    def call(self, at: int, tool: str, id: int = 1, **arguments: Any) -> Open:
        """Call a tool at one of the replicas."""
        meta = {"progressToken": "p"}
        return self.begin(
            at, {"id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments, "_meta": meta}}
        )

    async def modern(
        self, at: int, tool: str, more: dict[str, Any] | None = None, principal: str = "ann", **arguments: Any
    ) -> dict[str, Any]:
        """Call a tool at one of the replicas, as clients of 2026-07-28 do; return the result."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"sampling": {}},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta, **(more or {})}
        headers = {
            "authorization": f"Bearer token-of-{principal}",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": tool,
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        response = await begin(self.replicas[at].app, message, **headers).done()
        return response.json["result"]

    def listen(self, at: int, **headers: str) -> Open:
        """Open a stream with GET at one of the replicas."""
        return listen(self.replicas[at].app, **self.headers(), **headers)

    def headers(self, principal: str = "ann") -> dict[str, str]:
        """Return those of every request."""
        named = {"mcp-session-id": self.session, "mcp-protocol-version": self.revision} if self.session else {}
        return {"authorization": f"Bearer token-of-{principal}", "x-color": "blue", "cookie": "crumb", **named}

    async def die(self, at: int) -> None:
        """Let one of the replicas vanish for the others, without telling it."""
        await self._kill(self.replicas[at].cluster)
        # As after the silence of a lease, which has to pass first.
        for each in self.replicas:
            each.app._endpoint.homes._relays._spoken.clear()


@pytest.fixture
async def trio(engine: Engine, kill: Kill) -> AsyncIterator[Trio]:
    """Run three replicas."""
    async with serving(engine, kill) as made:
        yield made


@asynccontextmanager
async def serving(engine: Engine, kill: Kill, **options: Any) -> AsyncIterator[Trio]:
    """Run three replicas with options."""
    async with AsyncExitStack() as stack:
        # At the end of a test nothing is passed on any more.
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(membership, "_STAYS", 0)
        replicas = [Replica(engine(), **options) for _ in range(3)]
        for each in replicas:
            await stack.enter_async_context(closing(each.app))
            # A call of a replica that has died does not end by itself.
            stack.push_async_callback(each.app.drain, 0)
            await each.app.hold()
        yield Trio(replicas, kill)


def answer(ask: dict[str, Any], text: str) -> dict[str, Any]:
    """Answer a request for sampling."""
    content = {"type": "text", "text": text}
    return {"id": ask["id"], "result": {"role": "assistant", "content": content, "model": "m"}}


def said(round: dict[str, Any], text: str) -> dict[str, Any]:
    """Answer the one question of a round, with its state."""
    [key] = round["inputRequests"]
    content = {"type": "text", "text": text}
    answers = {key: {"role": "assistant", "content": content, "model": "m"}}
    return {"requestState": round["requestState"], "inputResponses": answers}


async def question(open: Open, text: str) -> dict[str, Any]:
    """Wait for a question on a stream, and return it."""
    await open.response.until(text.encode())
    return next(each for each in open.response.messages if each.get("params", {}).get("messages") and text in str(each))


def result_of(response: Response) -> str:
    """Return the text of the last message on a stream, which is a result."""
    return response.messages[-1]["result"]["content"][0]["text"]


class Replicated:
    async def test_an_ask_is_answered_at_another_replica(self, trio: Trio):
        """Session at the first, call at the second, answer at the third: the handler goes on, and runs once."""
        await trio.open(0)
        call = trio.call(1, "describe", product="hat")
        await call.response.until(b"sampling/createMessage")
        [asked] = [message for message in call.response.messages if "method" in message]
        assert (await trio.post(2, answer(asked, "warm"))).status == 202
        reply = (await call.done()).messages[-1]
        assert reply["result"]["content"] == [{"type": "text", "text": "warm"}]
        assert sum(each.runs for each in trio.replicas) == 1

    async def test_a_call_is_cancelled_at_another_replica(self, trio: Trio):
        """The handler is, wherever it runs."""
        await trio.open(0)
        call = trio.call(1, "wait")
        await call.response.until(b"notifications/progress")
        params = {"requestId": 1, "reason": "enough"}
        assert (await trio.post(2, {"method": "notifications/cancelled", "params": params})).status == 202
        async with asyncio.timeout(30):
            await trio.replicas[0].cancelled.wait()
        await call.done()

    async def test_a_session_is_only_its_principals_at_every_replica(self, trio: Trio):
        """Whoever learns its id gets what an unknown id gets."""
        await trio.open(0)
        for at in range(3):
            refused = await trio.post(at, {"id": 5, "method": "tools/list"}, "eve")
            assert refused.status == 404
            assert (await trio.post(at, {"id": 5, "method": "tools/list"})).status == 200
        found, trio.session = trio.session, "f" * 32
        assert (await trio.post(1, {"id": 5, "method": "tools/list"})).json["error"] == refused.json["error"]
        trio.session = found

    async def test_a_handler_knows_who_calls_wherever_the_request_arrives(self, trio: Trio):
        """It has the principal, and the headers that the session was opened with."""
        await trio.open(0)
        told = [(await trio.call(at, "whoami").done()).json["result"]["content"][0]["text"] for at in range(3)]
        assert told == ["ann blue"] * 3

    async def test_a_stream_is_opened_and_resumed_at_any_replica(self, trio: Trio):
        """A change at the third reaches the client at the second; what came meanwhile it gets at the first."""
        await trio.open(0)
        params = {"uri": "catalogue://hat"}
        assert (await trio.post(2, {"id": 3, "method": "resources/subscribe", "params": params})).status == 200
        stream = trio.listen(1)
        await stream.response.until(b"id:")
        trio.replicas[2].server.resource_updated("catalogue://hat")
        await stream.response.until(b"resources/updated")
        last = stream.response.events[-1].id
        stream.disconnect()
        await stream.done()
        trio.replicas[1].server.list_changed("tools")
        again = trio.listen(0, last_event_id=last or "")
        await again.response.until(b"tools/list_changed")
        assert [message["method"] for message in again.response.messages] == ["notifications/tools/list_changed"]
        again.disconnect()
        await again.done()

    async def test_a_stream_begins_at_once_at_another_replica(self, trio: Trio):
        """Clients wait for its head before they go on; at this revision no event comes with it."""
        await trio.open(0, revision="2025-03-26")
        stream = trio.listen(1)
        await stream.response.begun()
        assert (stream.response.is_stream, stream.response.body) == (True, b"")
        stream.disconnect()
        await stream.done()

    async def test_what_is_added_in_one_replica_is_told_to_the_clients_of_all(self, trio: Trio):
        """Once, however many tools were added at the same time."""
        await trio.open(0)
        stream = trio.listen(0)
        await stream.response.until(b": ")
        for name in ("one", "two", "three"):
            trio.replicas[1].server.tool(name=name)(trio.replicas[1].describe)
        await stream.response.until(b"tools/list_changed")
        trio.replicas[1].server.list_changed("prompts")
        await stream.response.until(b"prompts/list_changed")
        methods = [message["method"] for message in stream.response.messages]
        assert methods == ["notifications/tools/list_changed", "notifications/prompts/list_changed"]
        stream.disconnect()
        await stream.done()

    async def test_a_session_ends_everywhere(self, trio: Trio):
        """Its client may say so at any replica."""
        await trio.open(0)
        assert (await ask(trio.replicas[1].app, "DELETE", **trio.headers())).status == 204
        assert [(await trio.post(at, {"id": 5, "method": "ping"})).status for at in range(3)] == [404, 404, 404]

    async def test_an_idle_session_goes_on_elsewhere_as_soon_as_its_replica_is_to_stop(self, trio: Trio):
        """Although that one is still there, as the others see it."""
        await trio.open(0)
        await trio.replicas[0].app.drain(30)
        assert await trio.replicas[1].cluster.is_alive(trio.replicas[0].cluster.replica)
        assert (await trio.call(1, "whoami").done()).json["result"]["content"][0]["text"] == "ann blue"
        assert (await trio.call(2, "whoami").done()).json["result"]["content"][0]["text"] == "ann blue"

    async def test_a_replica_that_is_to_stop_finishes_its_calls(self, trio: Trio):
        """What comes meanwhile for the same session waits for that, and is served elsewhere."""
        await trio.open(0)
        call = trio.call(1, "describe", product="hat")
        await call.response.until(b"sampling/createMessage")
        stopping = asyncio.ensure_future(trio.replicas[0].app.drain(30))
        home = trio.replicas[0].app._endpoint
        await until(lambda: home._draining)
        later = [trio.call(at, "whoami", id=at + 5) for at in (1, 2)]
        await until(lambda: len(home.homes._relays._served) == 3)
        assert (await trio.post(2, answer(call.response.messages[-1], "warm"))).status == 202
        assert (await call.done()).messages[-1]["result"]["content"][0]["text"] == "warm"
        served = [await each.done() for each in later]
        assert [each.json["result"]["content"][0]["text"] for each in served] == ["ann blue"] * 2
        await stopping

    @pytest.mark.parametrize("has_left", [False, True])
    async def test_a_call_at_a_replica_that_is_to_stop_may_be_sent_again(
        self, trio: Trio, has_left: bool, monkeypatch: pytest.MonkeyPatch
    ):
        """Also if that replica has left and another one has the session by then: it is never "not found"."""
        await trio.open(0)
        call = trio.call(1, "describe", product="hat")
        await call.response.until(b"sampling/createMessage")
        stopping = asyncio.ensure_future(trio.replicas[0].app.drain(30))
        home, looks = trio.replicas[0].app._endpoint, asyncio.Event()
        await until(lambda: home._draining)
        serve = home.homes.serve

        async def serve_late(*given: Any) -> None:
            await looks.wait()
            await serve(*given)

        monkeypatch.setattr(home.homes, "serve", serve_late)
        own = trio.call(0, "whoami", id=5)
        await until(lambda: home.homes._released)
        assert (await trio.post(2, answer(call.response.messages[-1], "warm"))).status == 202
        assert (await call.done()).messages[-1]["result"]["content"][0]["text"] == "warm"
        if has_left:
            await stopping
            assert (await trio.call(1, "whoami", id=6).done()).json["result"]["content"][0]["text"] == "ann blue"
        looks.set()
        told = await own.done()
        assert (told.status, told.headers["antiphon-not-accepted"]) == (503, "1")
        await stopping

    async def test_an_idle_session_survives_its_replica(self, trio: Trio):
        """With what was agreed, whose it is, and what it subscribes to; it is only its principal's there, too."""
        await trio.open(0)
        params = {"uri": "catalogue://hat"}
        await trio.post(1, {"id": 3, "method": "resources/subscribe", "params": params})
        await trio.die(0)
        assert (await trio.post(1, {"id": 5, "method": "tools/list"}, "eve")).status == 404
        call = trio.call(2, "describe", id=6, product="hat")
        await call.response.until(b"sampling/createMessage")
        asked = call.response.messages[-1]
        await trio.post(1, answer(asked, "still warm"))
        assert (await call.done()).messages[-1]["result"]["content"][0]["text"] == "still warm"
        assert asked["id"] > 2**32
        stream = trio.listen(1)
        await stream.response.until(b"id:")
        trio.replicas[1].server.resource_updated("catalogue://hat")
        await stream.response.until(b"resources/updated")
        stream.disconnect()
        await stream.done()

    async def test_a_call_ends_with_an_error_when_its_replica_dies(self, trio: Trio):
        """Its client is connected to another one, which notices."""
        await trio.open(0)
        call = trio.call(1, "wait", id=9)
        await call.response.until(b"notifications/progress")
        await trio.die(0)
        reply = (await call.done()).messages[-1]
        assert reply["id"] == 9
        assert "has stopped" in reply["error"]["message"]

    async def test_a_client_learns_of_the_death_when_it_resumes(self, trio: Trio):
        """It was connected to the replica that died, and asks another one for the rest of its stream, twice."""
        await trio.open(0)
        call = trio.call(0, "wait", id=9)
        await call.response.until(b"notifications/progress")
        last = call.response.events[-1].id
        await trio.die(0)
        for at in (1, 2):
            resumed = await trio.listen(at, last_event_id=last or "").done()
            assert [(each["id"], "has stopped" in each["error"]["message"]) for each in resumed.messages] == [(9, True)]
        call.disconnect()

    async def test_a_call_of_an_idempotent_tool_goes_on_elsewhere(self, trio: Trio):
        """Its client is connected to another replica, and sees no end: the answer it gave is not asked for again."""
        await trio.open(0)
        call = trio.call(1, "look_up", id=9, product="hat")
        first = await question(call, "first hat")
        await trio.post(2, answer(first, "warm"))
        second = await question(call, "second hat")
        await trio.die(0)
        await call.response.until(b"notifications/cancelled")
        await call.response.until(b'"id":4294967297')
        asks = [each for each in call.response.messages if "second hat" in str(each)]
        assert [each["params"]["requestId"] for each in call.response.messages if "requestId" in str(each)] == [
            second["id"]
        ]
        assert (await trio.post(2, answer(asks[-1], "and soft"))).status == 202
        response = await call.done()
        assert result_of(response) == "warm and soft"
        assert response.messages[-1]["id"] == 9
        assert sum("first hat" in str(each) for each in response.messages) == 1
        assert [each.runs for each in trio.replicas] == [1, 1, 0]

    async def test_a_call_with_a_journal_goes_on_elsewhere(self, trio: Trio):
        """Its client was connected to the replica that died, and resumes: no step twice, and nothing asked twice."""
        await trio.open(0)
        call = trio.call(0, "order", id=9, product="hat")
        await trio.post(0, answer(await question(call, "wish hat"), "warm"))
        card = await question(call, "card hat")
        last = call.response.events[-1].id
        home = trio.replicas[0].cluster.replica
        await trio.die(0)
        assert (await trio.post(2, answer(card, "keep it"))).status == 202
        resumed = await trio.listen(1, last_event_id=last or "").done()
        assert [each["id"] for each in resumed.messages] == [9]
        assert result_of(resumed) == f"warm number of {home} keep it"
        assert sum(each.reserved for each in trio.replicas) == 1
        assert sum(each.runs for each in trio.replicas) == 2
        call.disconnect()

    async def test_a_call_that_has_sent_nothing_goes_on_elsewhere(self, trio: Trio):
        """It was passed on to the replica that died, and is begun again with what that had recorded."""
        await trio.open(0)
        held = trio.replicas[0].hold()
        call = trio.call(1, "look_up", id=9, product="hat")
        await held.wait()
        await trio.die(0)
        for text, words in (("first hat", "warm"), ("second hat", "and soft")):
            await trio.post(2, answer(await question(call, text), words))
        assert result_of(await call.done()) == "warm and soft"

    async def test_a_call_that_nobody_may_repeat_has_no_second_run(self, trio: Trio):
        """It has asked, and taken no step."""
        await trio.open(0)
        call = trio.call(0, "describe", id=9, product="hat")
        await question(call, "Describe hat")
        last = call.response.events[-1].id
        await trio.die(0)
        resumed = await trio.listen(1, last_event_id=last or "").done()
        assert "has stopped" in resumed.messages[-1]["error"]["message"]
        assert sum(each.runs for each in trio.replicas) == 1
        call.disconnect()

    async def test_a_retry_goes_to_the_replica_where_its_call_is_parked(self, trio: Trio):
        """The function runs once, wherever the retries arrive; once that replica has died, it runs again elsewhere."""
        first = await trio.modern(0, "look_up", product="hat")
        second = await trio.modern(1, "look_up", said(first, "warm"), product="hat")
        assert [each.runs for each in trio.replicas] == [1, 0, 0]
        await trio.die(0)
        done = await trio.modern(2, "look_up", said(second, "and soft"), product="hat")
        assert done["content"][0]["text"] == "warm and soft"
        assert [each.runs for each in trio.replicas] == [1, 0, 1]

    async def test_a_request_in_a_batch_or_unreadable_goes_home_too(self, trio: Trio):
        """A body is looked at where its session lives."""
        await trio.open(0)
        for body in (b"[]", b"{", b"[1]"):
            here, there = [await post(trio.replicas[at].app, body, **trio.headers()) for at in (0, 1)]
            assert (here.status, here.json) == (there.status, there.json)

    async def test_sessions_are_counted_at_all_replicas_together(self, engine: Engine, kill: Kill):
        """Three replicas have the places of one."""
        async with serving(engine, kill, max_sessions=6) as trio:
            opened = [0, 0, 0]
            for at in (0, 1, 2, 0, 1, 2):
                await agree(trio)
                while opened[at] < 10 and await opens(trio, at):
                    opened[at] += 1
            assert 6 <= sum(opened) <= 8
            assert min(opened) > 0

    async def test_calls_are_counted_at_all_replicas_together(self, engine: Engine, kill: Kill):
        """Who has used up its burst at one waits at the others as well."""
        rate = Rate(per_second=0.001, burst=5, patience=1)
        async with serving(engine, kill, tool_rate=rate) as trio:
            sessions: list[str] = []
            for at in (0, 1):
                trio.session = ""
                await trio.open(at)
                sessions.append(trio.session)
            trio.session = sessions[0]
            for number in range(5):
                assert "result" in (await trio.call(0, "whoami", id=number).done()).json
            await agree(trio)
            trio.session = sessions[1]
            refused = (await trio.call(1, "whoami").done()).json
            assert refused["error"]["data"]["retryAfter"] > 1


async def opens(trio: Trio, at: int) -> bool:
    """Open a session, of a principal of its own, if there is a place."""
    trio.session = ""
    client = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    message = {"id": 0, "method": "initialize", "params": client}
    status = (await trio.post(at, message, f"principal-{next(NUMBERS)}")).status
    assert status in (200, 503)
    return status == 200


async def agree(trio: Trio) -> None:
    """Have all replicas tell each other what they have counted, and wait until all have heard it."""
    tallies = [each.server._service.replicas.tallies for each in trio.replicas]
    heard = asyncio.Event()
    waiting = {
        (at, replica.cluster.replica) for at in range(3) for other, replica in enumerate(trio.replicas) if other != at
    }

    def hear(at: int) -> Callable[[str, Any], None]:
        def noted(replica: str, _counts: Any) -> None:
            waiting.discard((at, replica))
            if not waiting:
                heard.set()

        return noted

    # The last subject of each telling, so that all others have arrived, too.
    ends = [each.add("~", lambda: {"": 1}, hear(at)) for at, each in enumerate(tallies)]
    for each in tallies:
        await each.tell()
    async with asyncio.timeout(60):
        await heard.wait()
    for end in ends:
        end()
