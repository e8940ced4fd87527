"""Mounted servers: what one offers is offered by another, and works there as it does alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon import Client, Context, Server
from antiphon.errors import ConfigError, InvalidParams, PeerError, Rejected, ResourceNotFound
from antiphon.protocol.caller import Caller
from antiphon.server import CallNext, Rate, ServerRequest, SqlTaskStore, TaskOptions
from antiphon.testing import Script
from antiphon.types import ListResourcesResult, ListToolsResult, ReadResourceResult, Resource, Tool
from tests.support.cluster import KEY
from tests.support.mounted import noting, outcome, outer_of, shop
from tests.support.raw_client import raw_client, said
from tests.support.tasking import tasking

ERAS = ["2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_handler_sees_its_own_server(revision: str) -> None:
    """Name, state, resources, and the logger of its messages."""

    @asynccontextmanager
    async def lifespan(_server: Server) -> AsyncGenerator[str]:
        yield "the shop's state"

    inner = shop(lifespan=lifespan)
    logged: list[str | None] = []
    reported: list[float] = []

    @inner.tool
    async def look(ctx: Context) -> str:
        await ctx.info("looking")
        await ctx.progress(1, 2)
        return f"{ctx.server.name}, {ctx.state}, {(await ctx.read_resource('shop://stock')).contents[0].text}"

    server = outer_of((inner, "s"))

    @server.tool
    async def browse(ctx: Context) -> str:
        return f"{ctx.server.name}, {ctx.state}, {(await ctx.read_resource('shop://stock')).contents[0].text}"

    async with Client(
        server, revision=revision, on_log=lambda params: logged.append(params.logger), log_level="info"
    ) as client:
        result = await client.call_tool("s__look", progress=lambda done, *_: reported.append(done))
        assert result.text == "shop, the shop's state, ten hats"
        assert (await client.call_tool("browse")).text == "outer, None, ten hats"
    assert logged == ["shop"]
    assert reported == [1]


async def test_a_mounted_server_without_a_model_uses_that_of_the_outer_one() -> None:
    """Its own comes first; and a tool that needs sampling is listed and served where either has one."""

    def made(**options: Any) -> Server:
        server = Server("inner", **options)

        @server.tool(requires="sampling")
        async def say(ctx: Context) -> str:
            return (await ctx.sample("say")).text

        return server

    async def outers(_params: Any) -> str:
        return "outer's"

    async def own(_params: Any) -> str:
        return "own"

    for inner, options, expected in (
        (made(), {"sampling_fallback": outers}, "outer's"),
        (made(sampling_fallback=own), {"sampling_fallback": outers}, "own"),
        (made(sampling_fallback=own), {}, "own"),
        (made(), {}, None),
    ):
        async with Client(outer_of((inner, "i"), **options), revision="2025-11-25") as client:
            listed = [tool.name async for tool in client.tools()]
            result = await client.call_tool("i__say")
            assert (listed, result.text, result.is_error) == (
                (["i__say"], expected, False)
                if expected is not None
                else ([], "say needs a client that offers sampling", True)
            )


# --- middleware ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ERAS)
async def test_middleware_runs_around_the_requests_of_its_own_server(revision: str) -> None:
    """The outer one's around all, in the outer names; a mounted one's around its own, in its own names; once a call."""
    seen: list[str] = []
    first, second = shop(), Server("second")

    @second.tool
    def other() -> str:
        return "other"

    @second.resource("second://x")
    def x() -> str:
        return "x"

    server = outer_of((first, "one"), (second, "two"))
    noting(server, seen, "outer")
    noting(first, seen, "first")
    noting(second, seen, "second")
    async with Client(server, sampling=Script(["1", "2", "3"]), revision=revision) as client:
        assert (await client.call_tool("one__poem")).text == "123"
        await client.call_tool("two__other")
        await client.get_prompt("one__ask", {"topic": "x"})
        await client.read_resource("second://x")
        await client.complete("one__ask", "topic", "x")
        await client.list_prompts()
    assert seen == [
        "outer tools/call one__poem", "first tools/call poem",
        "outer tools/call two__other", "second tools/call other",
        "outer prompts/get one__ask", "first prompts/get ask",
        "outer resources/read second://x", "second resources/read second://x",
        "outer completion/complete", "first completion/complete",
        "outer prompts/list", "first prompts/list", "second prompts/list",
    ]  # fmt: skip


@pytest.mark.parametrize("revision", ERAS)
async def test_middleware_of_a_mounted_server_may_answer_what_no_registry_holds(revision: str) -> None:
    """A list of its own, tools and resources of its own: as a gateway does."""
    inner = Server("dynamic", declares=["tools", "resources"])

    @inner.middleware
    async def answer(request: ServerRequest, call_next: CallNext) -> Any:
        match request.method:
            case "tools/list":
                return ListToolsResult(tools=[Tool(name="made_up", input_schema={"type": "object"})])
            case "resources/list":
                return ListResourcesResult(resources=[Resource(uri="made-up://x", name="x")])
            case "tools/call" if request.params.name == "made_up":
                return antiphon.CallToolResult(content=[antiphon.TextContent(text="made up")])
            case "resources/read" if request.params.uri == "made-up://x":
                return ReadResourceResult(contents=[])
            case _:
                return await call_next(request)

    for prefix, at in (("d", "d__"), (None, "")):
        server = outer_of((shop(), "s"), (inner, prefix))
        async with Client(server, revision=revision) as client:
            assert [tool.name async for tool in client.tools()][-1] == f"{at}made_up"
            assert [one.uri async for one in client.resources()] == ["shop://stock", "made-up://x"]
            assert (await client.call_tool(f"{at}made_up")).text == "made up"
            assert (await client.read_resource("made-up://x")).contents == []
            with pytest.raises(ResourceNotFound, match="made-up://y"):
                await client.read_resource("made-up://y")
            with pytest.raises(InvalidParams, match=f"Unknown tool: {at and 'other'}"):
                await client.call_tool(f"{at}other")


async def test_pages_go_on_from_one_mounted_server_to_the_next() -> None:
    """Each item once, and a cursor that is not ours is refused."""
    inners = [shop(f"s{n}", page_size=2) for n in range(3)]
    for inner in inners[1:]:
        noting(inner, [], "x")
        for name in inner.resources.names():
            inner.resources.remove(name)
        for name in inner.templates.names():
            inner.templates.remove(name)
    server = outer_of(*((inner, f"p{n}") for n, inner in enumerate(inners)), page_size=3)
    async with Client(server) as client:
        names = [tool.name async for tool in client.tools()]
        assert names == [f"p{n}__{name}" for n in range(3) for name in ("greet", "add", "fail", "poem")]
        for cursor in ("mount.9.", "mount.-1.", "mount.1", "mount.x.", "mount.1.zzz", f"mount.{'1' * 5_000}."):
            with pytest.raises(InvalidParams, match="Invalid cursor"):
                await client.list_tools(cursor)


@pytest.mark.parametrize("revision", ERAS)
async def test_middleware_of_a_mounted_server_may_refuse_a_subscription(revision: str) -> None:
    """It sees its own URIs only; those of others are none of its business."""
    seen: list[Any] = []
    inner, plain = shop(), Server("plain")

    @plain.resource("plain://x")
    def x() -> str:
        return "x"

    @inner.middleware
    async def guard(request: ServerRequest, call_next: CallNext) -> Any:
        if request.method in ("resources/subscribe", "subscriptions/listen"):
            wanted = getattr(request.params, "notifications", None)
            seen.append([request.params.uri] if wanted is None else wanted.resource_subscriptions)
            if "shop://stock" in seen[-1]:
                raise Rejected("not for you")
        return await call_next(request)

    async with Client(outer_of((inner, "i"), (plain, "p")), revision=revision) as client:
        with pytest.raises(Rejected, match="not for you"):
            async with client.listen(uris=["shop://stock"]):
                raise AssertionError("subscribed")
        async with client.listen(uris=["plain://x", "shop://hat/price"]) as changes:
            for uri in ("plain://x", "shop://hat/price"):
                (plain if uri == "plain://x" else inner).resource_updated(uri)
                async with asyncio.timeout(30):
                    assert (await anext(changes)).uri == uri
    assert seen == [["shop://stock"], ["shop://hat/price"]]


# --- changes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ERAS)
async def test_what_changes_in_a_mounted_server_is_told_to_the_clients_of_the_outer_one(revision: str) -> None:
    """Updates of its resources, features that come and go, and lists that its middleware answers, two levels down."""
    inner = shop()
    server = outer_of((outer_of((inner, "b")), "a"))
    async with Client(server, revision=revision) as client, client.listen(
        tools=True, prompts=True, uris=["shop://stock"]
    ) as changes:  # fmt: skip
        inner.resource_updated("shop://stock")
        async with asyncio.timeout(30):
            assert (await anext(changes)).uri == "shop://stock"
            inner.tool(name="new")(lambda: "new")
            assert (await anext(changes)).kind == "tools"
            assert (await client.call_tool("a__b__new")).text == "new"
            inner.tools.remove("new")
            assert (await anext(changes)).kind == "tools"
            with pytest.raises(InvalidParams, match="Unknown tool: a__b__new"):
                await client.call_tool("a__b__new")
            inner.list_changed("prompts")
            assert (await anext(changes)).kind == "prompts"


# --- permissions and limits ---------------------------------------------------------------------------------------


async def test_scopes_of_a_mounted_server_hold() -> None:
    """For its tools, resources and prompts, behind middleware or not."""
    for with_middleware in (False, True):
        inner = Server("inner")
        if with_middleware:
            noting(inner, [], "x")
        inner.tool(name="sell", scopes=["orders:write"])(lambda: "sold")
        inner.resource("inner://x", name="x", scopes=["read"])(lambda: "x")
        inner.prompt(name="ask", scopes=["ask"])(lambda: "ask")
        server = outer_of((inner, "i"))
        calls: dict[str, Callable[[Client], Awaitable[Any]]] = {
            "orders:write": lambda client: client.call_tool("i__sell"),
            "read": lambda client: client.read_resource("inner://x"),
            "ask": lambda client: client.get_prompt("i__ask"),
        }
        for scope, call in calls.items():
            for held in (frozenset(), frozenset({scope})):
                caller = Caller(principal="ada", scopes=held)
                async with as_caller(server, caller) as client:
                    assert isinstance(await outcome(call(client)), tuple) is not bool(held), (scope, held)


@asynccontextmanager
async def as_caller(server: Server, caller: Caller) -> AsyncGenerator[Client]:
    """Connect to a server with what a token says."""

    class Target:
        async def serve(self, channel: Any) -> None:
            await server.serve(channel, caller=caller)

    async with Client(Target()) as client:
        yield client


async def test_the_tool_rate_of_a_mounted_server_holds() -> None:
    """Beside that of the outer one."""
    slow = Rate(per_second=0.001, burst=1, patience=0.0)
    for inner, outer in ((slow, None), (None, slow)):
        async with Client(outer_of((shop(tool_rate=inner), "s"), tool_rate=outer)) as client:
            await client.call_tool("s__add", {"a": 1, "b": 2})
            with pytest.raises(PeerError, match="Too many tool calls"):
                await client.call_tool("s__add", {"a": 1, "b": 2})


# --- calls that take several requests -----------------------------------------------------------------------------


async def test_a_call_of_a_mounted_server_is_bound_to_its_outer_name() -> None:
    """A state of one tool continues no other, even if both are the same tool of the same server underneath."""
    first, second = shop("first"), shop("second")
    for server in (first, second):
        for registry in (server.resources, server.templates):
            for name in registry.names():
                registry.remove(name)
    async with raw_client(outer_of((first, "a"), (second, "b"))) as client:
        round = await client.call("a__poem")
        answers = {key: said("x") for key in round["inputRequests"]}
        error = await client.error(
            "tools/call", name="b__poem", arguments={}, requestState=round["requestState"], inputResponses=answers
        )
        assert error["code"] == -32602
        assert len((await client.retry(round, "a__poem", answers))["inputRequests"]) == 1


@pytest.mark.parametrize("with_middleware", [False, True])
async def test_a_call_of_a_mounted_server_goes_on_in_another_process(with_middleware: bool) -> None:
    """By the keys of the outer server; handler and middleware run again there."""
    runs: list[str] = []

    def made() -> Server:
        inner = shop()
        if with_middleware:
            noting(inner, runs, "inner")
        return outer_of((inner, "s"), keys=[KEY])

    async with AsyncExitStack() as stack:
        here, there = [await stack.enter_async_context(raw_client(made())) for _ in range(2)]
        round = await here.call("s__poem")
        answers = {key: said("x") for key in round["inputRequests"]}
        round = await there.retry(round, "s__poem", answers)
        (key,) = round["inputRequests"]
        done = await here.retry(round, "s__poem", {key: said("y")})
        assert done["content"][0]["text"] == "xxy"
    assert runs == ["inner tools/call poem"] * (3 if with_middleware else 0)


@pytest.mark.parametrize("with_middleware", [False, True])
async def test_a_tool_of_a_mounted_server_becomes_a_task_of_the_outer_one(with_middleware: bool) -> None:
    """It asks, reports and ends there as any other."""
    inner = Server("inner")
    if with_middleware:
        noting(inner, [], "inner")

    @inner.tool(task="required")
    async def ask(ctx: Context) -> str:
        return f"{ctx.server.name}: {(await ctx.sample('What now?')).text}"

    async with tasking(outer_of((inner, "i"))) as client:
        handle = await client.start("i__ask")
        seen = await client.until(handle, "input_required")
        await client.answer(handle, dict.fromkeys(seen["inputRequests"], said("tea")))
        assert await client.text(handle) == "inner: tea"


async def test_a_task_of_a_mounted_server_goes_on_in_another_process(tmp_path: Path) -> None:
    """In the store of the outer server, over what it has learnt; no step is taken again."""
    taken: list[str] = []

    def made(store: SqlTaskStore) -> Server:
        inner = Server("inner")

        @inner.tool(task="required")
        async def ask(ctx: Context) -> str:
            drafted = await ctx.step("draft", lambda: taken.append("draft") or "drafted")
            return f"{drafted}, {(await ctx.sample('What now?')).text}"

        return outer_of((inner, "i"), keys=[KEY], tasks=TaskOptions(store=store))

    async with SqlTaskStore(tmp_path / "tasks.db") as store, tasking(made(store)) as client:
        handle = await client.start("i__ask")
        await client.until(handle, "input_required")
    async with SqlTaskStore(tmp_path / "tasks.db") as store, tasking(made(store)) as client:
        await client.answer(handle, "tea")
        assert await client.text(handle) == "drafted, tea"
    assert taken == ["draft"]


# --- names --------------------------------------------------------------------------------------------------------


def test_names_that_are_taken_are_an_error_that_names_both_servers() -> None:
    """Whoever comes second: a mount, a tool of the outer server, a tool of the mounted one. Nothing changes then."""
    server, first, second = Server("outer"), shop("first"), Server("second")
    server.mount(first, prefix="x")
    second.tool(name="other")(lambda: "other")
    second.tool(name="greet")(lambda: "hello")
    with pytest.raises(ConfigError, match="tool 'x__greet' is there already: the server 'first' has it, and the server "
                                          "'second' has one of that name, too"):  # fmt: skip
        server.mount(second, prefix="x")
    assert "x__other" not in server.tools
    with pytest.raises(ConfigError, match="'x__add' is there already: the server 'first' has it, and this server"):
        server.tool(name="x__add")(lambda: 1)
    server.tool(name="x__late")(lambda: 1)
    with pytest.raises(ConfigError, match=r"'x__late' .* the server that it would be mounted on .* the server 'first'"):
        first.tool(name="late")(lambda: 1)
    assert "late" not in first.tools
    with pytest.raises(ConfigError, match=r"resource 'shop://stock' .* the server 'first' .* the server 'third'"):
        server.mount(shop("third"), prefix="y")
    first.tools.remove("greet")
    assert "x__greet" not in server.tools


@pytest.mark.parametrize("prefix", ["", "a__b", "_a", "a_", "a b", "ä", "a/b", "a."])
def test_a_prefix_that_could_not_be_told_from_a_name_is_refused(prefix: str) -> None:
    """The first two underscores in a row end it."""
    with pytest.raises(ConfigError, match="single underscores between them"):
        Server("outer").mount(shop(), prefix=prefix)


def test_what_cannot_be_mounted_says_so() -> None:
    """Itself, even through another; twice; what is no server; a name that becomes too long."""
    server, inner = Server("outer"), shop()
    server.mount(inner, prefix="s")
    with pytest.raises(ConfigError, match="'shop' cannot be mounted on itself"):
        inner.mount(server)
    with pytest.raises(ConfigError, match="'shop' is mounted on 'outer' already"):
        server.mount(inner, prefix="t")
    wrong: Any = 7
    with pytest.raises(ConfigError, match=r"mount\(\) takes a Server"):
        server.mount(wrong)
    for target in ("https://shop.example/mcp", ["node", "shop.js"], {"command": "node"}):
        wrong = target
        with pytest.raises(ConfigError, match=r"server\.mount\(Proxy\(target\)\)"):
            server.mount(wrong)
    long = Server("long")
    long.tool(name="n" * 120)(lambda: 1)
    with pytest.raises(ConfigError, match="more than 128 characters: mount the server with a shorter prefix"):
        server.mount(long, prefix="prefix-of-nine")
