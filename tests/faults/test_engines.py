"""Three replicas in processes of their own whose engine is killed, started again, empty, slow or gone.

How long an engine is gone is told by ``ANTIPHON_ENGINE_GONE``, in seconds; as long as it takes to show what holds
meanwhile, and at least that long.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from operator import gt
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import msgspec
import pytest

from tests.support.child_server import started, wait_for_start
from tests.support.network import META, moment, until
from tests.support.ports import free_port
from tests.support.postgres import Postgres, own_postgres
from tests.support.redis import OwnRedis, own_redis

PROGRAM = '''
import asyncio
import os

from antiphon import Context, Server
from antiphon.server import PostgresCluster, RedisCluster
from antiphon.types import ToolAnnotations

url = os.environ["SHOP_ENGINE"]
server = Server("shop", version="1", cluster=(RedisCluster if url.startswith("redis") else PostgresCluster)(url))


@server.tool(structured=False)
async def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool(structured=False)
async def count(to: int, ctx: Context) -> str:
    """Report each number as progress."""
    for number in range(to):
        await ctx.progress(number, to)
    return "counted"


@server.resource("shop://hat")
def hat() -> str:
    """Wear it."""
    return "hat"


@server.tool(structured=False)
async def sell() -> str:
    """Change the hat."""
    server.resource_updated("shop://hat")
    return "sold"


@server.tool(structured=False, annotations=ToolAnnotations(idempotent_hint=True))
async def ask(ctx: Context) -> str:
    """Ask the client's model."""
    return (await ctx.sample("hat?", max_tokens=5)).text
'''
REVISION = "2025-11-25"
GONE = float(os.environ.get("ANTIPHON_ENGINE_GONE", "3"))
PATIENCE = 60
"""Seconds that anything may take on a busy machine."""
Json = dict[str, Any]


class Engine(Protocol):
    """What is done to an engine."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def stand_still(self) -> None: ...
    def go_on(self) -> None: ...
    def lose_everything(self) -> None: ...


@pytest.fixture(
    params=[pytest.param("redis", marks=pytest.mark.redis), pytest.param("postgres", marks=pytest.mark.postgres)]
)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnRedis | Postgres]:
    """Run each of the engines."""
    if request.param == "redis":
        with own_redis() as redis:
            monkeypatch.setenv("SHOP_ENGINE", redis.url)
            yield redis
    else:
        with own_postgres() as postgres:
            monkeypatch.setenv("SHOP_ENGINE", postgres.address)
            yield postgres


class Shop:
    """Three replicas, and bare HTTP to each of them."""

    def __init__(self, ports: list[int], http: aiohttp.ClientSession, pids: list[int]) -> None:
        self.ports = ports
        self.pids = pids
        self.http = http
        self.answered = [0] * len(ports)
        """How often each replica has answered a probe."""
        self._numbers = itertools.count(1)

    async def probe(self, at: int) -> None:
        """Ask a replica again and again whether it serves."""
        while True:
            async with asyncio.timeout(PATIENCE), self.http.get(f"http://127.0.0.1:{self.ports[at]}/healthz") as got:
                assert got.status == 200
            self.answered[at] += 1
            await asyncio.sleep(0.05)

    async def post(self, at: int, message: Json, session: str = "", **headers: str) -> tuple[int, list[Json], str]:
        """Post a message; return the status, the messages that came, and the session."""
        named = {"Mcp-Session-Id": session, "MCP-Protocol-Version": REVISION} if session else {}
        accept = {"Accept": "application/json, text/event-stream"}
        async with (
            asyncio.timeout(PATIENCE),
            self.http.post(
                f"http://127.0.0.1:{self.ports[at]}/mcp",
                json={"jsonrpc": "2.0", **message},
                headers=accept | named | headers,
            ) as got,
        ):
            body = await got.read()
            if got.content_type == "text/event-stream":
                found = [line[6:] for line in body.splitlines() if line.startswith(b"data: ") and line[6:]]
            else:
                found = [body] if body else []
            return got.status, [msgspec.json.decode(each) for each in found], got.headers.get("Mcp-Session-Id", "")

    async def open(self, at: int) -> str:
        """Open a session at a replica; return its id, empty if it was refused."""
        client = {
            "protocolVersion": REVISION,
            "capabilities": {"sampling": {}},
            "clientInfo": {"name": "c", "version": "1"},
        }
        status, _, session = await self.post(at, {"id": 0, "method": "initialize", "params": client})
        if status != 200:
            assert status == 503
            return ""
        status, _, _ = await self.post(at, {"method": "notifications/initialized"}, session)
        return session if status == 202 else ""

    async def call(
        self, at: int, session: str, name: str, progress: bool = False, **arguments: Any
    ) -> tuple[int, list[Json]]:
        """Call a tool in a session, at any replica."""
        number = next(self._numbers)
        params: Json = {"name": name, "arguments": arguments}
        if progress:
            params["_meta"] = {"progressToken": number}
        status, messages, _ = await self.post(at, {"id": number, "method": "tools/call", "params": params}, session)
        return status, messages

    async def echoes(self, at: int, session: str) -> bool:
        """Tell whether a call in a session is answered; otherwise it must fail clearly."""
        status, messages = await self.call(at, session, "echo", text="hat")
        if status == 200 and "result" in messages[-1]:
            assert messages[-1]["result"]["content"][0]["text"] == "hat"
            return True
        assert (status, messages[-1]["error"]["code"]) in {(503, -32603), (200, -32603)}, messages
        return False

    async def modern(self, at: int) -> bool:
        """Tell whether a call of 2026-07-28 is answered."""
        params = {"name": "echo", "arguments": {"text": "hat"}, "_meta": META}
        message = {"id": 1, "method": "tools/call", "params": params}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
        status, messages, _ = await self.post(at, message, **headers)
        return status == 200 and messages[-1]["result"]["content"][0]["text"] == "hat"

    @asynccontextmanager
    async def asking(self, at: int, session: str) -> AsyncIterator[Stream]:
        """Call the tool that asks, and read the stream of the call."""
        message = {"jsonrpc": "2.0", "id": "asks", "method": "tools/call", "params": {"name": "ask", "arguments": {}}}
        async with self.http.post(
            f"http://127.0.0.1:{self.ports[at]}/mcp", json=message, headers=headers_of(session)
        ) as got:
            assert got.status == 200, await got.read()
            yield Stream(got)

    @asynccontextmanager
    async def queued(self, at: int, message: Json, session: str) -> AsyncIterator[asyncio.StreamReader]:
        """Write a message to a replica, also to one that is stopped; yields what reads the response."""
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        head = {"Host": f"127.0.0.1:{self.ports[at]}", "Content-Type": "application/json", "Content-Length": len(body)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in (head | headers_of(session)).items())
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[at])
        writer.write(f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
        try:
            await writer.drain()
            yield reader
        finally:
            writer.close()

    @asynccontextmanager
    async def listening(self, at: int, session: str, last: str = "") -> AsyncIterator[Stream]:
        """Read the stream of a session at a replica."""
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "MCP-Protocol-Version": REVISION}
        if last:
            headers["Last-Event-ID"] = last
        async with self.http.get(f"http://127.0.0.1:{self.ports[at]}/mcp", headers=headers) as got:
            assert got.status == 200, await got.read()
            yield Stream(got)


def headers_of(session: str) -> dict[str, str]:
    """Return the headers of a message in a session."""
    accept = "application/json, text/event-stream"
    return {"Accept": accept, "Mcp-Session-Id": session, "MCP-Protocol-Version": REVISION}


def answer_to(ask: Json | None) -> Json:
    """Make the client's answer to an ask for a completion."""
    assert ask is not None
    assert ask["method"] == "sampling/createMessage"
    content = {"type": "text", "text": "hat"}
    return {"id": ask["id"], "result": {"role": "assistant", "model": "m", "content": content}}


class Stream:
    """A stream of events that is read."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.last = ""
        """The id of the last event."""

    async def next(self) -> Json | None:
        """Return the next message; ``None`` at the end."""
        async with asyncio.timeout(PATIENCE):
            async for line in self._response.content:
                if line.startswith(b"id: "):
                    self.last = line[4:].strip().decode()
                elif line.startswith(b"data: ") and line[6:].strip():
                    return msgspec.json.decode(line[6:])
        return None


@asynccontextmanager
async def shop(folder: Path) -> AsyncIterator[Shop]:
    """Run three replicas, which answer probes as long as this lasts."""
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    ports = [free_port() for _ in range(3)]
    processes = [started("serve", str(program), "--http", f"127.0.0.1:{each}") for each in ports]
    async with AsyncExitStack() as ending:
        for process in processes:
            ending.push_async_callback(asyncio.to_thread, process.communicate)
            ending.callback(end, process.pid)
        for each in ports:
            await wait_for_start(f"127.0.0.1:{each}")
        http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        made = Shop(ports, await ending.enter_async_context(http), [process.pid for process in processes])
        probing = [asyncio.ensure_future(made.probe(at)) for at in range(3)]
        try:
            yield made
            assert [each for each in probing if each.done()] == []
        finally:
            for each in probing:
                each.cancel()
            await asyncio.wait(probing)


def end(group: int) -> None:
    """Kill a process and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


async def eventually(attempt: Callable[[], Awaitable[object]]) -> None:
    """Try until something works."""
    async with asyncio.timeout(PATIENCE):
        while not await attempt():
            await moment()


async def gone_since(began: float) -> None:
    """Return once the engine has been gone for long enough."""
    await asyncio.sleep(max(0, began + GONE - asyncio.get_running_loop().time()))


async def goes_on(shop: Shop, sessions: list[str]) -> None:
    """Show what needs nothing of the engine: health, calls at home of a session, and at 2026-07-28."""
    before = list(shop.answered)
    for at, session in enumerate(sessions):
        assert await shop.echoes(at, session)
        assert await shop.modern(at)
    await until(lambda: all(now > then + 2 for now, then in zip(shop.answered, before, strict=True)), PATIENCE)


async def is_well(shop: Shop, sessions: list[str]) -> None:
    """Wait until all sessions are served by all replicas, new ones are opened, and notices reach all."""
    for at, session in enumerate(sessions):
        for other in range(3):
            await eventually(lambda other=other, session=session: shop.echoes(other, session))
        await eventually(lambda at=at: shop.open(at))


async def hears(shop: Shop, streams: list[Stream]) -> None:
    """Sell at the first replica, until the clients of all have heard it."""

    async def heard(stream: Stream) -> None:
        message = await stream.next()
        assert message is not None
        assert message["method"] == "notifications/resources/updated"

    await asyncio.gather(*map(heard, streams))


async def subscribed(shop: Shop, ending: AsyncExitStack) -> tuple[list[str], list[Stream]]:
    """Open a session at each replica that subscribes, and its stream."""
    sessions = [await shop.open(at) for at in range(3)]
    streams: list[Stream] = []
    for at, session in enumerate(sessions):
        message = {"id": 1, "method": "resources/subscribe", "params": {"uri": "shop://hat"}}
        status, _, _ = await shop.post(at, message, session)
        assert status == 200
        streams.append(await ending.enter_async_context(shop.listening(at, session)))
    return sessions, streams


@pytest.mark.parametrize("loses", [False, True], ids=["keeps", "loses"])
async def test_an_engine_that_starts_again(loses: bool, engine: Any, tmp_path: Path):
    """Whether or not it has its data: sessions live on, any replica finds them, and what changed meanwhile is heard."""
    async with AsyncExitStack() as ending:
        served = await ending.enter_async_context(shop(tmp_path))
        sessions, streams = await subscribed(served, ending)
        await is_well(served, sessions)
        await asyncio.to_thread(engine.stop)
        began = asyncio.get_running_loop().time()
        await goes_on(served, sessions)
        assert not await served.echoes(1, sessions[0])
        assert not await served.open(2)
        status, _ = await served.call(0, sessions[0], "sell")
        assert status == 200
        await gone_since(began)
        if loses:
            engine.lose_everything()
        await asyncio.to_thread(engine.start)
        await hears(served, streams)
        await is_well(served, sessions)


async def test_an_engine_that_loses_everything_within_a_moment(engine: Any, tmp_path: Path):
    """Nobody has noticed that it was gone, and its data must be there again."""
    async with shop(tmp_path) as served:
        sessions = [await served.open(at) for at in range(3)]
        await asyncio.to_thread(engine.stop)
        engine.lose_everything()
        await asyncio.to_thread(engine.start)

        async def found() -> bool:
            statuses = [
                await served.call((at + 1) % 3, session, "echo", text="hat") for at, session in enumerate(sessions)
            ]
            return all(status == 200 for status, _ in statuses)

        await eventually(found)
        await is_well(served, sessions)


async def test_an_engine_that_is_slow(engine: Any, tmp_path: Path):
    """It stands still for a second again and again: calls that need it are served late, or fail clearly."""
    async with shop(tmp_path) as served:
        sessions = [await served.open(at) for at in range(3)]
        stopped, done, failed = asyncio.Event(), [0] * 3, [0] * 3

        async def calls(at: int) -> None:
            while not stopped.is_set():
                counts = done if await served.echoes((at + 1) % 3, sessions[at]) else failed
                counts[at] += 1

        calling = [asyncio.ensure_future(calls(at)) for at in range(3)]
        for _ in range(max(3, round(GONE / 2))):
            engine.stand_still()
            await goes_on(served, sessions)
            await asyncio.sleep(1)
            engine.go_on()
            await asyncio.sleep(0.5)
            # More are served than fail, however few a busy machine serves in half a second.
            await until(lambda: all(map(gt, done, failed)) or any(each.done() for each in calling), PATIENCE)
        stopped.set()
        await asyncio.gather(*calling)
        await is_well(served, sessions)


async def test_an_engine_that_stands_still(engine: Any, tmp_path: Path):
    """Calls that send much on their stream go on without it, and what they have sent can be resumed."""
    async with AsyncExitStack() as ending:
        served = await ending.enter_async_context(shop(tmp_path))
        sessions, streams = await subscribed(served, ending)
        engine.stand_still()
        ending.callback(engine.go_on)
        began = asyncio.get_running_loop().time()
        status, messages = await served.call(0, sessions[0], "count", progress=True, to=50)
        assert (status, len(messages)) == (200, 51)
        status, _ = await served.call(0, sessions[0], "sell")
        assert status == 200
        assert await streams[0].next() is not None
        place = streams[0].last
        assert not await served.echoes(1, sessions[0])
        await goes_on(served, sessions)
        await gone_since(began)
        engine.go_on()
        await hears(served, streams[1:])
        await is_well(served, sessions)
        number, _, after = place.rpartition("-")
        resumed = await ending.enter_async_context(served.listening(2, sessions[0], f"{number}-{int(after) - 1}"))
        again = await resumed.next()
        assert again is not None
        assert again["method"] == "notifications/resources/updated"


async def test_a_home_that_was_stopped_takes_nothing_for_a_session_that_has_moved(engine: Any, tmp_path: Path):
    """The answer reaches it first when it goes on, and is passed on to the replica that took the session over."""
    async with AsyncExitStack() as ending:
        served = await ending.enter_async_context(shop(tmp_path))
        session = await served.open(0)
        call = await ending.enter_async_context(served.asking(0, session))
        assert await call.next() is not None
        os.killpg(served.pids[0], signal.SIGSTOP)
        ending.callback(os.killpg, served.pids[0], signal.SIGCONT)
        resumed = await ending.enter_async_context(served.listening(1, session, call.last))
        withdrawn = await resumed.next()
        assert withdrawn is not None
        assert withdrawn["method"] == "notifications/cancelled"
        answer = answer_to(await resumed.next())
        response = await ending.enter_async_context(served.queued(0, answer, session))
        os.killpg(served.pids[0], signal.SIGCONT)
        async with asyncio.timeout(PATIENCE):
            assert b" 202 " in await response.readline()
        result = await resumed.next()
        assert result is not None
        assert result["result"]["content"][0]["text"] == "hat"


async def test_an_answer_waits_for_an_engine_that_is_gone(engine: Any, tmp_path: Path):
    """It reaches another replica than the home, which takes it only when it can pass it on."""
    async with AsyncExitStack() as ending:
        served = await ending.enter_async_context(shop(tmp_path))
        session = await served.open(0)
        call = await ending.enter_async_context(served.asking(0, session))
        answer = answer_to(await call.next())
        await asyncio.to_thread(engine.stop)
        response = await ending.enter_async_context(served.queued(1, answer, session))
        assert not await served.echoes(1, session)
        await asyncio.to_thread(engine.start)
        async with asyncio.timeout(PATIENCE):
            assert b" 202 " in await response.readline()
        result = await call.next()
        assert result is not None
        assert result["result"]["content"][0]["text"] == "hat"


async def test_a_stream_that_is_resumed_without_the_engine_is_refused(engine: Any, tmp_path: Path):
    """The home cannot read what was sent, so the client comes again later."""
    async with AsyncExitStack() as ending:
        served = await ending.enter_async_context(shop(tmp_path))
        session = await served.open(0)
        call = await ending.enter_async_context(served.asking(0, session))
        assert await call.next() is not None
        await asyncio.to_thread(engine.stop)
        headers = headers_of(session) | {"Last-Event-ID": call.last}
        async with served.http.get(f"http://127.0.0.1:{served.ports[0]}/mcp", headers=headers) as got:
            assert (got.status, got.headers["Retry-After"]) == (503, "5")
        await asyncio.to_thread(engine.start)


async def test_a_call_that_asks_goes_on_without_the_engine(engine: Any, tmp_path: Path):
    """At 2026-07-28 it is kept in its process, though its journal cannot be stored, nor its owner looked up."""
    params: Json = {"name": "ask", "arguments": {}, "_meta": META}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ask"}
    async with shop(tmp_path) as served:
        began = await served.post(0, {"id": 1, "method": "tools/call", "params": params}, **headers)
        await asyncio.to_thread(engine.stop)
        for round_ in (began, await served.post(0, {"id": 1, "method": "tools/call", "params": params}, **headers)):
            status, [reply], _ = round_
            assert (status, reply["result"]["resultType"]) == (200, "input_required")
            answers = {
                key: answer_to({"id": 1, **each})["result"] for key, each in reply["result"]["inputRequests"].items()
            }
            again = params | {"inputResponses": answers, "requestState": reply["result"]["requestState"]}
            status, messages, _ = await served.post(0, {"id": 2, "method": "tools/call", "params": again}, **headers)
            assert (status, messages[-1]["result"]["content"][0]["text"]) == (200, "hat")
        status, [refused], _ = await served.post(1, {"id": 3, "method": "tools/call", "params": again}, **headers)
        assert (status, refused["error"]["code"]) == (503, 503)
        await asyncio.to_thread(engine.start)
