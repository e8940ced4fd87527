"""Over HTTP an ask comes on the stream of its call, so its origin is exact, and the limits are each call's own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from antiphon import Client, Context, RemoteProtocolError, Server
from antiphon.client.rounds.loop import RoundLimits
from antiphon.wire.origin import Origin
from tests.support.asgi import running
from tests.support.raw_server import RawServer


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_over_http_every_ask_knows_its_call(revision: str) -> None:
    """Many calls at once: each answerer is told the right one."""
    server = Server("s")

    @server.tool
    async def ask(text: str, ctx: Context) -> str:
        return " ".join([(await ctx.sample(text)).text for _ in range(3)])

    async def answer(params: Any, origin: Origin) -> str:
        await asyncio.sleep(0)
        assert origin.call is not None
        assert origin.call.arguments == {"text": params.messages[0].text}
        return origin.call.arguments["text"]

    async with (
        running(server.asgi()) as host,
        Client(f"http://{host}/mcp", sampling=answer, revision=revision) as client,
    ):
        calls = [client.call_tool("ask", {"text": str(n)}) for n in range(10)]
        results = await asyncio.gather(*calls)
    assert [result.text for result in results] == [" ".join([str(n)] * 3) for n in range(10)]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_call_that_asks_too_much_is_given_up_alone(revision: str) -> None:
    """The one beside it goes on."""
    server = Server("s")
    gate = asyncio.Event()

    @server.tool
    async def ask(times: int, ctx: Context) -> str:
        for _ in range(times):
            await ctx.sample("?")
        await gate.wait()
        return "done"

    async def yes(_params: Any, _origin: Origin) -> str:
        return "yes"

    async with running(server.asgi()) as host:
        limits = RoundLimits(asks=5)
        async with Client(f"http://{host}/mcp", sampling=yes, revision=revision, limits=limits) as client:
            modest = asyncio.create_task(client.call_tool("ask", {"times": 5}))
            greedy = asyncio.create_task(client.call_tool("ask", {"times": 6}))
            with pytest.raises(RemoteProtocolError, match="more than 5 answers"):
                await greedy
            gate.set()
            assert (await modest).text == "done"


@pytest.mark.parametrize("passes", [1, 3, 10, 30])
async def test_calls_cancelled_at_once_take_no_other_with_them(passes: int) -> None:
    """Their asks are still on their way when the next call is made, which asks nothing."""
    server = Server("many")

    @server.tool
    async def ask(ctx: Context) -> str:
        return str(await asyncio.gather(*(ctx.sample(f"{n}?") for n in range(4))))

    @server.tool
    async def echo(text: str) -> str:
        return text

    async def never(_params: Any, _origin: Any) -> str:
        await asyncio.Event().wait()
        return ""

    async with Client(server, sampling=never, revision="2025-11-25") as client:
        for _ in range(3):
            calls = [asyncio.ensure_future(client.call_tool("ask")) for _ in range(60)]
            for _ in range(passes):
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
            await asyncio.gather(*calls, return_exceptions=True)


Json = dict[str, Any]
ASKED: Json = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5}


class LateServer:
    """A server of Streamable HTTP that asks on the stream of a call before it confirms that the call is cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.answers: dict[str, Json] = {}
        self._cancelled = asyncio.Event()
        self._answered = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        if scope["method"] != "POST":
            await self._reply(send, 405)
            return
        message = json.loads((await receive())["body"])
        method = message.get("method")
        if method == "initialize":
            result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}}
            result["serverInfo"] = {"name": "late", "version": "1"}
            await self._reply(send, 200, {"jsonrpc": "2.0", "id": message["id"], "result": result})
        elif method == "tools/call":
            await self._call(send, message)
        else:
            if method is None:
                self.answers[message["id"]] = message
                self._answered.set()
            elif method == "notifications/cancelled":
                self._cancelled.set()
                await self._answered.wait()
            await self._reply(send, 202)

    async def _call(self, send: Any, message: Json) -> None:
        result = {"content": [{"type": "text", "text": "done"}]}
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        name = message["params"]["name"]
        await self._start(send, 200, b"text/event-stream")
        self.begun.set()
        if name == "cancelled":
            await self._cancelled.wait()
            ask = {"jsonrpc": "2.0", "id": "late", "method": "sampling/createMessage", "params": ASKED}
            await self._event(send, ask)
        await self._answered.wait()
        await self._event(send, reply)
        await send({"type": "http.response.body", "body": b""})

    async def _event(self, send: Any, message: Json) -> None:
        body = f"data: {json.dumps(message)}\n\n".encode()
        await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _start(self, send: Any, status: int, kind: bytes) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})

    async def _reply(self, send: Any, status: int, message: Json | None = None) -> None:
        await self._start(send, status, b"application/json")
        body = b"" if message is None else json.dumps(message).encode()
        await send({"type": "http.response.body", "body": body})


async def test_an_ask_of_a_cancelled_call_is_no_ask_of_the_only_open_one() -> None:
    """The ask comes on the stream of a request that has ended, so it is refused, and nobody sees it."""
    server = LateServer()
    seen: list[Origin] = []

    async def answer(_params: Any, origin: Origin) -> str:
        seen.append(origin)
        return "yes"

    async with running(server) as host, Client(f"http://{host}/mcp", sampling=answer, revision="2025-11-25") as client:
        cancelled = asyncio.create_task(client.call_tool("cancelled"))
        await server.begun.wait()
        server.begun.clear()
        other = asyncio.create_task(client.call_tool("other"))
        await server.begun.wait()
        cancelled.cancel()
        assert (await other).text == "done"
    assert seen == []
    error = server.answers["late"]["error"]
    assert (error["code"], error["message"]) == (-32600, "The request that this belongs to has ended")


async def test_where_streams_are_shared_a_late_ask_is_of_no_known_call() -> None:
    """Its answerer learns that nobody knows the call, until the server has answered a call that was made later."""
    held: list[Any] = []
    server = RawServer(tools_call=lambda message: held.append(message["id"]))
    seen: list[Origin] = []

    async def answer(_params: Any, origin: Origin) -> str:
        seen.append(origin)
        return "yes"

    async def call(name: str, client: Client) -> asyncio.Task[Any]:
        before = len(held)
        task = asyncio.create_task(client.call_tool(name))
        async with asyncio.timeout(60):
            while len(held) == before:
                server.news.clear()
                await server.news.wait()
        return task

    async with Client(server, sampling=answer, revision="2025-11-25") as client:
        given_up = await call("given up", client)
        given_up.cancel()
        await server.request("notifications/cancelled")
        for id, name in enumerate(("next", "last")):
            task = await call(name, client)
            server.sample(id)
            await server.answer(id)
            server.send({"id": held[-1], "result": {"content": []}})
            await task
    assert [(origin.call and origin.call.name, origin.unclear) for origin in seen] == [(None, True), ("last", False)]
