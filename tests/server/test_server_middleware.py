"""Middleware: around every request, on every revision, once for a call however many rounds it takes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from msgspec import structs

from antiphon import Client, Context, Server, Tool
from antiphon.errors import ConfigError, InvalidParams, PeerError, Rejected
from antiphon.server import CallNext, ServerRequest
from antiphon.testing import Script
from antiphon.types import CallToolResult, ListToolsResult, TextContent
from tests.support.cluster import cluster
from tests.support.raw_client import raw_client, text

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
ERAS = ["2025-11-25", "2026-07-28"]


def shop() -> Server:
    """Make a server with one feature of each kind, and a tool that asks."""
    server = Server("shop")

    @server.tool
    async def greet(name: str, ctx: Context) -> str:
        return f"hello {name} from {ctx.request.method}"

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def poem(ctx: Context) -> str:
        return (await ctx.sample("one")).text + (await ctx.sample("two")).text

    @server.resource("shop://stock")
    def stock() -> str:
        return "ten hats"

    @server.resource("shop://{kind}/price")
    def price(kind: str) -> str:
        return f"{kind}: 10"

    @server.prompt
    def ask(topic: str) -> str:
        return f"about {topic}"

    @server.complete("ask", "topic")
    def topics(value: str) -> list[str]:
        return [value + "!"]

    return server


def noting(server: Server, seen: list[str], name: str = "") -> None:
    """Let a server note every request on its way in and out."""

    @server.middleware
    async def note(request: ServerRequest, call_next: CallNext) -> Any:
        seen.append(f"{name}> {request.method}")
        try:
            return await call_next(request)
        finally:
            seen.append(f"{name}< {request.method}")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_request_passes_through(revision: str) -> None:
    """Each method, with the result that the client gets without middleware."""
    seen: list[str] = []
    server = shop()
    noting(server, seen)
    async with Client(server, revision=revision) as client, Client(shop(), revision=revision) as plain:
        for call in (
            lambda one: one.list_tools(),
            lambda one: one.list_prompts(),
            lambda one: one.list_resources(),
            lambda one: one.list_resource_templates(),
            lambda one: one.call_tool("greet", {"name": "Ada"}),
            lambda one: one.call_tool("add", {"a": 1, "b": 2}),
            lambda one: one.call_tool("add", {"a": "x"}),
            lambda one: one.read_resource("shop://stock"),
            lambda one: one.read_resource("shop://hat/price"),
            lambda one: one.get_prompt("ask", {"topic": "hats"}),
            lambda one: one.complete("ask", "topic", "ha"),
        ):
            assert await said_or_raised(call(client)) == await said_or_raised(call(plain))
    assert [line for line in seen if line.startswith("> ")] == [
        "> tools/list", "> prompts/list", "> resources/list", "> resources/templates/list", "> tools/call",
        "> tools/call", "> tools/call", "> resources/read", "> resources/read", "> prompts/get",
        "> completion/complete",
    ]  # fmt: skip
    assert len(seen) == 22


async def said_or_raised(call: Any) -> object:
    """Return the result of a call, or the error as the client sees it."""
    try:
        return await call
    except PeerError as error:
        return type(error), error.code, error.message


@pytest.mark.parametrize("revision", ERAS)
async def test_what_was_added_first_is_called_first(revision: str) -> None:
    """As layers of an onion."""
    seen: list[str] = []
    server = shop()
    noting(server, seen, "outer")
    noting(server, seen, "inner")
    async with Client(server, revision=revision) as client:
        await client.get_prompt("ask", {"topic": "x"})
    assert seen == ["outer> prompts/get", "inner> prompts/get", "inner< prompts/get", "outer< prompts/get"]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_call_that_asks_passes_once(revision: str) -> None:
    """Two rounds of questions are one call to middleware, and it can ask as the handler can."""
    seen: list[str] = []
    server = shop()
    noting(server, seen)

    @server.middleware
    async def ask(request: ServerRequest, call_next: CallNext) -> Any:
        answer = await request.ctx.sample("may I?")
        seen.append(answer.text)
        return await call_next(request)

    async with Client(server, revision=revision, sampling=Script(["yes", "roses", " are red"])) as client:
        assert (await client.call_tool("poem")).text == "roses are red"
    assert seen == ["> tools/call", "yes", "< tools/call"]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_request_may_be_changed(revision: str) -> None:
    """Arguments, and the name itself: the tool is looked up where the request arrives."""
    server = shop()

    @server.middleware
    async def redirect(request: ServerRequest, call_next: CallNext) -> Any:
        if request.method == "tools/call" and request.params.name == "welcome":
            arguments = {**request.arguments, "name": request.arguments["name"].upper()}
            return await call_next(request.replace(name="greet", arguments=arguments))
        return await call_next(request)

    async with Client(server, revision=revision) as client:
        assert (await client.call_tool("welcome", {"name": "Ada"})).text == "hello ADA from tools/call"
        with pytest.raises(InvalidParams, match="Unknown tool: nothing"):
            await client.call_tool("nothing")


@pytest.mark.parametrize("revision", ERAS)
async def test_a_request_may_be_answered(revision: str) -> None:
    """Without its handler; and a result may be changed, a page of a list too."""
    server = shop()

    @server.middleware
    async def answer(request: ServerRequest, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            return CallToolResult(content=[TextContent(text="from the cache")])
        result = await call_next(request)
        if isinstance(result, ListToolsResult):
            return structs.replace(result, tools=[tool for tool in result.tools if tool.name == "add"])
        return result

    async with Client(server, revision=revision) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "from the cache"
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_request_may_be_refused(revision: str) -> None:
    """An error of the protocol is told as it is; of any other the client learns nothing."""
    server = shop()

    @server.middleware
    async def refuse(request: ServerRequest, call_next: CallNext) -> Any:
        if request.method == "tools/call":
            raise Rejected("not today")
        if request.method == "prompts/get":
            raise ValueError("a secret")
        return await call_next(request)

    async with Client(server, revision=revision) as client:
        with pytest.raises(Rejected, match="not today"):
            await client.call_tool("add", {"a": 1, "b": 2})
        with pytest.raises(PeerError) as caught:
            await client.get_prompt("ask", {"topic": "x"})
        assert "secret" not in str(caught.value)
        assert (await client.read_resource("shop://stock")).contents


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("given", [None, {"content": []}, "text"])
async def test_what_is_no_result_is_told_to_the_author(
    revision: str, given: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of the wrong type goes to a client: it gets an error, the log the name of the function."""
    server = shop()

    @server.middleware
    async def forgetful(request: ServerRequest, call_next: CallNext) -> Any:
        await call_next(request)
        return given

    async with Client(server, revision=revision) as client:
        with pytest.raises(PeerError):
            await client.call_tool("add", {"a": 1, "b": 2})
    assert "forgetful returned" in caplog.text
    assert "return what call_next returned, or a CallToolResult" in caplog.text


@pytest.mark.parametrize("revision", ERAS)
async def test_cancelling_reaches_middleware(revision: str) -> None:
    """A call that the client withdraws ends the middleware around it too."""
    server, began, ended = shop(), asyncio.Event(), asyncio.Event()

    @server.middleware
    async def wait(request: ServerRequest, call_next: CallNext) -> Any:
        if request.method != "tools/call":
            return await call_next(request)
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Client(server, revision=revision) as client:
        task = asyncio.create_task(client.call_tool("add", {"a": 1, "b": 2}))
        await began.wait()
        task.cancel()
        async with asyncio.timeout(30):
            await ended.wait()


async def test_a_subscription_stays_open() -> None:
    """It has no result before its end; whoever refuses it raises."""
    seen: list[str] = []
    server = shop()
    noting(server, seen)
    async with Client(server, revision="2026-07-28") as client, client.listen(tools=True) as changes:
        server.add_tool(Tool(name="new", input_schema={"type": "object"}), lambda arguments: "x")
        async for _ in changes:
            break
    assert seen == ["> subscriptions/listen", "< subscriptions/listen"]


async def test_a_call_goes_on_in_another_process_through_its_middleware() -> None:
    """The middleware is run again with the handler; where its code is another, the call does not go on."""

    async def poem(ctx: Context) -> str:
        return (await ctx.sample("one")).text

    async def shout(request: ServerRequest, call_next: CallNext) -> Any:
        result = await call_next(request)
        return structs.replace(result, content=[TextContent(text=result.text.upper())])

    async def whisper(request: ServerRequest, call_next: CallNext) -> Any:
        return await call_next(request)

    async with AsyncExitStack() as stack, cluster(poem, 3) as processes:
        for server, function in zip(processes.servers, [shout, shout, whisper], strict=True):
            server.middleware(function)
        processes.clients = [await stack.enter_async_context(raw_client(server)) for server in processes.servers]
        round = await processes.begin()
        assert await processes.refused(2, round) == "Invalid or expired requestState"
        assert text(await processes.go_on(1, round, "roses")) == "ROSES"


def test_middleware_is_a_function() -> None:
    """Said where it is added."""
    with pytest.raises(ConfigError, match="middleware is a function"):
        Server("s").middleware("loud")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_result_that_is_repeated_can_still_be_changed(revision: str):
    """It is encoded once, and sent so unless middleware outside of its maker changes it."""
    server, made, is_changed = shop(), [], False

    @server.middleware
    async def outside(request: ServerRequest, call_next: CallNext) -> Any:
        result = await call_next(request)
        if not is_changed or request.method != "tools/list":
            return result
        return structs.replace(result, tools=[structs.replace(tool, name="changed") for tool in result.tools])

    encoded = {}

    @server.middleware
    async def inside(request: ServerRequest, call_next: CallNext) -> Any:
        def make() -> ListToolsResult:
            made.append(request.method)
            return ListToolsResult(tools=[Tool(name="made", input_schema={})])

        return request.repeat(encoded, make) if request.method == "tools/list" else await call_next(request)

    for is_changed in (False, True, False):
        async with Client(server, revision=revision) as client:
            expected = "changed" if is_changed else "made"
            assert [tool.name for tool in (await client.list_tools()).tools] == [expected]
    assert made == ["tools/list"]


@pytest.mark.parametrize(("arguments", "kind"), [([1], "array"), ("x", "string"), (1, "integer")])
async def test_arguments_that_are_no_object_are_the_clients_mistake(arguments: Any, kind: str) -> None:
    """Middleware that looks at them need not expect anything else."""
    server = shop()

    @server.middleware
    async def look(request: ServerRequest, call_next: CallNext) -> Any:
        return await call_next(request.replace(arguments=request.arguments))

    async with raw_client(server) as raw:
        reply = await raw.reply(raw.modern("tools/call", name="add", arguments=arguments))
    assert reply["error"] == {"code": -32602, "message": f"arguments: expected object, got {kind}"}
